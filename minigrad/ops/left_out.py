"""What PyTorch has and this library leaves out on purpose, and what to use instead.

A table is {"name another": reason}; nn/left_out.py has those of `nn`. Looking up such a name raises an AttributeError
that says what to write instead, as for `mg.cdist` or `x.cdist`. tests/test_left_out.py checks that nothing else of
PyTorch's is missing, and that the suggested alternatives exist.
"""
import sys
from collections.abc import Callable, Hashable, Mapping
from opcode import opmap
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

Value = TypeVar("Value")

DENSE = "tensors are dense, and of float32, float64, int64, bool or bfloat16"
NUMPYS = "use NumPy's on x.numpy(), and mg.from_numpy; mg.Function gives it a gradient"

FUNCTIONS = {
    # other names
    "absolute": "use mg.abs",
    "adjoint": "use x.mT",
    "argwhere nonzero_static": "use mg.nonzero",
    "asarray": "use mg.as_tensor",
    "concatenate": "use mg.cat",
    "detach": "use x.detach()",
    "divide true_divide": "use mg.div",
    "fix": "use mg.trunc",
    "ger": "use mg.outer",
    "greater": "use mg.gt",
    "greater_equal": "use mg.ge",
    "initial_seed seed": "use mg.manual_seed",
    "less": "use mg.lt",
    "less_equal": "use mg.le",
    "moveaxis": "use mg.movedim",
    "multiply": "use mg.mul",
    "negative": "use mg.neg",
    "not_equal": "use mg.ne",
    "positive": "use x itself",
    "row_stack": "use mg.vstack",
    "sgn": "use mg.sign",
    "split_with_sizes": "use mg.split",
    "subtract rsub": "use mg.sub",
    "swapdims": "use mg.swapaxes",
    "vdot": "use mg.dot",
    "frobenius_norm nuclear_norm norm_except_dim renorm": "use mg.norm",
    "binary_cross_entropy_with_logits celu cosine_similarity dropout embedding group_norm kl_div layer_norm prelu rms_norm "
    "selu":
        "use the function of mg.nn.functional",
    # short expressions
    "addmm addmv addbmm baddbmm addr": "use c + a @ b, or c + mg.outer(a, b)",
    "aminmax": "use mg.amin and mg.amax",
    "atleast_1d atleast_2d atleast_3d": "use x.reshape",
    "bincount histc histogram histogramdd": "use mg.nn.functional.one_hot(x).sum(0)",
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor":
        "use mg.logical_and and the like for booleans; integers have arithmetic only",
    "block_diag": "use mg.diag, or write the blocks into mg.zeros",
    "broadcast_shapes": "use np.broadcast_shapes",
    "broadcast_tensors": "use x.expand",
    "bucketize searchsorted": "use (x[..., None] > edges).sum(-1)",
    "cartesian_prod combinations": "use mg.meshgrid",
    "cdist dist pairwise_distance pdist": "use (a[:, None] - b[None]).norm(dim=-1)",
    "chain_matmul": "use a @ b @ c",
    "column_stack dstack": "use mg.stack(tensors, dim)",
    "copysign": "use mg.where(y < 0, -x.abs(), x.abs())",
    "corrcoef cov": "use centred @ centred.T / (n - 1), centred = x - x.mean(1, keepdim=True)",
    "cross": "use its three differences of products",
    "cummax cummin": "use np.maximum.accumulate and np.minimum.accumulate on x.numpy()",
    "deg2rad": "use x * (math.pi / 180)",
    "rad2deg": "use x * (180 / math.pi)",
    "diag_embed diagflat": "use mg.diag, or x[..., None] * mg.eye(n)",
    "diff": "use x[1:] - x[:-1]",
    "dsplit hsplit tensor_split vsplit": "use mg.split or mg.chunk",
    "fliplr flipud rot90": "use mg.flip, and x.mT",
    "float_power": "use x.double() ** y",
    "fmax fmin": "use mg.maximum and mg.minimum, which let NaN pass",
    "ldexp": "use x * mg.exp2(y)",
    "gcd lcm": "use math.gcd or math.lcm on numbers",
    "cumulative_trapezoid gradient trapezoid trapz": "use differences and sums, as (x[1:] + x[:-1]).sum() / 2",
    "heaviside": "use (x > 0) + y * (x == 0)",
    "hypot": "use (x * x + y * y).sqrt()",
    "inner": "use mg.tensordot(a, b, ([-1], [-1]))",
    "isin": "use (x[..., None] == values).any(-1)",
    "isneginf isposinf": "use x == float('inf')",
    "is_nonzero": "use bool(x)",
    "kthvalue mode msort nanquantile quantile": "use mg.sort",
    "logaddexp2": "use mg.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)",
    "logit": "use (p / (1 - p)).log()",
    "logspace": "use 10 ** mg.linspace(start, end, steps)",
    "nanmean nanmedian nansum": "use mg.where(x.isnan(), 0.0, x)",
    "range": "use mg.arange, which excludes the end",
    "signbit": "use x < 0",
    "sinc": "use (math.pi * x).sin() / (math.pi * x)",
    "tril_indices triu_indices unravel_index": "use NumPy's, as np.tril_indices",
    "unique_consecutive": "use mg.unique",
    "vander": "use x[:, None] ** mg.arange(len(x) - 1, -1, -1)",
    "xlogy": "use mg.where(x == 0, 0.0, x * y.log())",
    "as_strided_scatter diagonal_scatter index_copy index_fill index_put index_reduce masked_scatter put scatter_reduce "
    "select_scatter slice_scatter take": "use x[index], x[index] = value, mg.scatter, mg.scatter_add or mg.index_add",
    "as_strided empty_permuted empty_strided": "use views, as x.unfold, x.expand and x[::2]",
    # whole libraries
    "cholesky cholesky_inverse cholesky_solve det geqrf inverse linalg lobpcg logdet lu lu_solve lu_unpack matrix_exp "
    "matrix_power orgqr ormqr pca_lowrank pinverse qr slogdet svd svd_lowrank triangular_solve": NUMPYS,
    "bartlett_window blackman_window fft hamming_window hann_window istft kaiser_window signal stft": NUMPYS,
    "digamma erfinv frexp i0 igamma igammac lgamma mvlgamma nextafter polygamma special": NUMPYS,
    "binomial distributions poisson": "use mg.normal, mg.bernoulli, mg.multinomial and mg.rand, or NumPy's generators",
    "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d batch_norm bilinear channel_shuffle conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution gru gru_cell hardshrink "
    "instance_norm lstm lstm_cell max_pool1d max_pool2d max_pool3d pixel_shuffle pixel_unshuffle rrelu threshold":
        "mg.nn says what to use instead of the layer",
    "angle cdouble cfloat chalf complex complex128 complex32 complex64 conj conj_physical imag is_complex is_conj "
    "is_neg isreal polar real resolve_conj resolve_neg view_as_complex view_as_real":
        "there are no complex numbers: use a last axis of 2",
    "hspmm masked nested smm sparse sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor sspaddmm": DENSE,
    "dequantize float8_e4m3fn float8_e5m2 quantization quantize_per_channel quantize_per_tensor "
    "quantize_per_tensor_dynamic uint16 uint32 uint64": DENSE,
    "BoolTensor ByteTensor DoubleTensor IntTensor": "use mg.tensor(data, dtype=...)",
    "GradScaler": "use mg.amp.GradScaler",
    "functional": "import the names from minigrad itself",
    "testing": "use np.testing.assert_allclose(x.numpy(), y.numpy())",
    "cond while_loop": "use Python's own if and while",
    "compiler export fx jit onnx": "use mg.compile on a training step",
    "func vmap": "use an axis for the batch, along which operations broadcast; mg.grad, mg.vjp, mg.jvp and mg.hessian",
    "distributed multiprocessing": "use `mpiexec -n 4 minigrad train`",
    "hub": "use models.load(folder)",
    "profiler": "use mg.count_flops and python -m cProfile",
    # settings
    "get_device": "cpu is the only device",
    "get_default_dtype set_default_dtype set_default_tensor_type": "use dtype=: new tensors are float32",
    "are_deterministic_algorithms_enabled get_float32_matmul_precision get_num_interop_threads is_inference "
    "is_inference_mode_enabled set_deterministic_debug_mode set_flush_denormal set_num_interop_threads "
    "use_deterministic_algorithms":
        "there is only mg.set_num_threads: results have the same bits each time",
    "can_cast promote_types result_type": "use np.result_type",
    "set_printoptions": "use np.set_printoptions, and print(x.numpy())",
    "is_distributed is_same_size is_signed typename": "use x.shape, x.dtype and type(x)",
}

