"""Tensors of bfloat16 store numbers: every way in and out, what moves them, and that nothing computes with them."""
import contextlib
import copy
import math
import pickle
import random
import re
from fractions import Fraction

import numpy as np
import pytest

import minigrad as mg
import nn
from cases import CASES
from minigrad.arrays.bfloat16 import from_bfloat16, to_bfloat16
from minigrad.tensor import apply
from nn import functional as F

ONLY_STORES = re.escape("a bfloat16 tensor only stores numbers: minigrad computes in float32, so convert it with .float()")
BITS = np.arange(1 << 16, dtype=np.uint16)
NUMBERS = from_bfloat16(BITS)
FINITE = sorted(set(NUMBERS[np.isfinite(NUMBERS)].tolist()))


def drawn(*shape) -> mg.Tensor:
    """Numbers that bfloat16 rounds."""
    return mg.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def stored(*shape) -> mg.Tensor:
    return drawn(*shape).bfloat16()


def same(x: mg.Tensor, numbers) -> bool:
    return x.dtype is mg.bfloat16 and np.array_equal(x.float().array, np.float32(numbers), equal_nan=True)


def by_search(number: float) -> float:
    """The nearest number of bfloat16: exact distances to all of them, and of two as near the one whose last bit is 0."""
    beyond = 2.0**128  # rounds to infinity, as if it were the next number
    places = [*FINITE, beyond, -beyond]
    nearest = min(places, key=lambda x: (abs(Fraction(x) - Fraction(number)), to_bits(x) & 1))
    return math.copysign(math.inf, number) if abs(nearest) == beyond else math.copysign(nearest, number)


def to_bits(x: float) -> int:
    return 0 if abs(x) == 2.0**128 else int(np.float32(x).view(np.uint32)) >> 16


# ------------------------------------------------------------------------------------------------ rounding


def test_each_number_is_its_own_nearest():
    assert np.array_equal(to_bfloat16(NUMBERS) | 0x40 * np.isnan(NUMBERS), BITS | 0x40 * np.isnan(NUMBERS))
    assert np.array_equal(mg.from_numpy(NUMBERS).bfloat16().float().array, NUMBERS, equal_nan=True)


@pytest.mark.parametrize("number", [
    0.0, -0.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-23, -(1 + 2.0**-8), 3.1415, 1e-40, -1e-45, 2.0**-134, 3 * 2.0**-134,
    3.3895e38, 3.3961775e38, 3.4028235e38, -3.4028235e38, 255.5, 256.5, 257.0,
])
def test_rounding_is_to_the_nearest_and_to_even(number):
    number = float(np.float32(number))
    got = mg.tensor(number, dtype=mg.bfloat16).item()
    assert (got, math.copysign(1, got)) == (by_search(number), math.copysign(1, number))


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000])
def test_nan_stays_nan(bits):
    assert np.isnan(from_bfloat16(to_bfloat16(np.uint32([bits]).view(np.float32)))).all()


def test_rounding_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(1).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    theirs = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(mg.from_numpy(numbers).bfloat16().float().array, theirs)


# ------------------------------------------------------------------------------------------------ in and out

