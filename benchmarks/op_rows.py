"""A row per public op and way of using it: a function of both libraries, and its inputs.

A row's function gets the library (`minigrad` or `torch`), its functional module and the inputs as tensors. The first word
of its name, up to a comma, is the op's public name; `benchmarks.ops.missing` lists ops without a row.
"""
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

random = np.random.default_rng(0)


@functools.cache
def stream(count):
    return random.standard_normal(count + 1000, np.float32)


def normal(shape):
    """A piece of a stream that is drawn once, as drawing takes longer than most ops"""
    count = math.prod(shape)
    start = random.integers(1000)
    return stream(count)[start : start + count].reshape(shape).copy()


def uniform(low, high, shape):
    return np.float32(low) + np.float32(high - low) * random.random(shape, np.float32)


def positive(shape):
    return uniform(0.3, 2.0, shape)


def inside(shape):
    """From -0.9 to 0.9"""
    return uniform(-0.9, 0.9, shape)


def above_one(shape):
    return uniform(1.1, 3.0, shape)


def near_one(shape):
    """Products of many of these stay in range."""
    return 1 + np.float32(1e-3) * normal(shape)


def probabilities(shape):
    return uniform(0.05, 0.95, shape)


def distinct(shape):
    """No two are equal, so that sorting has one result."""
    count = math.prod(shape)
    return ((random.permutation(count) - count / 2 + 0.5) * (4 / count)).reshape(shape).astype(np.float32)


def rows_summing_to_one(shape):
    x = probabilities(shape)
    return x / x.sum(-1, keepdims=True)


def booleans(shape):
    return random.random(shape, np.float32) > 0.5


def integers(shape):
    return random.integers(-100, 100, shape)


def columns(shape):
    """A column number for each element"""
    return random.integers(0, shape[-1], shape)


def permuted_columns(shape):
    """The same, without repetition in a row"""
    return np.argsort(random.random(shape, np.float32), -1)


def row_numbers(shape):
    return random.integers(0, shape[0], shape[0])


def classes(shape):
    """A column number for each row"""
    return random.integers(0, shape[1], shape[0])


def row_of(draw):
    return lambda shape: draw(shape[1:])


def column_of(draw):
    return lambda shape: draw((shape[0], 1))


def line_of(draw):
    """As many elements in one dimension"""
    return lambda shape: draw((shape[0] * shape[1],))


def root_of(draw):
    """Few enough in one dimension for an outer product of the full size"""
    return lambda shape: draw((shape[0],))


def square_of(draw):
    """A square matrix for products, of at most 1024 rows: with 10 million elements a product would take a minute."""
    return lambda shape: draw((min(shape[0], 1024),) * 2)


def batch_of(draw):
    return lambda shape: draw({4: (2, 4, 4), 256: (4, 128, 128)}.get(shape[0], (16, 256, 256)))


def heads_of(draw):
    """(B, H, T, D) of an attention"""
    return lambda shape: draw({4: (1, 1, 4, 4), 256: (2, 4, 128, 64)}.get(shape[0], (4, 8, 512, 64)))


def packed_of(draw):
    """(B, T, 3 C) of an attention with 4 heads"""
    return lambda shape: draw({4: (1, 4, 48), 256: (2, 128, 384)}.get(shape[0], (4, 512, 1536)))


def tokens_of(draw):
    """(N, C) of a layer"""
    return lambda shape: draw({4: (4, 16), 256: (256, 256)}.get(shape[0], (4096, 512)))


def width_of(draw, *factors):
    """Parameters of such a layer, whose sizes are multiples of C"""
    def drawn(shape):
        width = {4: 16, 256: 256}.get(shape[0], 512)
        return draw(tuple(factor * width for factor in factors))
    return drawn


def ids_of(shape):
    """As many token ids as tokens"""
    return random.integers(0, 2 * tokens_of(np.zeros)(shape).shape[1], tokens_of(np.zeros)(shape).shape[0])


