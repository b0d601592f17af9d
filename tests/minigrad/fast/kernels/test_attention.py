"""The attention kernels against the textbook in float64, at the edges of their tiles, blocks and spans."""
import itertools
import threading
import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.kernels.attention import SPAN, TILE, attention_backward, attention_forward, cuts
from minigrad.fast.kernels.bfloat16 import product
from minigrad.ops.attention import ScaledDotProductAttention
from minigrad.ops.operands import call

SCALE = 0.3


def textbook(q, k, v, dout, mask=None, is_causal=False):
    """out, dq, dk, dv in float64."""
    leaves = [mg.tensor(x, dtype=mg.float64, requires_grad=True) for x in (q, k, v)]
    mask = None if mask is None else mg.tensor(np.broadcast_to(mask, q.shape[:3] + k.shape[2:3]), dtype=mg.float64)
    with mg.textbook():
        out = call(ScaledDotProductAttention, *leaves, mask, None, is_causal=is_causal, scale=SCALE)
        gradients = mg.grad(out, leaves, mg.tensor(dout, dtype=mg.float64))
    return [x.detach().numpy() for x in (out, *gradients)]


def random(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def arrays(B, H, Tq, Tk, D, dtype=np.float32):
    shapes = [(B, H, Tq, D), (B, H, Tk, D), (B, H, Tk, D), (B, H, Tq, D)]
    return [random(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]


def run(q, k, v, dout, mask=None, is_causal=False, rotation=None, rounds=False):
    """out, dq, dk, dv from the kernels; anything they do not write stays NaN."""
    out, normalisers = attention_forward(q, k, v, mask, is_causal, SCALE, rotation, product=product(rounds))
    gradients = [np.full(x.shape, np.nan, out.dtype) for x in (q, k, v)]
    attention_backward(
        q, k, v, mask, is_causal, SCALE, (out, normalisers), dout, gradients, rotation, product=product(rounds))
    return out, *gradients


def assert_right(q, k, v, dout, **options):
    results = run(q, k, v, dout, **options)
    tolerance = 1e-5 if results[0].dtype == np.float32 else 1e-13
    for actual, wanted in zip(results, textbook(q, k, v, dout, **options)):
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max()))


SIZES = [(1, 1, 1, 1, 1), (2, 3, 5, 5, 8), (1, 2, 65, 65, 17), (2, 1, 100, 37, 32), (1, 2, 37, 100, 32),
         (1, 1, 130, 130, 65), (1, 2, 300, 300, 8), (1, 1, 300, 70, 8), (1, 1, 70, 300, 8)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes_and_masks(size, dtype):
    B, H, Tq, Tk, _ = size
    inputs = arrays(*size, dtype=dtype)
    dropped = np.where(np.random.default_rng(0).random((B, 1, Tq, Tk)) < 0.5, -np.inf, 0.0)  # some queries see nothing
    for mask in (None, random(Tq, Tk), random(B, 1, 1, Tk).astype(np.float64), random(H, Tq, 1), dropped):
        for is_causal in (False, True):
            assert_right(*inputs, mask=mask, is_causal=is_causal)


def test_more_keys_than_stay_in_the_cache():
    T = SPAN + TILE + 7
    for is_causal in (False, True):
        assert_right(*arrays(1, 1, T, T, 4), is_causal=is_causal)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(2, 3, 5, 5, 2), (1, 2, 65, 65, 18), (2, 1, 37, 100, 32), (1, 1, 300, 70, 8),
                                  (1, 1, SPAN + 7, SPAN + 7, 4)], ids=str)
