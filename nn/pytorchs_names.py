"""Names of PyTorch's layers and functions that people often type and that nn leaves out, with what to use instead."""
IMAGES = "use nn.PatchEmbedding for images, and nn.Linear of x[..., starts[:, None] + mg.arange(size)] for other windows"
NORMS = "use nn.LayerNorm or nn.RMSNorm"
OPTIMIZERS = "use nn.optim.AdamW, nn.optim.SGD or nn.optim.Muon"
PACKED = "layers take no packed sequences; use nn.utils.rnn.pad_sequence"
RATES = "use nn.optim.LambdaLR, whose factor is any function of the step, or nn.optim.warmup_annealing"

INSTEAD = {
    "Conv1d": IMAGES, "Conv2d": IMAGES, "ConvTranspose2d": IMAGES, "MaxPool2d": IMAGES, "AvgPool2d": IMAGES,
    "AdaptiveAvgPool2d": IMAGES, "conv2d": IMAGES, "max_pool2d": IMAGES,
    "Attention": "use nn.MultiHeadAttention",
    "BatchNorm1d": NORMS, "BatchNorm2d": NORMS,
    "LSTMCell": "use nn.RNN, nn.GRU or nn.LSTM, on sequences of one element too",
    "gumbel_softmax": "use (x - mg.rand_like(x).log().neg().log()).softmax(-1)",
    "pack_padded_sequence": PACKED, "pad_packed_sequence": PACKED,
    "RMSprop": OPTIMIZERS, "Adagrad": OPTIMIZERS, "LBFGS": OPTIMIZERS,
    "ReduceLROnPlateau": RATES, "OneCycleLR": RATES,
    "DataParallel": "use `mpiexec -n 4 minigrad train`",
}
