"""Kernels over rows and elements: the same bits wherever the arrays are in memory."""
import itertools

import numpy as np
import pytest

from minigrad.fast.kernels import activations, attention, cross_entropy, embedding, layer_norm, rows, softmax

WIDTHS = [5, 16, 70, 150]


def at_many_places(count: int, shape: tuple[int, ...], dtype, least_gap: int = 0):
    """`count` consecutive arrays in memory, in both orders, with 40 sizes of gaps from the least on.

    LLVM checks at run time whether arrays overlap, and uses a loop that is not vectorised for those that lie close
    together: it would sum in another order.
    """
    size = int(np.prod(shape))
    for gap in range(least_gap, least_gap + 40):
        memory = np.zeros(count * (size + gap), dtype)
        arrays = [part[:size].reshape(shape) for part in memory.reshape(count, -1)]
        yield arrays
        memory[...] = 0
        yield arrays[::-1]


def layer_norm_forward(x, weight, out):
    layer_norm.layer_norm_forward(x, weight[0], weight[1], out, np.empty(6), np.empty(3), 1e-5)


def layer_norm_backward(dout, x, weight, dx, dweight):
    mean, rstd = np.array([[0.1, 0.2, 0.3], [1.1, 1.2, 1.3]])
    layer_norm.layer_norm_backward(dout, x, weight[0], mean, rstd, dx, dweight[0], dweight[1])


def rms_norm_backward(dout, x, weight, dx, dweight):
    layer_norm.rms_norm_backward(dout, x, weight[0], np.array([1.1, 1.2, 1.3]), dx, dweight[0])


def cross_entropy_rows(x, dx, losses):
    cross_entropy.cross_entropy_forward_backward(x, np.array([0, 3, 1]), -100, 0.1, True, losses[0, :3], dx,
                                                 np.empty(1, x.dtype), np.empty(1))


def gelu_rows_backward(dout, x, dx, out, total):
    dx[...] = dout
    activations.gelu_rows_backward(x, dx, out, total[0], False)


APART = {  # whose outputs come from empty_apart
    "gelu", "gelu backward", "gelu tanh", "gelu tanh backward", "gelu rows backward",
}
KERNELS = {  # a kernel, how many arrays it reads, and to how many it writes
    "softmax": (softmax.softmax_forward, 1, 1),
    "softmax backward": (softmax.softmax_backward, 2, 1),
    "layer_norm": (layer_norm_forward, 2, 1),
    "layer_norm backward": (layer_norm_backward, 3, 2),
    "rms_norm": (lambda x, weight, out: layer_norm.rms_norm_forward(x, weight[0], out, np.empty(3), 1e-5), 2, 1),
    "rms_norm backward": (rms_norm_backward, 3, 2),
    "cross_entropy": (cross_entropy_rows, 1, 2),
    "gelu": (lambda x, out: activations.gelu_forward(x[0], out[0], False), 1, 1),
    "gelu backward": (lambda dout, x, dx: activations.gelu_backward(dout[0], x[0], dx[0], False), 2, 1),
    "gelu tanh": (lambda x, out: activations.gelu_forward(x[0], out[0], True), 1, 1),
    "gelu tanh backward": (lambda dout, x, dx: activations.gelu_backward(dout[0], x[0], dx[0], True), 2, 1),
    "gelu rows backward": (gelu_rows_backward, 2, 3),
    "add": (lambda a, b, out: activations.add_forward(a[0], b[0], out[0]), 2, 1),
    "embedding": (lambda dout, dweight: embedding.embedding_backward(dout, np.array([1, 1, 0]), dweight), 1, 1),
    "sum_rows": (lambda x, total: rows.sum_rows_forward(x, total[0]), 1, 1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_bits_do_not_depend_on_where_arrays_are(name, random):
    launch, read, written = KERNELS[name]
    least_gap = activations.CLOSE if name in APART else 0
    for width, dtype in itertools.product(WIDTHS, (np.float32, np.float64)):
        inputs = random.standard_normal((read, 3, width))
        results = set()
        for arrays in at_many_places(read + written, (3, width), dtype, least_gap):
            for array, value in zip(arrays, inputs):
                array[...] = value
            launch(*arrays)
            results.add(b"".join(array.tobytes() for array in arrays[read:]))
        assert len(results) == 1, (width, dtype)


def test_small_outputs_have_room_around_them():
    for shape in (), (0, 3), (2, 5), (4, 64), (5, 70):
        like = np.zeros(shape, np.float32)
        out = activations.empty_apart(like)
        assert out.shape == shape and out.dtype == np.float32 and out.flags.carray
        if 0 < like.size <= activations.CLOSE:
            (low, high), (start, end) = (np.lib.array_utils.byte_bounds(a) for a in (out.base, out))
            assert min(start - low, high - end) >= 4 * activations.CLOSE


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("time, size", [(5, 3), (9, 8), (50, 16)])
def test_the_bits_of_attention_do_not_depend_on_where_arrays_are(time, size, dtype, random):
    values = random.standard_normal((4, 1, 1, time, size))
    results = set()
    for arrays in at_many_places(7, (1, 1, time, size), dtype):
        for array, value in zip(arrays, values):
            array[...] = value
        q, k, v, dout, *gradients = arrays
        out, normalisers = attention.attention_forward(q, k, v, None, True, 0.3)
        attention.attention_backward(q, k, v, None, True, 0.3, (out, normalisers), dout, gradients)
        results.add(b"".join(array.tobytes() for array in (out, *gradients)))
    assert len(results) == 1