X = [[1.0, 2.5, 3.1415], [-4.0, 0.1, 1e9]]
ROUNDED = [[1.0, 2.5, 3.140625], [-4.0, 0.10009765625, 998244352.0]]
WAYS_IN = {
    "to": lambda: mg.tensor(X).to(mg.bfloat16), "to, by name": lambda: mg.tensor(X).to("bfloat16"),
    "to another's": lambda: mg.tensor(X).to(mg.zeros(1, dtype=mg.bfloat16)), "bfloat16": lambda: mg.tensor(X).bfloat16(),
    "type": lambda: mg.tensor(X).type(mg.bfloat16), "a parameter under no_grad": lambda: without_grad(nn.Parameter(mg.tensor(X))),
    "of float64": lambda: mg.tensor(X, dtype=mg.float64).bfloat16(), "tensor": lambda: mg.tensor(X, dtype=mg.bfloat16),
    "as_tensor": lambda: mg.as_tensor(X, dtype=mg.bfloat16), "tensor of one": lambda: mg.tensor(mg.tensor(X).bfloat16()),
    "copy_": lambda: mg.empty(2, 3, dtype=mg.bfloat16).copy_(mg.tensor(X)), "items": lambda: with_items(X),
    "new_tensor": lambda: stored(1).new_tensor(X),
}
FILLED = {
    "zeros": (lambda: mg.zeros(2, 3, dtype=mg.bfloat16), 0), "zeros_like": (lambda: mg.zeros_like(stored(2, 3)), 0),
    "ones": (lambda: mg.ones(2, 3, dtype=mg.bfloat16), 1), "new_ones": (lambda: stored(1).new_ones(2, 3), 1),
    "full": (lambda: mg.full((2, 3), 0.1, dtype=mg.bfloat16), 0.10009765625), "fill_": (lambda: stored(2, 3).fill_(-2), -2),
    "zero_": (lambda: stored(2, 3).zero_(), 0), "integers": (lambda: mg.tensor([[7] * 3] * 2).bfloat16(), 7),
    "booleans": (lambda: mg.ones(2, 3, dtype=mg.bool).bfloat16(), 1),
}


def without_grad(parameter):
    with mg.no_grad():
        return parameter.bfloat16()


def with_items(numbers):
    x = mg.zeros(2, 3, dtype=mg.bfloat16)
    x[0] = numbers[0]
    x[..., 1:][1] = mg.tensor(numbers[1][1:])
    x[..., 2] = 0.5
    x[:, 2] = mg.tensor(numbers)[:, 2]
    x[-1, 0] = mg.tensor(numbers[1][0]).bfloat16()
    return x


@pytest.mark.parametrize("make", WAYS_IN.values(), ids=WAYS_IN)
def test_numbers_are_rounded_on_the_way_in(make):
    x = make()
    assert same(x, ROUNDED) and x.tolist() == ROUNDED
    assert type(x) is mg.Tensor and not x.requires_grad and x.is_floating_point()


@pytest.mark.parametrize("make, value", FILLED.values(), ids=FILLED)
def test_filled(make, value):
    assert same(make(), np.full((2, 3), value))


def test_ways_out():
    x = mg.tensor(X).bfloat16()
    for wide, dtype in ((x.float(), mg.float32), (x.double(), mg.float64), (x.to(mg.float32), mg.float32)):
        assert wide.dtype == dtype and wide.tolist() == ROUNDED
    assert x.long().tolist() == [[1, 2, 3], [-4, 0, 998244352]] and x.bool().all()
    assert mg.zeros(2).copy_(x[0, :2]).tolist() == [1, 2.5] and mg.tensor(x, dtype=mg.float32).tolist() == ROUNDED
    assert x[0, 1].item() == float(x[0, 1]) == 2.5 and f"{x[0, 1]:.2f}" == "2.50" and bool(x[0, 0])
    assert mg.tensor(x).data_ptr() != x.data_ptr() == mg.as_tensor(x).data_ptr() == mg.Tensor(x).data_ptr()
    assert x.bfloat16() is x is x.to("cpu") and x.to(mg.bfloat16, copy=True) is not x