OF_AUTOGRAD = {  # torch.autograd
    "backward": "use x.backward(gradient)",
    "forward_ad": "use mg.jvp",
    "graph": "use x.register_hook, and mg.graph",
    "profiler": "use mg.count_flops and python -m cProfile",
    "set_detect_anomaly": "use with mg.detect_anomaly()",
}

METHODS = {  # those of Tensor that are no functions
    "H mH": "use x.mT",
    "byte char short": DENSE,
    "apply_ map_ map2_": "use operations on the whole tensor",
    "as_subclass": "use a class that has a Tensor",
    "cauchy_ geometric_ log_normal_ random_": "use x.uniform_, x.normal_ and x.bernoulli_, and functions of these",
    "fill_diagonal_": "write to x.diagonal()",
    "itemsize nbytes": "use x.element_size() and x.numel()",
    "module_load": "use x.copy_",
    "narrow_copy": "use x.narrow, and clone()",
    "ndimension": "use x.ndim",
    "new": "use x.new_tensor or x.new_zeros",
    "output_nr reinforce retains_grad grad_dtype volatile": "use x.grad_fn, x.is_leaf and x.requires_grad",
    "resize resize_ resize_as resize_as_ set_ sum_to_size": "use x.reshape, x.expand, or x.sum(dim, keepdim=True)",
    "take_along_dim": "use mg.take_along_dim",
    "unsafe_chunk unsafe_split unsafe_split_with_sizes": "use x.chunk or x.split",
    "const_data_ptr dim_order hash_tensor is_set_to layout new_empty_strided slice_inverse storage storage_offset "
    "storage_type untyped_storage": "use x.data_ptr(), x.stride() and x.is_contiguous()",
    "ipu is_cpu is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_pinned is_shared is_vulkan is_xla is_xpu mtia "
    "pin_memory record_stream share_memory_ to_mkldnn xpu": "cpu is the only device",
    "ccol_indices coalesce col_indices crow_indices dense_dim index indices int_repr is_coalesced is_nested is_quantized "
    "is_sparse is_sparse_csr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point "
    "qscheme resize_as_sparse_ row_indices sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ to_dense "
    "to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values": DENSE,
    "eig lstsq solve symeig": NUMPYS,
}