@dataclass
class Row:
    name: str
    function: Callable  # (library, functional, *tensors) -> a tensor
    inputs: tuple[Callable, ...] = (normal,)  # each draws an array of a size; floats are leaves
    theirs: Callable | None = None  # PyTorch's spelling, if it differs
    has_gradient: bool = True
    is_random: bool = False  # results differ


def methods(names: str, *inputs: Callable, arguments: tuple = (), **options) -> list[Row]:
    """Rows of methods of the first input, with the others as arguments."""
    def row(name):
        def function(library, F, x, *others):
            return getattr(x, name)(*others, *arguments)
        return Row(name, function, inputs or (normal,), **options)
    return [row(name) for name in names.split()]


def functionals(names: str, *inputs: Callable, **options) -> list[Row]:
    def row(name):
        return Row(name, lambda library, F, *tensors: getattr(F, name)(*tensors), inputs or (normal,), **options)
    return [row(name) for name in names.split()]


def along(names: str, draw: Callable = normal, axes: tuple = (None, -1, 0), **options) -> list[Row]:
    """Rows of reductions and the like, of all elements, of rows and of columns."""
    def row(name, axis):
        what = {None: name, -1: f"{name}, rows", 0: f"{name}, columns"}[axis]
        arguments = () if axis is None else (axis,)
        return Row(what, lambda library, F, x: values(getattr(x, name)(*arguments)), (draw,), **options)
    return [row(name, axis) for name in names.split() for axis in axes]


def values(result):
    """The differentiable part of values and indices"""
    return result[0] if isinstance(result, tuple) else result


def written(library, x, index, value):
    out = x.clone()
    out[index] = value
    return out


