"""What torch.nn, torch.optim and torch.utils have and this library leaves out on purpose; see minigrad/ops/left_out.py."""
import sys
from collections.abc import Mapping
from typing import Any

from minigrad.extend import by_name, left_out, refuse

BY_HAND = "use tensor operations: a loss is a few of them"
IMAGES = "use nn.PatchEmbedding for images, and x.unfold with nn.Linear for other windows"
NORMS = "use nn.LayerNorm, nn.RMSNorm or nn.GroupNorm"
CELLS = "use nn.RNN, nn.GRU or nn.LSTM, on sequences of one element too"
PADS = "use nn.functional.pad"
DROPS = "use nn.Dropout"
QUANTIZED = "tensors hold float32, float64, int64, bool or bfloat16"
RANKS = "use `mpiexec -n 4 minigrad train`"
ITSELF = "import the names from the package itself"
RATES = "use nn.optim.LambdaLR, whose factor is any function of the step, or nn.optim.warmup_annealing"

LEFT_OUT = {
    "nn": {
        "GRUCell LSTMCell RNNBase RNNCell RNNCellBase": CELLS,
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Fold Unfold AdaptiveAvgPool1d "
        "AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d "
        "AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d "
        "MaxUnpool1d MaxUnpool2d MaxUnpool3d ChannelShuffle PixelShuffle PixelUnshuffle Upsample UpsamplingBilinear2d "
        "UpsamplingNearest2d": IMAGES,
        "BatchNorm1d BatchNorm2d BatchNorm3d CrossMapLRN2d InstanceNorm1d InstanceNorm2d InstanceNorm3d "
        "LocalResponseNorm SyncBatchNorm": NORMS,
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear "
        "UninitializedBuffer UninitializedParameter": "use layers with given sizes, such as nn.Linear",
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d": PADS,
        "AlphaDropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout": DROPS,
        "Hardshrink Softshrink Threshold": "use x.where(x > threshold, 0.0)",
        "RReLU": "use nn.LeakyReLU",
        "Softmax2d": "use nn.Softmax(-3)",
        "Bilinear": "use mg.einsum('bi,oij,bj->bo', x, weight, y)",
        "CosineSimilarity": "use nn.functional.cosine_similarity",
        "PairwiseDistance": "use (x - y).norm(dim=-1)",
        "EmbeddingBag": "use nn.Embedding, and .mean(-2)",
        "AdaptiveLogSoftmaxWithLoss LinearCrossEntropyLoss LinearCrossEntropyOptions": "use nn.CrossEntropyLoss",
        "CTCLoss CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss "
        "MultiLabelSoftMarginLoss MultiMarginLoss PoissonNLLLoss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss": BY_HAND,
        "NLLLoss2d": "use nn.NLLLoss",
        "Buffer": "use nn.Module.register_buffer",
        "Container": "use nn.Sequential",
        "DataParallel parallel": RANKS,
        "modules parameter": ITSELF,
        "intrinsic qat quantizable quantized": QUANTIZED,
    },
    "nn.functional": {
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d "
        "adaptive_max_pool3d_with_indices affine_grid avg_pool1d avg_pool2d avg_pool3d channel_shuffle conv1d conv2d "
        "conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d fold fractional_max_pool2d "
        "fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices grid_sample "
        "interpolate lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool1d_with_indices max_pool2d "
        "max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d "
        "native_channel_shuffle pixel_shuffle pixel_unshuffle unfold upsample upsample_bilinear upsample_nearest": IMAGES,
        "batch_norm instance_norm local_response_norm":
            "use nn.functional.layer_norm or nn.functional.rms_norm",
        "alpha_dropout dropout1d dropout2d dropout3d feature_alpha_dropout": "use nn.functional.dropout",
        "gumbel_softmax": "use (x - mg.rand_like(x).log().neg().log()).softmax(-1)",
        "hardshrink softshrink threshold threshold_": "use x.where(x > threshold, 0.0)",
        "rrelu rrelu_": "use nn.functional.leaky_relu",
        "celu_ elu_ hardtanh_ leaky_relu_ relu_ selu_": "use the name without _: the result has memory of its own",
        "bilinear": "use mg.einsum('bi,oij,bj->bo', x, weight, y)",
        "embedding_bag": "use nn.functional.embedding, and .mean(-2)",
        "pairwise_distance pdist": "use (x - y).norm(dim=-1)",
        "multi_head_attention_forward": "use nn.MultiheadAttention, or nn.functional.scaled_dot_product_attention",
        "cosine_embedding_loss ctc_loss gaussian_nll_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss "
        "multilabel_margin_loss multilabel_soft_margin_loss poisson_nll_loss soft_margin_loss triplet_margin_loss "
        "triplet_margin_with_distance_loss": BY_HAND,
        "linear_cross_entropy": "use nn.functional.linear and nn.functional.cross_entropy",
        "grouped_mm scaled_grouped_mm scaled_mm": QUANTIZED,
    },
    "nn.init": {
        "dirac_ dirac eye eye_ sparse sparse_": "write to tensor.data",
        "constant kaiming_normal kaiming_uniform normal orthogonal uniform xavier_normal xavier_uniform":
            "use the name with _",
    },
    "nn.optim": {
        "ASGD Adadelta Adafactor Adagrad Adamax LBFGS NAdam RAdam RMSprop Rprop SparseAdam":
            "use nn.optim.AdamW, nn.optim.SGD or nn.optim.Muon",
        "swa_utils": "use a copy of the parameters, and average in place",
    },
    "nn.optim.lr_scheduler": {
        "ChainedScheduler CosineAnnealingWarmRestarts CyclicLR MultiplicativeLR OneCycleLR PolynomialLR "
        "ReduceLROnPlateau": RATES,
    },
    "nn.utils": {
        "clip_grad_norm clip_grads_with_norm_ get_total_norm": "use nn.utils.clip_grad_norm_",
        "parameters_to_vector": "use mg.cat([p.reshape(-1) for p in model.parameters()])",
        "vector_to_parameters": "write vector.split(sizes) to p.data",
        "parametrizations parametrize remove_spectral_norm remove_weight_norm spectral_norm weight_norm":
            "compute the weight in forward, and use nn.functional.linear",
        "prune": "write zeros to p.data",
        "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format convert_parameters fuse_conv_bn_eval "
        "fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights fusion memory_format stateless":
            "there is nothing to convert or to fuse",
        "checkpoint": "use smaller batches, and call backward() for each before step(): their gradients add up",
        "clip_grad": ITSELF,
        "dlpack": "use mg.from_dlpack",
        "flop_counter": "use mg.count_flops",
        "model_zoo": "use models.load(folder)",
        "tensorboard": "use the package tensorboardX, or print the numbers",
        "cpp_extension": "use mg.Function, with a forward and a backward in NumPy or Numba",
    },
    "nn.utils.rnn": {
        "PackedSequence PackedSequence_ invert_permutation pack_padded_sequence pack_sequence pad_packed_sequence "
        "unpack_sequence": "layers take no packed sequences; use nn.utils.rnn.pad_sequence",
        "unpad_sequence": "use [x[:length] for x, length in zip(padded, lengths)]",
    },
    "nn.utils.data": {
        "DistributedSampler distributed": RANKS,
        "dataloader dataset sampler": ITSELF,
        "ChainDataset StackDataset": "use nn.utils.data.ConcatDataset, or nn.utils.data.TensorDataset",
        "DFIterDataPipe DataChunk IterDataPipe MapDataPipe datapipes functional_datapipe": "use a Python generator",
        "default_convert": "use mg.as_tensor",
        "get_worker_info": "there are no workers",
    },
}

