"""Functions that depend on shapes and options in more ways than fit in a table, on Hypothesis's examples: values, gradients
and second derivatives are PyTorch's."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

from oracle import assert_same, torch  # noqa: F401  its group is by the library

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
def arrays(draw, shape):
    """Normal numbers in one of the layouts."""
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    return LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](shape, random.standard_normal)


@st.composite
def dims_of(draw, ndim):
    """Some of the axes, each counted from either end."""
    axes = draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=ndim, unique=True))
    return tuple(draw(st.sampled_from([axis, axis - ndim])) for axis in axes)


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