def test_what_it_says_of_itself():
    x = stored(2, 3)
    assert (x.shape, x.ndim, x.numel(), x.size(1), len(x)) == ((2, 3), 2, 6, 3, 2)
    assert (x.element_size(), x.stride(), x.T.stride(), x.is_contiguous(), x.T.is_contiguous()) == (2, (3, 1), (1, 3), True, False)
    assert repr(mg.tensor([3.1415, -2.0]).bfloat16()) == "tensor([ 3.1406, -2.    ], dtype=bfloat16)"
    assert "3.141" in mg.tensor([3.1415]).bfloat16()._repr_html_()
    assert repr(mg.bfloat16) == "dtype('bfloat16')" and str(mg.bfloat16) == "bfloat16" == mg.bfloat16
    assert x.dtype == mg.bfloat16 != mg.float32 and mg.float32 != x.dtype and mg.bfloat16.itemsize == 2
    assert pickle.loads(pickle.dumps(mg.bfloat16)) is copy.deepcopy(mg.bfloat16) is mg.bfloat16
    assert {mg.bfloat16: 1}[x.dtype] == 1


def test_finfo_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        assert getattr(mg.finfo(mg.bfloat16), name) == getattr(torch.finfo(torch.bfloat16), name)


def test_large_arrays_are_aligned_for_kernels(kernels):
    assert all(make(1 << 15, dtype=mg.bfloat16).data_ptr() % 64 == 0 for make in (mg.zeros, mg.empty, mg.ones))


# ------------------------------------------------------------------------------------------------ moving

MOVES = {  # name: (what it does, does the result share memory?)
    "reshape": (lambda x: x.reshape(4, -1), True), "view": (lambda x: x.view(-1), True), "flatten": (lambda x: x.flatten(1), True),
    "T": (lambda x: x.T, True), "mT": (lambda x: x.mT, True), "permute": (lambda x: x.permute(1, 2, 0), True),
    "unsqueeze": (lambda x: x.unsqueeze(1), True), "squeeze": (lambda x: x[:1].squeeze(), True),
    "expand": (lambda x: x[:1].expand(5, *x.shape[1:]), True), "detach": (lambda x: x.detach(), True),
    "an int": (lambda x: x[1], True), "a slice": (lambda x: x[:, ::2], True), "a negative step": (lambda x: x[..., 1:3], True),
    "one element": (lambda x: x[1, 2, -1], True), "ellipsis": (lambda x: x[..., 0], True), "None": (lambda x: x[:, None], True),
    "all but one": (lambda x: x[..., 1, 2], True), "split": (lambda x: x.split(2, 1)[1], True),
    "unbind": (lambda x: x.unbind(2)[3], True), "iteration": (lambda x: list(x)[1], True),
    "clone": (lambda x: x.clone(), False), "clone of a transposed one": (lambda x: x.T.clone(), False),
    "contiguous": (lambda x: x.mT.contiguous(), False), "reshape of a transposed one": (lambda x: x.mT.reshape(-1), False),
    "positions": (lambda x: x[mg.tensor([1, 0, 1])], False), "a mask": (lambda x: x[x.float() > 0], False),
    "positions along two axes": (lambda x: x[[0, 1], [2, 0]], False), "flip": (lambda x: x.flip(1), False),
    "copy": (copy.copy, True), "deepcopy": (copy.deepcopy, False), "pickle": (lambda x: pickle.loads(pickle.dumps(x)), False),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 300, 400)], ids=["small", "large"])
@pytest.mark.parametrize("move, shares", MOVES.values(), ids=MOVES)
def test_moves(move, shares, shape):
    x = stored(*shape)
    moved, expected = move(x), move(x.float())
    assert same(moved, expected.array)
    assert (moved.stride(), moved.is_contiguous()) == (expected.stride(), expected.is_contiguous())
    if moved.array.flags.writeable:  # not if expanded
        moved.fill_(7)
        assert same(x, stored(*shape).float().array) is not shares


def test_a_view_that_takes_a_copy_is_refused():
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        stored(2, 3).T.view(-1)
    with pytest.raises(ValueError, match=re.escape("shape (4,) is invalid for a tensor of shape (2, 3)")):
        stored(2, 3).reshape(4)
    with pytest.raises(IndexError, match="out of bounds"):
        stored(2, 3)[2]


# ------------------------------------------------------------------------------------------------ modules and files