OF_MODULES = by_name({  # methods of modules and containers
    "compile": "use mg.compile on a training step",
    "copy fromkeys": "use nn.ParameterDict(parameters)",
    "get_extra_state set_extra_state": "use register_buffer",
    "ipu mtia share_memory xpu": "cpu is the only device",
    "register_backward_hook register_full_backward_pre_hook": "use register_full_backward_hook",
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook": "change the dict that load_state_dict gets",
    "register_state_dict_post_hook register_state_dict_pre_hook": "change the dict that state_dict returns",
    "set_submodule": "use setattr(model.get_submodule(parent), name, module)",
    "to_empty": "use nn.utils.skip_init",
    "type": "use .to(dtype)",
})

OF_OPTIMIZERS = by_name({
    "register_step_post_hook register_step_pre_hook": "write a subclass whose step() does more",
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook": OF_MODULES["register_load_state_dict_pre_hook"],
    "register_state_dict_post_hook register_state_dict_pre_hook": OF_MODULES["register_state_dict_pre_hook"],
})

WORKERS = "everything runs in this process"
LENGTHS = "write rows of other lengths to weight.data"
KEYWORDS: dict[str, tuple[str, set[Any]]] = by_name({  # {keyword: (what to use instead, values that ask for nothing)}
    # of functions and layers
    "size_average reduce": ("use reduction=, which is 'mean', 'sum' or 'none'", {None}),
    "weight": ("multiply the losses of reduction='none' by it", {None}),
    "max_norm": (LENGTHS, {None}),
    "norm_type": (LENGTHS, {2.0}),
    "scale_grad_by_freq": ("change the gradient in weight.register_hook", {False}),
    "sparse": ("gradients are dense", {False}),
    "_weight": ("use nn.Embedding.from_pretrained", {None}),
    "_freeze": ("use nn.Embedding.from_pretrained", {False}),
    "out": ("results have memory of their own; use x.copy_(result)", {None}),
    # of optimizers
    "foreach fused": ("all parameters are updated at once in any case", {None, False, True}),
    "capturable": ("mg.compile captures any step", {False}),
    "differentiable": ("use mg.grad with create_graph=True, and write the step with tensor operations", {False}),
    "decoupled_weight_decay": ("use nn.optim.AdamW", {False}),
    "closure": ("compute the loss and call backward() before step()", {None}),
    "epoch": ("call step() once for each epoch", {None}),
    # of DataLoader
    "timeout": (WORKERS, {0}),
    "multiprocessing_context prefetch_factor worker_init_fn": (WORKERS, {None}),
    "persistent_workers": (WORKERS, {False}),
    "in_order": (WORKERS, {True}),
    "pin_memory_device": ("cpu is the only device", {""}),
    # of modules' methods
    "assign": ("values are copied; use model.to(dtype) before", {False}),
    "destination": ("use destination.update(model.state_dict())", {None}),
    "prefix": ("use {prefix + name: value for name, value in model.state_dict().items()}", {""}),
    "keep_vars": ("use named_parameters() and named_buffers()", {False}),
    "prepend": ("hooks run in the order of their registration", {False}),
    "always_call": ("use try and finally around the call", {False}),
    "with_kwargs": ("a hook before forward gets positional arguments only", {False}),
})


def check_left_out(owner: str, given: Mapping[str, Any]) -> None:
    """TypeError for these keywords, which `owner` has not taken, unless their values ask for nothing."""
    refuse(owner, given, KEYWORDS)


def say_what_is_left_out(module: str) -> None:
    """Give a module of `nn` its `__getattr__`. Were it written there, type checkers would accept any name."""
    vars(sys.modules[module])["__getattr__"] = left_out(module, LEFT_OUT[module])