def by_name(table: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for names, value in table.items() for name in names.split()}


Keywords = dict[str, tuple[str, set[Any]]]  # {keyword: (what to use instead, values that ask for nothing)}

OF_FUNCTIONS: Keywords = {  # mg.exp(x) and the like
    "out": ("results have memory of their own; use x.copy_(result)", {None}),
    "memory_format": ("memory is laid out by the library", {None}),
    "out_dtype": ("use .to(dtype)", {None}),
    "output_size": ("it is not needed", {None}),
    "sparse_grad": ("gradients are dense", {False}),
}

OF_COMPILE: Keywords = by_name({
    "fullgraph": ("a step is always captured whole", {False, True}),
    "dynamic": ("a step is captured again for other shapes", {None, False, True}),
    "mode": ("there is one", {None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}),
    "backend": ("there is one", {None, "inductor"}),
    "disable": ("call the function itself", {False}),
    "options name recompile_limit shapes_spec": ("there is nothing to configure", {None}),
    "isolate_recompiles": ("there is nothing to configure", {False}),
})


def refuse(owner: str, given: Mapping[str, Any], table: Keywords) -> None:
    """TypeError for the keywords that a function has not taken, unless their values ask for nothing."""
    for name, value in given.items():
        if name not in table:
            raise TypeError(f"{owner}: got an unexpected keyword argument {name!r}")
        reason, harmless = table[name]
        if not isinstance(value, Hashable) or value not in harmless:
            raise TypeError(f"{owner}: {name}= is left out; {reason}")


OF_TENSORS = by_name(METHODS | FUNCTIONS)


class LeftOutMethods:
    if not TYPE_CHECKING:  # else type checkers would accept any name

        def __getattr__(self, name: str) -> None:
            """Called for missing attributes only."""
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            method = name.removesuffix("_")
            if name in OF_TENSORS:
                message += f": left out; {OF_TENSORS[name]}"
            elif name != method and not name.startswith("_") and (method in OF_TENSORS or hasattr(type(self), method)):
                message += f": left out; {OF_TENSORS.get(method, f'use x = x.{method}(...)')}"
            raise AttributeError(message, name=name, obj=self)


def left_out(module: str, table: dict[str, str]) -> Callable[[str], None]:
    """A module's `__getattr__`: an AttributeError, which for a name in the table says what to use instead."""
    reasons = by_name(table)

    def __getattr__(name: str) -> None:
        message = f"module {module!r} has no attribute {name!r}"
        if name not in reasons:
            raise AttributeError(message, name=name, obj=sys.modules[module])
        message += f": left out; {reasons[name]}"
        if _is_from_import(sys._getframe(1)):
            raise ImportError(message, name=module)
        raise AttributeError(message, name=name)

    return __getattr__


def _is_from_import(frame: FrameType | None) -> bool:
    """Is a module's `__getattr__` called for `from module import name`? Python then drops an AttributeError's message."""
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