def test_a_module_keeps_its_parameters_which_store_numbers_and_learn_again_in_float32():
    layer = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    layer[0].register_buffer("ids", mg.tensor([1, 2]))
    layer[1].shared = layer[0].weight
    (layer(drawn(2, 3)) * drawn(2, 4)).sum().backward()
    weight, before = layer[0].weight, layer[0].weight.tolist()
    assert layer.bfloat16() is layer and layer[0].weight is layer[1].shared is weight
    assert {p.dtype for p in layer.parameters()} == {mg.bfloat16} and layer[0].ids.dtype == mg.int64
    assert type(weight) is nn.Parameter and not weight.requires_grad and weight.grad is None
    assert same(weight, np.float32(mg.tensor(before).bfloat16().tolist()))
    assert layer.float()[0].weight is weight and weight.dtype == mg.float32 and weight.requires_grad
    (layer(drawn(2, 3)) * drawn(2, 4)).sum().backward()
    assert weight.grad.abs().sum() > 0 and weight.grad.dtype == mg.float32
    assert {p.dtype for p in layer.to(mg.bfloat16).to(mg.float64).parameters()} == {mg.float64}


FROM_BFLOAT16 = {"float": lambda layer: layer.float(), "double": lambda layer: layer.double(), "twice": lambda layer: layer.bfloat16().float(),
                 "there and back": lambda layer: layer.float().bfloat16().float(), "a copy": lambda layer: copy.deepcopy(layer).float(),
                 "pickled": lambda layer: pickle.loads(pickle.dumps(layer)).float()}


@pytest.mark.parametrize("convert", FROM_BFLOAT16.values(), ids=FROM_BFLOAT16)
def test_what_was_trainable_before_bfloat16_is_so_afterwards(convert):
    layer = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    layer[0].weight.requires_grad = False
    layer.bfloat16()
    layer[1].bias.requires_grad = False
    layer = convert(layer)
    assert [p.requires_grad for p in layer.parameters()] == [False, True, True, False]
    assert [p.requires_grad for p in layer.requires_grad_().requires_grad_(False).parameters()] == 4 * [False]
    assert not any(p.requires_grad for p in layer.bfloat16().float().parameters())


