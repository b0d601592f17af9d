"""What PyTorch has and this library leaves out on purpose, and what to use instead.

A table is {"name another": reason}; nn/left_out.py has those of `nn`. Looking up such a name raises an AttributeError
that says what to write instead, as for `mg.cdist`. tests/test_left_out.py checks that nothing else of PyTorch's is
missing, and that the suggested alternatives exist.
"""
import sys
from collections.abc import Callable

DENSE = "tensors are dense, and of float32, float64, int64 or bool"
NUMPYS = "take NumPy's, of x.numpy(), and mg.from_numpy; mg.Function gives it a gradient"

FUNCTIONS = {
    # another name of the same
    "absolute": "take mg.abs",
    "adjoint": "take x.mT",
    "argwhere nonzero_static": "take mg.nonzero",
    "asarray": "take mg.as_tensor",
    "concatenate": "take mg.cat",
    "detach": "take x.detach()",
    "divide true_divide": "take mg.div",
    "fix": "take mg.trunc",
    "ger": "take mg.outer",
    "greater": "take mg.gt",
    "greater_equal": "take mg.ge",
    "initial_seed seed": "take mg.manual_seed",
    "less": "take mg.lt",
    "less_equal": "take mg.le",
    "moveaxis": "take mg.movedim",
    "multiply": "take mg.mul",
    "negative": "take mg.neg",
    "not_equal": "take mg.ne",
    "positive": "take x itself",
    "row_stack": "take mg.vstack",
    "sgn": "take mg.sign",
    "split_with_sizes": "take mg.split",
    "subtract rsub": "take mg.sub",
    "swapdims": "take mg.swapaxes",
    "vdot": "take mg.dot",
    "frobenius_norm nuclear_norm norm_except_dim renorm": "take mg.norm",
    "binary_cross_entropy_with_logits celu cosine_similarity dropout embedding kl_div layer_norm rms_norm selu":
        "take the function of mg.nn.functional",
    # a few words
    "addmm addmv addbmm baddbmm addr": "take c + a @ b, or c + mg.outer(a, b)",
    "aminmax": "take mg.amin and mg.amax",
    "atleast_1d atleast_2d atleast_3d": "take x.reshape",
    "bincount histc histogram histogramdd": "take mg.nn.functional.one_hot(x).sum(0)",
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor":
        "take mg.logical_and and the like for booleans; integers have arithmetic, and no bits",
    "block_diag": "take mg.diag, or write the blocks into mg.zeros",
    "broadcast_shapes": "take np.broadcast_shapes",
    "broadcast_tensors": "take x.expand",
    "bucketize searchsorted": "take (x[..., None] > edges).sum(-1)",
    "cartesian_prod combinations": "take mg.meshgrid",
    "cdist dist pairwise_distance pdist": "take (a[:, None] - b[None]).norm(dim=-1)",
    "chain_matmul": "take a @ b @ c",
    "clamp_max": "take x.clamp(max=...)",
    "clamp_min": "take x.clamp(min=...)",
    "column_stack dstack": "take mg.stack(tensors, dim)",
    "copysign": "take mg.where(y < 0, -x.abs(), x.abs())",
    "corrcoef cov": "take centred @ centred.T / (n - 1), centred = x - x.mean(1, keepdim=True)",
    "cross": "take its three differences of products",
    "cummax cummin": "take np.maximum.accumulate and np.minimum.accumulate, of x.numpy()",
    "deg2rad": "take x * (math.pi / 180)",
    "rad2deg": "take x * (180 / math.pi)",
    "diag_embed diagflat": "take mg.diag, or x[..., None] * mg.eye(n)",
    "diff": "take x[1:] - x[:-1]",
    "dsplit hsplit tensor_split vsplit": "take mg.split or mg.chunk",
    "fliplr flipud rot90": "take mg.flip, and x.mT",
    "float_power": "take x.double() ** y",
    "fmax fmin": "take mg.maximum and mg.minimum, which let NaN pass",
    "ldexp": "take x * mg.exp2(y)",
    "gcd lcm": "take math.gcd or math.lcm, of numbers",
    "cumulative_trapezoid gradient trapezoid trapz": "take differences and sums, as (x[1:] + x[:-1]).sum() / 2",
    "heaviside": "take (x > 0) + y * (x == 0)",
    "hypot": "take (x * x + y * y).sqrt()",
    "inner": "take mg.tensordot(a, b, ([-1], [-1]))",
    "isin": "take (x[..., None] == values).any(-1)",
    "isneginf isposinf": "take x == float('inf')",
    "is_nonzero": "take bool(x)",
    "kthvalue mode msort nanquantile quantile": "take mg.sort",
    "logaddexp2": "take mg.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)",
    "logit": "take (p / (1 - p)).log()",
    "logspace": "take 10 ** mg.linspace(start, end, steps)",
    "nanmean nanmedian nansum": "take mg.where(x.isnan(), 0.0, x)",
    "range": "take mg.arange, whose end is not in it",
    "signbit": "take x < 0",
    "sinc": "take (math.pi * x).sin() / (math.pi * x)",
    "tril_indices triu_indices unravel_index": "take NumPy's, as np.tril_indices",
    "unique_consecutive": "take mg.unique",
    "vander": "take x[:, None] ** mg.arange(len(x) - 1, -1, -1)",
    "xlogy": "take mg.where(x == 0, 0.0, x * y.log())",
    "as_strided_scatter diagonal_scatter index_copy index_fill index_put index_reduce masked_scatter put scatter_reduce "
    "select_scatter slice_scatter take": "take x[index], x[index] = value, mg.scatter, mg.scatter_add or mg.index_add",
    "as_strided empty_permuted empty_strided": "take views, as x.unfold, x.expand and x[::2]",
    # what would be a library of its own
    "cholesky cholesky_inverse cholesky_solve det geqrf inverse linalg lobpcg logdet lu lu_solve lu_unpack matrix_exp "
    "matrix_power orgqr ormqr pca_lowrank pinverse qr slogdet svd svd_lowrank triangular_solve": NUMPYS,
    "bartlett_window blackman_window fft hamming_window hann_window istft kaiser_window signal stft": NUMPYS,
    "digamma erfinv frexp i0 igamma igammac lgamma mvlgamma nextafter polygamma special": NUMPYS,
    "binomial distributions poisson": "take mg.normal, mg.bernoulli, mg.multinomial and mg.rand, or NumPy's generators",
    "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d batch_norm bilinear channel_shuffle conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution group_norm gru gru_cell hardshrink "
    "instance_norm lstm lstm_cell max_pool1d max_pool2d max_pool3d pixel_shuffle pixel_unshuffle prelu rrelu threshold":
        "mg.nn says of the layer what to take",
    "angle cdouble cfloat chalf complex complex128 complex32 complex64 conj conj_physical imag is_complex is_conj "
    "is_neg isreal polar real resolve_conj resolve_neg view_as_complex view_as_real":
        "there are no complex numbers: take a last axis of 2",
    "hspmm masked nested smm sparse sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor sspaddmm": DENSE,
    "dequantize float8_e4m3fn float8_e5m2 quantization quantize_per_channel quantize_per_tensor "
    "quantize_per_tensor_dynamic uint16 uint32 uint64": DENSE,
    "BoolTensor ByteTensor DoubleTensor FloatTensor IntTensor LongTensor": "take mg.tensor(data, dtype=...)",
    "GradScaler amp autocast": "there is no half precision: take mg.float32",
    "cond while_loop": "take Python's own if and while",
    "export fx jit onnx": "take mg.compile, of a training step",
    "func vmap": "take an axis for the batch, over which operations broadcast; mg.grad, mg.vjp, mg.jvp and mg.hessian",
    "distributed multiprocessing": "take `mpiexec -n 4 minigrad train`",
    "hub": "take models.load(folder)",
    "profiler": "take mg.count_flops and python -m cProfile",
    # settings
    "get_default_device get_device set_default_device": "cpu is the only device",
    "get_default_dtype set_default_dtype set_default_tensor_type": "take dtype=: what is new is of float32",
    "are_deterministic_algorithms_enabled get_float32_matmul_precision get_num_interop_threads is_inference "
    "is_inference_mode_enabled set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
    "set_num_interop_threads use_deterministic_algorithms":
        "nothing is to be set but mg.set_num_threads: results have the same bits each time",
    "can_cast promote_types result_type": "take np.result_type",
    "set_printoptions": "take np.set_printoptions, and print(x.numpy())",
    "is_distributed is_same_size is_signed typename": "take x.shape, x.dtype and type(x)",
}


def left_out(module: str, table: dict[str, str]) -> Callable[[str], None]:
    """A module's `__getattr__`: an AttributeError, which for a name in the table says what to use instead."""
    reasons = {name: reason for names, reason in table.items() for name in names.split()}

    def __getattr__(name: str) -> None:
        message = f"module {module!r} has no attribute {name!r}"
        if name in reasons:
            raise AttributeError(f"{message}: left out; {reasons[name]}", name=name)
        raise AttributeError(message, name=name, obj=sys.modules[module])

    return __getattr__
