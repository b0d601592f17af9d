"""Any shape, layout, dtype and option, as Hypothesis thinks of them: values and gradients of both orders are PyTorch's."""
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

from oracle import assert_same, mg, torch

some = settings(max_examples=60, deadline=None, derandomize=True)
dtypes = st.sampled_from(["float32", "float64"])
shapes = st.one_of(st.just(()), array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
filled_shapes = array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4)

LAYOUTS = {
    "contiguous": lambda shape, fill: fill(shape),
    "transposed": lambda shape, fill: fill(shape[::-1]).T,
    "strided": lambda shape, fill: fill(tuple(2 * n for n in shape))[tuple(slice(None, None, 2) for _ in shape)],
    "reversed": lambda shape, fill: np.flip(fill(shape)),
    "broadcast": lambda shape, fill: np.broadcast_to(fill(shape[1:]), shape),
}


@st.composite
def arrays(draw, shape, positive=False, distinct=False):
    """Normal numbers, away from 0, in one of the layouts."""
    random = np.random.default_rng(draw(st.integers(0, 1000)))

    def fill(shape):
        magnitude = 0.1 + np.abs(random.standard_normal(shape))
        return magnitude if positive else magnitude * random.choice([-1.0, 1.0], shape)

    names = [name for name in LAYOUTS if not (distinct and name == "broadcast")]
    return LAYOUTS[draw(st.sampled_from(names))](shape, fill)


@st.composite
def dims_of(draw, ndim, min_size=1):
    """Some of the axes, each counted from either end."""
    axes = draw(st.lists(st.integers(0, ndim - 1), min_size=min_size, max_size=ndim, unique=True))
    return tuple(draw(st.sampled_from([axis, axis - ndim])) for axis in axes)


UNARY = {
    "abs": lambda m, F, x: x.abs(),
    "neg": lambda m, F, x: -x,
    "exp": lambda m, F, x: x.exp(),
    "expm1": lambda m, F, x: x.expm1(),
    "log": lambda m, F, x: x.abs().log(),
    "log1p": lambda m, F, x: x.abs().log1p(),
    "sqrt": lambda m, F, x: x.abs().sqrt(),
    "rsqrt": lambda m, F, x: x.abs().rsqrt(),
    "reciprocal": lambda m, F, x: x.reciprocal(),
    "sin": lambda m, F, x: x.sin(),
    "cos": lambda m, F, x: x.cos(),
    "tanh": lambda m, F, x: x.tanh(),
    "sigmoid": lambda m, F, x: x.sigmoid(),
    "erf": lambda m, F, x: x.erf(),
    "softplus": lambda m, F, x: F.softplus(x, 2.0, 3.0),
    "silu": lambda m, F, x: F.silu(x),
    "relu": lambda m, F, x: F.relu(x),
    "leaky_relu": lambda m, F, x: F.leaky_relu(x, 0.2),
    "gelu": lambda m, F, x: F.gelu(x),
    "gelu tanh": lambda m, F, x: F.gelu(x, approximate="tanh"),
    "floor": lambda m, F, x: x.floor() * x,
    "clamp": lambda m, F, x: x.clamp(-0.7, 0.9),
    "square": lambda m, F, x: x.square(),
    "cube": lambda m, F, x: x**3,
    "root": lambda m, F, x: x.abs() ** 1.7,
    "masked_fill": lambda m, F, x: x.masked_fill(x > 0.5, 3.0),
    "clone": lambda m, F, x: x.clone(),
}


@some
@given(st.data(), st.sampled_from(sorted(UNARY)), shapes, dtypes)
def test_functions_of_one_tensor(data, name, shape, dtype):
    assert_same(UNARY[name], [data.draw(arrays(shape))], dtype)


BINARY = {
    "add": lambda m, F, a, b: a + b,
    "sub": lambda m, F, a, b: a - b,
    "mul": lambda m, F, a, b: a * b,
    "div": lambda m, F, a, b: a / b,
    "pow": lambda m, F, a, b: a.abs() ** b,
    "maximum": lambda m, F, a, b: m.maximum(a, b),
    "minimum": lambda m, F, a, b: m.minimum(a, b),
    "where": lambda m, F, a, b: m.where(a > 0, a, b),
    "remainder": lambda m, F, a, b: m.remainder(a, b),
    "clamp": lambda m, F, a, b: a.clamp(b - 0.5, b + 0.5),
}


@some
@given(st.data(), st.sampled_from(sorted(BINARY)), mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), dtypes)
def test_functions_of_two_tensors_broadcast(data, name, shapes, dtype):
    assert_same(BINARY[name], [data.draw(arrays(shape)) for shape in shapes.input_shapes], dtype)