def test_rotated_queries_and_keys(size, dtype):
    """The same as attention of rotated inputs; gradients are turned back."""
    q, k, v, dout = arrays(*size, dtype=dtype)
    T, D = max(q.shape[2], k.shape[2]), q.shape[3]
    numbers = np.exp(1j * np.arange(T + 1)[:, None] * np.linspace(0.1, 1, D // 2))
    rotation = np.stack([numbers.real, numbers.imag], axis=-1).reshape(T + 1, D).astype(dtype)

    def turned(x, numbers):
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * numbers[: x.shape[2]]
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape).astype(dtype)

    for is_causal in (False, True):
        out, dq, dk, dv = run(turned(q, numbers), turned(k, numbers), v, dout, is_causal=is_causal)
        expected = out, turned(dq, numbers.conj()), turned(dk, numbers.conj()), dv
        for layout in (np.ascontiguousarray, with_gaps, lambda x: np.broadcast_to(x, x.shape), lambda x: x[:T]):
            for actual, wanted in zip(run(q, k, v, dout, None, is_causal, layout(rotation)), expected):
                np.testing.assert_allclose(actual, wanted, rtol=0, atol=5e-6 if dtype == np.float32 else 1e-14)


def test_a_key_that_overflows_in_its_rotation_does_not_reach_earlier_queries():
    q, k, v, dout = arrays(1, 1, 40, 40, 8)
    rotation = np.full((40, 8), 0.5**0.5, np.float32)
    expected = run(q, k, v, dout, None, True, rotation)
    k[:, :, 20] = 3e38
    for actual, wanted in zip(run(q, k, v, dout, None, True, rotation)[:2], expected):
        np.testing.assert_array_equal(actual[:, :, :20], wanted[:, :, :20])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_maximum_that_grows_from_tile_to_tile(dtype):
    T = 3 * TILE
    q, k, v, dout = arrays(1, 1, T, T, 4, dtype=dtype)
    q[..., 0], k[..., 0] = 1, np.linspace(-40, 40, T)
    for order in (slice(None), slice(None, None, -1)):  # the largest scores last, or first
        for is_causal in (False, True):
            assert_right(q, k[:, :, order], v, dout, is_causal=is_causal)


def test_tiles_in_which_a_query_sees_nothing():
    T = 3 * TILE
    inputs = arrays(1, 1, T, T, 4)
    for hidden in (slice(0, TILE), slice(TILE, 2 * TILE), slice(2 * TILE, T), slice(0, T)):
        mask = np.zeros((T, T))
        mask[::2, hidden] = -np.inf
        for is_causal in (False, True):
            assert_right(*inputs, mask=mask, is_causal=is_causal)


def test_memory_grows_with_the_number_of_keys_not_with_its_square():
    def peak(T):
        """The memory allocated in a thread without a workspace, once the kernels are compiled."""
        inputs = arrays(1, 1, T, T, 4)
        run(*inputs, is_causal=True)
        peaks = []

        def work():
            tracemalloc.start()
            run(*inputs, is_causal=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return peaks[0]

    small, large, largest = (peak(T) for T in (1024, 2048, 3072))
    assert abs((largest - large) - (large - small)) < 10_000 and largest < 3072**2


def test_packed_projections_are_read_and_written_in_place():
    B, T, H, D = 2, 50, 3, 16
    packed, dpacked = random(B, T, 3, H, D), np.full((B, T, 3, H, D), np.nan, np.float32)
    q, k, v = (packed[:, :, i].swapaxes(1, 2) for i in range(3))
    dq, dk, dv = (dpacked[:, :, i].swapaxes(1, 2) for i in range(3))
    dout = random(B, T, H, D).swapaxes(1, 2)
    out, normalisers = attention_forward(q, k, v, None, True, SCALE)
    assert out.swapaxes(1, 2).flags.c_contiguous  # so that merging the heads is free
    attention_backward(q, k, v, None, True, SCALE, (out, normalisers), dout, (dq, dk, dv))
    expected = run(*(np.ascontiguousarray(x) for x in (q, k, v, dout)), is_causal=True)
    for actual, wanted in zip((out, dq, dk, dv), expected):
        assert np.array_equal(actual, wanted)


def with_gaps(x):
    return np.repeat(x, 2, axis=-1)[..., ::2]


def test_gradients_into_arrays_with_gaps():
    q, k, v, dout = arrays(1, 1, 5, 5, 4)
    out, normalisers = attention_forward(q, k, v, None, True, SCALE)
    gradients = [with_gaps(np.zeros_like(x)) for x in (q, k, v)]
    attention_backward(q, k, v, None, True, SCALE, (out, normalisers), dout, gradients)
    for actual, wanted in zip(gradients, run(q, k, v, dout, is_causal=True)[1:]):
        assert np.array_equal(actual, wanted)


@pytest.mark.parametrize("size", [(1, 2, 70, 300, 32), (2, 1, 300, 300, 18)], ids=str)
def test_rounded_operands_over_several_tiles(size):
    """tests/minigrad/fast/test_autocast.py compares a single tile closely."""
    for is_causal in (False, True):
        results = (run(*arrays(*size), is_causal=is_causal, rounds=rounds) for rounds in (True, False))
        for actual, wanted in zip(*results):
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=0.01 * np.abs(wanted).max())


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("size", [(2, 2, 70, 1, 33), (1, 1, 17, 17, 17), (1, 1, 70, 70, 96)], ids=str)
def test_scores_of_certain_weights_have_no_gradient(size, rounds):
    """Each query sees one key, or one has all the weight: dweights must cancel rowsum(dout * out)."""
    q, k, v, dout = arrays(*size)
    if size[3] > 1:
        q[...] = k[...] = 40 * np.eye(*q.shape[2:])
    _, dq, dk, _ = run(q, k, v, dout, rounds=rounds)
    assert max(np.abs(dq).max(), np.abs(dk).max()) < 40 * 2e-6


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("T", [5, 64, 130, 260])
def test_the_future_never_reaches_an_earlier_query(T, rounds):
    q, k, v, dout = arrays(1, 2, T, T, 16)
    out, dq, _, _ = run(q, k, v, dout, is_causal=True, rounds=rounds)
    for j in (1, T // 2, T - 1):
        for poison in (5.0, np.nan, np.inf, 3.4e38):  # the last one is infinite in bfloat16
            changed_k, changed_v = k.copy(), v.copy()
            changed_k[:, :, j, 3] = changed_v[:, :, j, 5] = poison
            changed_out, changed_dq, _, _ = run(q, changed_k, changed_v, dout, is_causal=True, rounds=rounds)
            assert np.array_equal(changed_out[:, :, :j], out[:, :, :j])
            assert np.array_equal(changed_dq[:, :, :j], dq[:, :, :j])
            assert not np.array_equal(changed_out[:, :, j], out[:, :, j], equal_nan=True)


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("heads, blocks, threads", [(1, 1, 1), (1, 40, 2), (3, 20, 2), (5, 30, 4), (8, 1, 4)])
def test_cuts_share_the_work_and_leave_nothing_out(heads, blocks, threads, is_causal):
    work = np.tile(np.arange(blocks) * 2 + 1 if is_causal else np.ones(blocks), heads)
    shares = cuts(heads, blocks, threads, is_causal)
    assert shares[0] == 0 and shares[-1] == heads * blocks and (np.diff(shares) >= 0).all()
    for start, end in itertools.pairwise(shares):
        assert abs(work[start:end].sum() - work.sum() / threads) <= work.max()


@pytest.mark.parametrize("change", [
    dict(k=random(1, 2, 4, 5)), dict(k=random(1, 2, 5, 3)), dict(v=random(1, 2, 4, 3, dtype=np.float64)), dict(q=random(2, 4, 3)),
    dict(zip("qkv", [random(1, 2, 4, 3).astype(int)] * 3)), dict(mask=random(2, 4)), dict(mask=random(1, 1, 1, 1, 4)),
    dict(rotation=random(4, 3)), *(dict(zip("qkv", [random(1, 2, 4, 2)] * 3), rotation=rotation)
                                   for rotation in (random(3, 2), random(4, 4), random(4, 2, dtype=float), random(8))),
])
def test_arrays_that_do_not_fit_are_refused(change):
    arguments = dict(q=random(1, 2, 4, 3), k=random(1, 2, 4, 3), v=random(1, 2, 4, 3), mask=None) | change
    with pytest.raises(ValueError, match="do not fit together"):
        attention_forward(**arguments, is_causal=False, scale=1.0)