def layer_norm_of_torch(library, F, x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def unbiased_norm_of_torch(library, F, x, weight, bias):
    """PyTorch's own function has one denominator; this one is composed of several ops."""
    variance = x.var(-1, correction=1, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt() * weight + bias


def packed_attention_of_torch(library, F, packed):
    B, T, C = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    q, k, v = (part.view(B, T, 4, C // 4).transpose(1, 2) for part in packed.split(C, 2))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)


ARITHMETIC = [
    *methods("add sub mul maximum minimum logaddexp atan2", normal, normal),
    *methods("div remainder fmod", normal, positive),
    *methods("floor_divide", normal, positive, has_gradient=False),
    *methods("neg abs square sign floor ceil round trunc frac"),
    *methods("reciprocal", positive),
    Row("add, a number", lambda library, F, x: x + 2.5),
    Row("mul, a number", lambda library, F, x: x * 2.5),
    Row("div, by a number", lambda library, F, x: x / 2.5),
    Row("add, a row", lambda library, F, x, y: x + y, (normal, row_of(normal))),
    Row("mul, a row", lambda library, F, x, y: x * y, (normal, row_of(normal))),
    Row("mul, a column", lambda library, F, x, y: x * y, (normal, column_of(normal))),
    Row("div, by a column", lambda library, F, x, y: x / y, (normal, column_of(positive))),
    Row("pow, 2", lambda library, F, x: x ** 2),
    Row("pow, 3", lambda library, F, x: x ** 3),
    Row("pow, -1.5", lambda library, F, x: x ** -1.5, (positive,)),
    Row("pow, of a number", lambda library, F, x: 1.5 ** x),
    *methods("pow", positive, normal),
    *methods("addcmul", normal, normal, normal),
    *methods("addcdiv", normal, normal, positive),
    Row("lerp", lambda library, F, x, y: x.lerp(y, 0.3), (normal, normal)),
]

ELEMENTARY = [
    *methods("exp exp2 expm1 sin cos tan sinh cosh tanh sigmoid atan asinh erf erfc"),
    *methods("log log2 log10 log1p sqrt rsqrt", positive),
    *methods("asin acos atanh", inside),
    *methods("acosh", above_one),
]

ACTIVATIONS = [
    *functionals("relu gelu silu leaky_relu elu selu celu softplus logsigmoid hardtanh relu6 hardsigmoid hardswish mish "
                 "softsign tanhshrink"),
    Row("swiglu", lambda library, F, gate, x: F.swiglu(gate, x), (normal, normal),
        lambda library, F, gate, x: F.silu(gate) * x),
    Row("gelu_tanh", lambda library, F, x: F.gelu(x, approximate="tanh")),
]

COMPARISON = [
    *methods("eq ne lt le gt ge", normal, normal, has_gradient=False),
    Row("gt, a number", lambda library, F, x: x > 0.5, has_gradient=False),
    *methods("logical_and logical_or logical_xor", booleans, booleans, has_gradient=False),
    *methods("logical_not", booleans, has_gradient=False),
    *methods("isnan isinf isfinite", has_gradient=False),
    *methods("isclose", normal, normal, has_gradient=False),
    Row("allclose", lambda library, F, x: x.allclose(x), has_gradient=False),
    Row("equal", lambda library, F, x: x.equal(x), has_gradient=False),
    Row("where", lambda library, F, condition, x, y: library.where(condition, x, y), (booleans, normal, normal)),
    Row("where, a number", lambda library, F, condition, x: library.where(condition, x, 0.0), (booleans, normal)),
    Row("masked_fill", lambda library, F, x, mask: x.masked_fill(mask, -1e9), (normal, booleans)),
    Row("clamp", lambda library, F, x: x.clamp(-0.5, 0.5)),
    Row("clamp, one side", lambda library, F, x: x.clamp(min=0.5)),
    *methods("nan_to_num"),
]

DTYPES = [
    *methods("double float"),
    *methods("long bool", has_gradient=False),
    *methods("float", integers, has_gradient=False),
]

REDUCTIONS = [
    *along("sum mean amax amin logsumexp", axes=(-1, 0)),
    *along("sum mean", axes=(None,)),
    *along("max min", distinct),
    *along("median", distinct, axes=(None, -1)),
    *along("prod", near_one, axes=(-1, 0)),
    *along("var std norm", axes=(None,)),
    *[Row(f"{name}, {where}", lambda library, F, x, name=name, axis=axis: getattr(x, name)(dim=axis))
      for name in ("var", "std", "norm") for axis, where in ((-1, "rows"), (0, "columns"))],
    *[Row(f"{name}, rows", lambda library, F, x, name=name: sum(getattr(library, name)(x, -1)))
      for name in ("var_mean", "std_mean")],
    *along("argmax argmin", has_gradient=False),
    *along("any all", booleans, has_gradient=False),
    *along("count_nonzero", booleans, has_gradient=False),
    *along("cumsum logcumsumexp", axes=(-1, 0)),
    *along("cumprod", near_one, axes=(-1, 0)),
    *along("softmax log_softmax", axes=(-1, 0)),
    Row("softmin, rows", lambda library, F, x: F.softmin(x, -1)),
]

PRODUCTS = [
    *methods("matmul mm", square_of(normal), square_of(normal)),
    *methods("bmm", batch_of(normal), batch_of(normal)),
    *methods("dot", line_of(normal), line_of(normal)),
    *methods("mv", normal, row_of(normal)),
    *methods("outer", root_of(normal), root_of(normal)),
    Row("kron", lambda library, F, x, y: library.kron(x, y), (normal, lambda shape: normal((2, 2)))),
    Row("tensordot", lambda library, F, x, y: library.tensordot(x, y, 1), (square_of(normal), square_of(normal))),
    Row("einsum", lambda library, F, x, y: library.einsum("bij,bjk->bik", x, y), (batch_of(normal), batch_of(normal))),
    *functionals("linear", tokens_of(normal), width_of(normal, 4, 1), width_of(normal, 4)),
    Row("mlp", lambda library, F, *tensors: F.mlp(*tensors),
        (tokens_of(normal), width_of(normal, 4, 1), width_of(normal, 4), width_of(normal, 1, 4), width_of(normal, 1)),
        lambda library, F, x, w1, b1, w2, b2: F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)),
    Row("scaled_dot_product_attention", lambda library, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (heads_of(normal),) * 3),
    Row("packed_attention", lambda library, F, packed: F.packed_attention(packed, 4, is_causal=True), (packed_of(normal),),
        packed_attention_of_torch),
    Row("attention_weights", lambda library, F, q, k: F.attention_weights(q, k), (heads_of(normal),) * 2,
        lambda library, F, q, k: (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)),
]

LAYERS = [
    Row("layer_norm", lambda library, F, x, weight, bias: F.layer_norm(x, x.shape[-1], weight, bias),
        (normal, row_of(normal), row_of(normal)), layer_norm_of_torch),
    Row("layer_norm_variant", lambda library, F, x, weight, bias: F.layer_norm(
        x, x.shape[-1], weight, bias, unbiased=True), (normal, row_of(normal), row_of(normal)), unbiased_norm_of_torch),
    Row("rms_norm", lambda library, F, x, weight: F.rms_norm(x, (x.shape[-1],), weight), (normal, row_of(normal))),
    *functionals("normalize"),
    *functionals("cosine_similarity", normal, normal),
    Row("dropout", lambda library, F, x: F.dropout(x, 0.1), is_random=True),
    Row("add_dropped", lambda library, F, x, y: F.add_dropped(x, y, 0.1), (normal, normal), is_random=True,
        theirs=lambda library, F, x, y: x + F.dropout(y, 0.1)),
    Row("drop_weights", lambda library, F, x: F.drop_weights(x, 0.1), is_random=True,
        theirs=lambda library, F, x: F.dropout(x, 0.1)),
    Row("embedding", lambda library, F, ids, weight: F.embedding(ids, weight), (ids_of, width_of(normal, 2, 1))),
    Row("one_hot", lambda library, F, ids: F.one_hot(ids, 16), (root_of(lambda shape: random.integers(0, 16, shape)),),
        has_gradient=False),
    Row("pad", lambda library, F, x: F.pad(x, (1, 1))),
]

LOSSES = [
    *functionals("mse_loss l1_loss huber_loss smooth_l1_loss", normal, normal),
    *functionals("cross_entropy", normal, classes),
    Row("cross_entropy, probabilities", lambda library, F, x, y: F.cross_entropy(x, y), (normal, rows_summing_to_one)),
    *functionals("nll_loss", normal, classes),
    *functionals("binary_cross_entropy", probabilities, probabilities),
    *functionals("binary_cross_entropy_with_logits", normal, probabilities),
    Row("kl_div", lambda library, F, x, y: F.kl_div(x, y, reduction="batchmean"), (normal, rows_summing_to_one)),
]

SHAPES = [
    *methods("clone contiguous ravel flatten squeeze t"),
    *methods("reshape", arguments=(-1, 2)),
    Row("reshape, transposed", lambda library, F, x: x.t().reshape(-1)),
    Row("view", lambda library, F, x: x.view(1, *x.shape)),
    Row("unflatten", lambda library, F, x: x.unflatten(-1, (2, -1))),
    Row("unsqueeze", lambda library, F, x: x.unsqueeze(0)),
    Row("permute", lambda library, F, x: x.permute(1, 0)),
    Row("transpose", lambda library, F, x: x.transpose(0, 1)),
    Row("transpose, copied", lambda library, F, x: x.transpose(0, 1).contiguous()),
    Row("swapaxes", lambda library, F, x: x.swapaxes(0, 1)),
    Row("swapdims", lambda library, F, x: x.swapdims(0, 1)),
    Row("movedim", lambda library, F, x: x.movedim(0, 1)),
    Row("moveaxis", lambda library, F, x: x.moveaxis(0, 1)),
    Row("T", lambda library, F, x: x.T),
    Row("mT", lambda library, F, x: x.mT),
    Row("expand", lambda library, F, x: x.expand(-1, 8), (lambda shape: normal((shape[0] * shape[1] // 8, 1)),)),
    Row("broadcast_to", lambda library, F, x: x.broadcast_to((8, *x.shape)),
        (lambda shape: normal((shape[0] * shape[1] // 8,)),)),
    *methods("expand_as view_as reshape_as", lambda shape: normal((1, *shape)), lambda shape: normal((1, *shape))),
    Row("repeat", lambda library, F, x: x.repeat(2, 1)),
    Row("tile", lambda library, F, x: x.tile(1, 2)),
    Row("flip", lambda library, F, x: x.flip(1)),
    Row("roll", lambda library, F, x: x.roll(1, 0)),
    Row("split", lambda library, F, x: library.cat(x.split(x.shape[1] // 4, 1), 0)),
    Row("chunk", lambda library, F, x: library.cat(x.chunk(4, 1), 0)),
    Row("unbind", lambda library, F, x: library.stack(x.unbind(0), 1)),
    Row("narrow", lambda library, F, x: x.narrow(1, 1, 2)),
    Row("select", lambda library, F, x: x.select(1, 1)),
    Row("cat", lambda library, F, x, y: library.cat([x, y]), (normal, normal)),
    Row("cat, columns", lambda library, F, x, y: library.cat([x, y], 1), (normal, normal)),
    Row("stack", lambda library, F, x, y: library.stack([x, y]), (normal, normal)),
    Row("stack, last", lambda library, F, x, y: library.stack([x, y], -1), (normal, normal)),
    Row("hstack", lambda library, F, x, y: library.hstack([x, y]), (normal, normal)),
    Row("vstack", lambda library, F, x, y: library.vstack([x, y]), (normal, normal)),
    Row("meshgrid", lambda library, F, x, y: sum(library.meshgrid(x, y, indexing="ij")), (root_of(normal),) * 2),
    *methods("tril triu diagonal"),
    Row("diag", lambda library, F, x: x.diag(), (root_of(normal),)),
    *methods("trace"),
    Row("unfold", lambda library, F, x: x.unfold(1, 2, 2)),
]

INDEXING = [
    Row("index, a slice", lambda library, F, x: x[1:, ::2]),
    Row("index, rows", lambda library, F, x, rows: x[rows], (normal, row_numbers)),
    Row("index, a mask", lambda library, F, x, mask: x[mask], (normal, booleans)),
    Row("set, a slice", lambda library, F, x, y: written(library, x, slice(1), y), (normal, row_of(normal))),
    Row("set, rows", lambda library, F, x, y, rows: written(library, x, rows, y),
        (normal, row_of(normal), lambda shape: np.arange(shape[0] // 2))),
    Row("gather", lambda library, F, x, index: x.gather(1, index), (normal, columns)),
    Row("take_along_dim", lambda library, F, x, index: library.take_along_dim(x, index, 1), (normal, columns)),
    Row("scatter", lambda library, F, x, index, y: x.scatter(1, index, y), (normal, permuted_columns, normal)),
    Row("scatter_add", lambda library, F, x, index, y: x.scatter_add(1, index, y), (normal, columns, normal)),
    Row("index_select", lambda library, F, x, rows: x.index_select(0, rows), (normal, row_numbers)),
    Row("index_add", lambda library, F, x, rows, y: x.index_add(0, rows, y), (normal, row_numbers, normal)),
    *methods("masked_select", normal, booleans),
    Row("repeat_interleave", lambda library, F, x: x.repeat_interleave(2, 0)),
    *methods("nonzero", booleans, has_gradient=False),
    *along("sort", distinct, axes=(-1, 0)),
    Row("argsort", lambda library, F, x: x.argsort(-1), (distinct,), has_gradient=False),
    Row("topk", lambda library, F, x: x.topk(3, -1)[0], (distinct,)),
    Row("unique", lambda library, F, x: x.unique(), (integers,), has_gradient=False),
    Row("multinomial", lambda library, F, x: x.multinomial(2), (probabilities,), has_gradient=False, is_random=True),
    Row("bernoulli", lambda library, F, x: x.bernoulli(), (probabilities,), has_gradient=False, is_random=True),
]

ROWS = [
    *ARITHMETIC, *ELEMENTARY, *ACTIVATIONS, *COMPARISON, *DTYPES, *REDUCTIONS, *PRODUCTS, *LAYERS, *LOSSES, *SHAPES,
    *INDEXING,
]