REDUCTIONS = {
    "sum": lambda m, x, dim, keepdim: x.sum(dim, keepdim=keepdim),
    "mean": lambda m, x, dim, keepdim: x.mean(dim, keepdim=keepdim),
    "var": lambda m, x, dim, keepdim: x.var(dim, keepdim=keepdim),
    "var biased": lambda m, x, dim, keepdim: m.var(x, dim, correction=0, keepdim=keepdim),
    "std": lambda m, x, dim, keepdim: x.std(dim, keepdim=keepdim),
    "amax": lambda m, x, dim, keepdim: x.amax(dim, keepdim=keepdim),
    "amin": lambda m, x, dim, keepdim: x.amin(dim, keepdim=keepdim),
    "logsumexp": lambda m, x, dim, keepdim: x.logsumexp(dim, keepdim=keepdim),
    "norm": lambda m, x, dim, keepdim: x.norm(2, dim, keepdim=keepdim),
    "norm 3": lambda m, x, dim, keepdim: x.norm(3, dim, keepdim=keepdim),
    "norm inf": lambda m, x, dim, keepdim: x.norm(math.inf, dim, keepdim=keepdim),
    "prod": lambda m, x, dim, keepdim: x.prod(dim[0], keepdim=keepdim),
    "max": lambda m, x, dim, keepdim: x.max(dim[0], keepdim=keepdim).values,
    "min": lambda m, x, dim, keepdim: x.min(dim[0], keepdim=keepdim)[0],
    "cumsum": lambda m, x, dim, keepdim: x.cumsum(dim[0]),
    "softmax": lambda m, x, dim, keepdim: x.softmax(dim[0]),
    "log_softmax": lambda m, x, dim, keepdim: x.log_softmax(dim[0]),
    "sort": lambda m, x, dim, keepdim: x.sort(dim[0], descending=keepdim).values,
    "topk": lambda m, x, dim, keepdim: x.topk(2, dim[0], largest=keepdim).values,
    "flip": lambda m, x, dim, keepdim: x.flip(dim) * x,
    "roll": lambda m, x, dim, keepdim: x.roll((1,) * len(dim), dim) * x,
}


@some
@given(st.data(), st.sampled_from(sorted(REDUCTIONS)), filled_shapes, st.booleans(), dtypes)
def test_functions_along_dims(data, name, shape, keepdim, dtype):
    dim = data.draw(dims_of(len(shape)))
    x = data.draw(arrays(shape, distinct=True))  # equal elements: see test_against_torch
    assert_same(lambda m, F, x: REDUCTIONS[name](m, x, dim, keepdim), [x], dtype)


@some
@given(st.data(), st.sampled_from(["sum", "mean", "logsumexp", "norm"]), shapes.filter(len), st.booleans(), dtypes)
def test_reductions_of_empty_tensors(data, name, shape, keepdim, dtype):
    dim = data.draw(dims_of(len(shape)))
    if name == "mean" and 0 in shape:  # NaN, and so are its gradients
        keepdim = True
    assert_same(lambda m, F, x: REDUCTIONS[name](m, x, dim, keepdim), [data.draw(arrays(shape))], dtype)


@some
@given(st.data(), shapes, dtypes)
def test_changes_of_shape(data, shape, dtype):
    x, ndim = data.draw(arrays(shape)), len(shape)
    order = data.draw(st.permutations(range(ndim)))
    repeats = data.draw(st.lists(st.integers(0, 2), min_size=ndim, max_size=ndim + 1))
    new_axis = data.draw(st.integers(-ndim - 1, ndim))
    widths = data.draw(st.lists(st.integers(0, 2), max_size=2 * ndim).filter(lambda widths: len(widths) % 2 == 0))
    lead = data.draw(st.integers(1, 3))

    def function(m, F, x):
        y = x.permute(order) if ndim else x
        y = F.pad(y, widths, value=0.5) if widths else y
        y = y.repeat(repeats) if repeats else y
        y = y.unsqueeze(new_axis) if ndim == y.ndim else y
        return y.expand((lead,) + tuple(y.shape)).flatten() * y.reshape((1,) + tuple(y.shape)).squeeze(0).sum()

    assert_same(function, [x], dtype)


@st.composite
def indices(draw, shape):
    """Integers, slices, None, ... and lists of integers, as both libraries understand them."""
    parts, lists = [], draw(st.integers(1, 3))
    for n in shape:
        kind = draw(st.sampled_from(["slice", "integer", "list", "none"]))
        if kind == "none":
            parts.append(None)
        if kind == "integer":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "list":
            parts.append(draw(st.lists(st.integers(-n, n - 1), min_size=lists, max_size=lists)))
        else:
            start, stop = (draw(st.one_of(st.none(), st.integers(-n, n))) for _ in range(2))
            parts.append(slice(start, stop, draw(st.sampled_from([None, 1, 2]))))
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(parts)))
        parts = parts[:cut] + [Ellipsis]
    return tuple(parts)


@settings(some, max_examples=150)
@given(st.data(), filled_shapes, dtypes)
def test_indexing(data, shape, dtype):
    index = data.draw(indices(shape))

    def function(m, F, x):
        return x[tuple(m.tensor(part) if isinstance(part, list) else part for part in index)] * 2.0

    assert_same(function, [data.draw(arrays(shape))], dtype)