@pytest.mark.parametrize("theirs", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("own", ["float32", "float64", "bfloat16"])
def test_a_state_dict_of_bfloat16_fits_all_floats_and_theirs_fit_it(own, theirs):
    source, model = nn.Linear(3, 4).to(theirs), nn.Linear(3, 4).to(own)
    if own != theirs and "bfloat16" not in (own, theirs):
        with pytest.raises(RuntimeError, match=f"dtype mismatch for weight: {theirs} in state_dict, {own} in the model"):
            model.load_state_dict(source.state_dict())
        return
    learns = model.weight.requires_grad
    model.load_state_dict(source.state_dict())
    assert model.weight.dtype == own and model.weight.requires_grad == learns == (own != "bfloat16")
    for parameter, given in zip(model.parameters(), source.parameters()):
        assert parameter.tolist() == given.detach().to(own).tolist() and parameter.data_ptr() != given.data_ptr()


def test_integers_do_not_fit_bfloat16():
    with pytest.raises(RuntimeError, match="dtype mismatch for weight: int64 in state_dict, bfloat16 in the model"):
        nn.Linear(1, 1, bias=False).bfloat16().load_state_dict({"weight": mg.tensor([[1]])})


def test_files_keep_the_bits(tmp_path):
    x = mg.from_numpy(NUMBERS.reshape(256, 256)).bfloat16()
    mg.save({"all": x, "transposed": x.T, "one": x[3, 4], "beside": (mg.ones(1), [1])}, tmp_path / "x")
    loaded = mg.load(tmp_path / "x")
    assert np.array_equal(loaded["all"].array.bits, x.array.bits) and np.array_equal(loaded["transposed"].array.bits, x.array.bits.T)
    assert loaded["one"].tolist() == x[3, 4].item() and loaded["beside"][0].dtype == mg.float32
    assert (tmp_path / "x").stat().st_size < 2 * 2 * len(BITS) + 3000


# ------------------------------------------------------------------------------------------------ other libraries


def test_pytorch_gives_and_takes_memory():
    torch = pytest.importorskip("torch")
    for ours in (stored(3, 4), stored(3, 4).T, stored(3, 4)[:, 1], stored(0, 3), stored()):
        theirs = torch.from_dlpack(ours)
        assert theirs.dtype is torch.bfloat16 and theirs.tolist() == ours.tolist()
        assert theirs.data_ptr() == ours.data_ptr() or not ours.numel()
        back = mg.from_dlpack(theirs)
        assert back.tolist() == ours.tolist() and back.dtype is mg.bfloat16 and (back.stride() == ours.stride() or not ours.numel())
        ours.fill_(2)
        assert bool((theirs == 2).all()) and (back.float() == 2).all()
    theirs = torch.arange(12).bfloat16().reshape(3, 4).T[1:]
    ours = mg.from_dlpack(theirs)
    assert ours.tolist() == theirs.tolist() and ours.data_ptr() == theirs.data_ptr()
    assert mg.from_dlpack(ours).data_ptr() == ours.data_ptr()
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(mg.as_tensor(ours.array[::-1]))


def test_a_capsule_for_numpys_other_dtypes_is_left_alone():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.int64, torch.bool):
        assert mg.from_dlpack(torch.ones(2, dtype=dtype)).dtype == str(dtype).removeprefix("torch.")
    for dtype in (torch.uint16, torch.float8_e4m3fn):  # which has other bits
        with pytest.raises(TypeError, match="tensors hold float32, float64, int64, bool or bfloat16"):
            mg.from_dlpack(torch.ones(2).to(dtype))


def test_hasattr_is_false_for_what_numpy_lacks_too():
    x = mg.ones(2).bfloat16()
    assert not hasattr(mg.bfloat16, "named_parameters") and not hasattr(x.array, "named_parameters")
    with pytest.raises(TypeError, match="only stores numbers"):
        hasattr(x.array, "sum")


def test_arrays_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array(X, ml_dtypes.bfloat16)
    for make in (mg.tensor, mg.as_tensor, mg.from_numpy, mg.from_dlpack, lambda array: mg.tensor(X, dtype=array.dtype)):
        assert same(make(array), ROUNDED)
    assert mg.tensor(array, dtype=mg.float32).tolist() == ROUNDED
    assert mg.from_dlpack(array).data_ptr() == array.ctypes.data


# ------------------------------------------------------------------------------------------------ refusals

MOVING_OPS = {"Clone", "Embedding", "Expand", "Flip", "Gather", "Index", "Permute", "Reshape", "Scatter", "SetAt"}


@pytest.mark.parametrize("way", [contextlib.nullcontext, mg.textbook], ids=["as usual", "textbook"])
def test_no_op_computes_with_bfloat16(way, kernels):
    """Every row: all of its arrays in bfloat16, and each alone."""
    for case in CASES:
        places = [i for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)]
        arrays = [mg.tensor(x, dtype=mg.float32) if isinstance(x, np.ndarray) else x for x in case.inputs]
        for chosen in (places, *([i] for i in places)):
            inputs = [x.bfloat16() if i in chosen else x for i, x in enumerate(arrays)]
            with way():
                try:
                    out = apply(case.op, *inputs, **case.options)
                except TypeError as error:
                    assert re.fullmatch(rf"({case.op.__name__}: )?{ONLY_STORES}", str(error)), (case, chosen)
                    continue
                except ValueError as error:  # of attention
                    assert "do not fit together" in str(error) and "of bfloat16" in str(error), (case, chosen)
                    continue
                assert case.op.__name__ in MOVING_OPS, (case, chosen)
                wanted = apply(case.op, *[x.float() if i in chosen else x for i, x in enumerate(inputs)], **case.options)
                assert same(out, wanted.bfloat16().float().array), (case, chosen)


REFUSED = {
    "x + x": lambda x: x + x, "x + 1": lambda x: x + 1, "1 - x": lambda x: 1 - x, "float32 + x": lambda x: x.float() + x,
    "float32 += x": lambda x: x.float().add_(x), "x += 1": lambda x: x.add_(1), "array + x": lambda x: np.ones(3) + x,
    "x == x": lambda x: x == x, "x < 0": lambda x: x < 0, "x @ x": lambda x: x @ x.T, "-x": lambda x: -x, "1 in x": lambda x: 1 in x,
    "sum": lambda x: x.sum(), "max": lambda x: x.max(0), "argmax": lambda x: x.argmax(), "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(1), "any": lambda x: x.any(), "nonzero": lambda x: x.nonzero(), "unique": lambda x: x.unique(),
    "softmax": lambda x: x.softmax(-1), "cumsum": lambda x: x.cumsum(0), "exp": lambda x: x.exp(), "isnan": lambda x: x.isnan(),
    "std": lambda x: x.std(), "norm": lambda x: x.norm(), "einsum": lambda x: mg.einsum("ij,kj->ik", x, x), "cat": lambda x: mg.cat([x, x]),
    "cat with float32": lambda x: mg.cat([x.float(), x]), "where": lambda x: mg.where(x.float() > 0, x, 0.0), "tril": lambda x: x.tril(),
    "stack": lambda x: mg.stack([x, x]), "x as items of float32": lambda x: x.float().__setitem__(0, x[0]),
    "numpy": lambda x: x.numpy(), "data": lambda x: x.data, "np.asarray": np.asarray, "np.sum": np.sum, "np.exp": np.exp,
    "of its array": lambda x: np.asarray(x.array), "sum of its array": lambda x: x.array.sum(), "arithmetic of its array": lambda x: x.array + 1,
    "assigned to data": lambda x: setattr(x.float(), "data", x), "requires_grad_": lambda x: x.requires_grad_(),
    "zeros that learn": lambda x: mg.zeros(2, dtype=mg.bfloat16, requires_grad=True), "Parameter": nn.Parameter,
    "normal_": lambda x: x.normal_(), "bernoulli": lambda x: x.bernoulli(), "clamp_": lambda x: x.clamp_(0), "optimizer": lambda x: nn.optim.SGD([x], 0.1),
    "layer_norm": lambda x: F.layer_norm(x, (3,)), "gelu": F.gelu, "cross_entropy": lambda x: F.cross_entropy(x, mg.tensor([0, 1])),
    "compiled": lambda x: mg.compile(lambda x: x * 2)(x), "a layer": lambda x: nn.LayerNorm(3).bfloat16()(x),
    "anomaly": lambda x: in_anomaly(x),
}  # fmt: skip
OTHERS = {
    "float32 @ x": (lambda x: drawn(2, 3) @ x.T, TypeError, "got float32 and bfloat16; convert one with .to"),
    "a layer of float32": (lambda x: nn.Linear(3, 1)(x), TypeError, "expected one dtype, got bfloat16 and float32; convert"),
    "a layer of bfloat16": (lambda x: nn.Linear(3, 1).bfloat16()(x.float()), TypeError, "expected one dtype, got float32 and bfloat16"),
    "backward": (lambda x: x.backward(), RuntimeError, "does not require grad"),
    "as an index": (lambda x: drawn(3)[x], TypeError, ONLY_STORES),
    **{name: (make, TypeError, r"make the tensor in float32, and convert it with \.bfloat16\(\)$") for name, make in {
        "rand": lambda x: mg.rand(2, dtype=mg.bfloat16), "randn_like": mg.randn_like, "eye": lambda x: mg.eye(2, dtype=mg.bfloat16),
        "arange": lambda x: mg.arange(3, dtype=mg.bfloat16), "linspace": lambda x: mg.linspace(0, 1, 3, dtype="bfloat16"),
    }.items()},
    "one that learns": (lambda x: drawn(2).requires_grad_().bfloat16(), TypeError, r"use x\.detach\(\)\.bfloat16\(\)$"),
    "a computed one": (lambda x: (drawn(2).requires_grad_() * 2).to("bfloat16"), TypeError, r"use x\.detach\(\)\.bfloat16\(\)$"),
}