@some
@given(st.data(), filled_shapes, dtypes)
def test_gather_scatter_and_masks(data, shape, dtype):
    dim = data.draw(dims_of(len(shape)))[0]
    picked = tuple(data.draw(st.integers(1, n)) for n in shape)
    ids = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, shape[dim], picked)
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) > 0.5

    def function(m, F, x, src):
        index, chosen = m.tensor(ids), x[m.tensor(mask)]
        gathered = x.gather(dim, index) * src
        return x.scatter_add(dim, index, gathered) * chosen.sum() + x.index_select(dim, index.flatten()[:1])

    assert_same(function, [data.draw(arrays(shape)), data.draw(arrays(picked))], dtype)


@some
@given(st.data(), mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3), st.tuples(*[st.integers(0, 3)] * 3), dtypes)
def test_matmul_of_all_ranks(data, lead, sizes, dtype):
    rows, inner, columns = sizes
    left, right = lead.input_shapes
    a = left + (rows, inner) if rows else (inner,)
    b = right + (inner, columns) if columns else (inner,)
    assert_same(lambda m, F, a, b: a @ b, [data.draw(arrays(a)), data.draw(arrays(b))], dtype)


@some
@given(st.data(), st.integers(1, 3), dtypes)
def test_einsum_of_any_subscripts(data, operands, dtype):
    lengths = {"i": 2, "j": 3, "k": 1, "l": 4}
    inputs = ["".join(data.draw(st.lists(st.sampled_from("ijkl"), min_size=1, max_size=4))) for _ in range(operands)]
    output = "".join(data.draw(st.lists(st.sampled_from(sorted(set("".join(inputs)))), max_size=3, unique=True)))
    factors = [data.draw(arrays(tuple(lengths[label] for label in labels))) for labels in inputs]
    assert_same(lambda m, F, *factors: m.einsum(f"{','.join(inputs)}->{output}", *factors), factors, dtype)


LOSSES = {
    "mse_loss": lambda F, x, y, reduction: F.mse_loss(x, y, reduction=reduction),
    "l1_loss": lambda F, x, y, reduction: F.l1_loss(x, y, reduction=reduction),
    "huber_loss": lambda F, x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.8),
    "smooth_l1_loss": lambda F, x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.8),
    "bce": lambda F, x, y, reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=reduction),
    "kl_div": lambda F, x, y, reduction: F.kl_div(x, y, reduction="sum", log_target=True),
    "distributions": lambda F, x, y, reduction: F.cross_entropy(x, y.softmax(-1), reduction=reduction),
}


@some
@given(st.data(), st.sampled_from(sorted(LOSSES)), filled_shapes, st.sampled_from(["mean", "sum", "none"]), dtypes)
def test_losses(data, name, shape, reduction, dtype):
    arrays_of_both = [data.draw(arrays(shape)), data.draw(arrays(shape))]
    assert_same(lambda m, F, x, y: LOSSES[name](F, x, y, reduction), arrays_of_both, dtype)


@some
@given(st.data(), filled_shapes, st.sampled_from(["mean", "sum", "none"]), st.sampled_from([0.0, 0.2]), st.booleans(), dtypes)
def test_cross_entropy(data, shape, reduction, smoothing, weighted, dtype):
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    classes = shape[min(len(shape), 2) - 1]
    targets = random.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if targets.ndim:
        targets[tuple(random.integers(0, n) for n in targets.shape)] = -100
    weight = 0.5 + random.random(classes)

    def function(m, F, x):
        class_weights = m.tensor(weight, dtype=x.dtype) if weighted else None
        ids = m.tensor(targets)
        return F.cross_entropy(x, ids, class_weights, reduction=reduction, label_smoothing=smoothing)

    assert_same(function, [data.draw(arrays(shape))], dtype)


@some
@given(st.data(), filled_shapes, st.sampled_from([0.02, 0.1]), dtypes)
def test_norms_over_the_last_axes(data, shape, eps, dtype):
    normalized = shape[-data.draw(st.integers(1, len(shape))) :]
    weight, bias = data.draw(arrays(normalized)), data.draw(arrays(normalized))
    assert_same(
        lambda m, F, x, w, b: F.layer_norm(x, normalized, w, b, eps) + F.rms_norm(x, normalized, w, eps),
        [data.draw(arrays(shape)), weight, bias], dtype,
    )


@some
@given(st.data(), filled_shapes)
def test_positions_are_pytorchs(data, shape):
    x = data.draw(arrays(shape)).round(1)  # with equal elements
    dim = data.draw(dims_of(len(shape)))
    for function in (
        lambda t: t.argmax(dim[0]),
        lambda t: t.argmin(dim[0], keepdim=True),
        lambda t: t.argmax(),
        lambda t: (t > 0).any(dim),
        lambda t: (t > 0).all(dim, keepdim=True),
        lambda t: t.floor().count_nonzero(dim),
        lambda t: t.max(dim[0]).indices,
        lambda t: t.sort(dim=dim[0], descending=True, stable=True).indices,
        lambda t: t.argsort(dim=dim[0], stable=True),
    ):
        got, wanted = function(mg.from_numpy(x)).data, function(torch.tensor(np.array(x, order="C"))).numpy()
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