def in_anomaly(x):
    with mg.detect_anomaly():
        return x * 2


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_uses_that_are_refused(use):
    x = stored(2, 3)
    with pytest.raises(TypeError, match=rf"^(\w+: )?{ONLY_STORES}$"):
        use(x)
    assert same(x, stored(2, 3).float().array)


@pytest.mark.parametrize("use, op", [(REFUSED["x + x"], "Add"), (REFUSED["cat"], "Concatenate")])
def test_an_error_of_numpys_names_the_op(use, op):
    with pytest.raises(TypeError, match=f"^{op}: {ONLY_STORES}$"):
        use(stored(2, 3))


@pytest.mark.parametrize("use, kind, words", OTHERS.values(), ids=OTHERS)
def test_uses_that_are_refused_in_other_words(use, kind, words):
    with pytest.raises(kind, match=words):
        use(stored(2, 3))


# ------------------------------------------------------------------------------------------------ random sequences

STEPS = {  # each on a tensor of bfloat16, and on one of float32 that is rounded afterwards
    "transpose": lambda x, r: x.transpose(*r.sample(range(x.ndim), 2)) if x.ndim > 1 else x,
    "flatten": lambda x, r: x.flatten(), "clone": lambda x, r: x.clone(), "detach": lambda x, r: x.detach(),
    "split": lambda x, r: r.choice(x.chunk(2, r.randrange(x.ndim))) if x.ndim else x,
    "halve": lambda x, r: x[r.randrange(2) :: 2] if x.ndim and len(x) > 1 else x,
    "select": lambda x, r: x[..., r.randrange(x.shape[-1])] if x.ndim > 1 and x.shape[-1] else x,
    "unsqueeze": lambda x, r: x.unsqueeze(r.randrange(x.ndim + 1)) if x.ndim < 5 else x,
    "positions": lambda x, r: x[mg.tensor([r.randrange(len(x)) for _ in range(3)])] if x.ndim and len(x) else x,
    "through float32": lambda x, r: x.float().to(x.dtype), "through float64": lambda x, r: x.double().to(x.dtype),
    "pickle": lambda x, r: pickle.loads(pickle.dumps(x)), "deepcopy": lambda x, r: copy.deepcopy(x),
    "fill a part": lambda x, r: written(x.clone(), r.gauss(0, 100)), "copy into": lambda x, r: mg.empty_like(x).copy_(x),
    "double": lambda x, r: (x.float() * 1.01).to(x.dtype), "state": lambda x, r: through_a_module(x),
}  # fmt: skip


def written(x, value):
    if x.ndim and len(x):
        x[0] = value
    return x


def through_a_module(x):
    holder = nn.Module()
    holder.register_buffer("x", x)
    other = nn.Module()
    other.register_buffer("x", mg.zeros_like(x))
    other.load_state_dict(holder.state_dict())
    return other.x


@pytest.mark.parametrize("seed", range(200))
def test_random_sequences_are_those_of_float32_rounded_after_each_step(seed):
    wide = drawn(4, 6).bfloat16().float()
    x = wide.bfloat16()
    names = random.Random(seed)
    for step in range(12):
        name = names.choice(list(STEPS))
        x, wide = (STEPS[name](y, random.Random(f"{seed} {step}")) for y in (x, wide))
        wide = wide.bfloat16().float()
        assert same(x, wide.array) and x.shape == wide.shape, (step, name)
