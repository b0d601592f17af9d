"""Tensors as objects: construction, conversion, NumPy's functions, and errors that say what came and what was expected."""
import copy
import math
import os
import pickle
import pkgutil
import types

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad import backend
from nn import functional as F

a23, a34, a22 = mg.ones(2, 3), mg.ones(3, 4), mg.ones(2, 2)
leaf = mg.ones(2, requires_grad=True)


def scatter(index, src, **options):
    return mg.zeros(2, 3).scatter(1, mg.tensor(index), src, **options)


ERRORS = {
    "matmul sizes": (lambda: a23 @ a23, ValueError, "mat1 and mat2 shapes cannot be multiplied ((2, 3) and (2, 3))"),
    "matmul 0-d": (lambda: a23 @ mg.tensor(1.0), ValueError, "(2, 3) and ()"),
    "matmul dtypes": (lambda: a22 @ a22.double(), TypeError, "float32 and float64; convert one with .to(dtype)"),
    "matmul batch": (lambda: mg.ones(2, 2, 3) @ mg.ones(3, 3, 2), ValueError, "leading axes of (2, 2, 3) and (3, 3, 2)"),
    "broadcast": (lambda: a23 + a34, ValueError, "add: shapes (2, 3) and (3, 4) do not broadcast"),
    "reshape": (lambda: a23.reshape(4, 2), ValueError, "shape (4, 2) is invalid for a tensor of shape (2, 3) (6 elements)"),
    "permute": (lambda: a23.permute(0, 0), ValueError, "(0, 0) is not a permutation of the 2 axes of (2, 3)"),
    "dim": (lambda: a23.softmax(2), IndexError, "softmax: dim 2 is out of range for a tensor of shape (2, 3)"),
    **{f"softmax, dim={dim!r}": (lambda dim=dim: F.softmax(a23, dim=dim), TypeError, f"softmax: dim must be an integer, got {dim!r}; -1 is")
       for dim in (None, "rows", [0])},
    "log_softmax without dim": (lambda: mg.log_softmax(a23, None), TypeError, "log_softmax: dim must be an integer, got None"),
    **{f"{name} of a number": (lambda name=name: getattr(mg, name)(2.0), TypeError, f"{name} expects a Tensor, got float; make one with tensor()")
       for name in ("exp", "isfinite", "sum", "relu", "numel", "square")},
    "sum of a list": (lambda: mg.sum([1.0]), TypeError, "sum expects a Tensor, got list"),
    "max of a number": (lambda: mg.max(2.0, a22), TypeError, "max expects a Tensor, got float"),
    "max of nothing": (lambda: mg.zeros(2, 0).max(), ValueError, "max: a tensor of shape (2, 0) has no elements"),
    "min of nothing": (lambda: mg.zeros(2, 0).min(1), IndexError, "min: dim 1 of shape (2, 0) has no elements"),
    "amax of nothing": (lambda: mg.zeros(2, 0, 3).amax((0, 1)), IndexError, "max: dim 0, 1 of shape (2, 0, 3) has no elements"),
    "argmax of nothing": (lambda: mg.zeros(0).argmax(), ValueError, "argmax: a tensor of shape (0,) has no elements"),
    "argmin of nothing": (lambda: mg.zeros(0, 2).argmin(0), IndexError, "argmin: dim 0 of shape (0, 2) has no elements"),
    "np.max of nothing": (lambda: np.max(mg.zeros(0)), ValueError, "max: a tensor of shape (0,) has no elements"),
    "a format of several": (lambda: f"{a22:.2f}", TypeError, "the format '.2f' is one of numbers, but this tensor has shape (2, 2); use"),
    "sum dim": (lambda: a23.sum(-3), IndexError, "sum: dim -3 is out of range"),
    "expand": (lambda: a23.expand(2, 4), ValueError, "expand: shape (2, 3) does not broadcast to (2, 4)"),
    "split": (lambda: a23.split([1, 1], 1), ValueError, "sizes [1, 1] do not add up to 3"),
    "cat": (lambda: mg.cat([a23, a34]), ValueError, "cat: sizes must match except along dim 0, got [(2, 3), (3, 4)]"),
    "cat of numbers": (lambda: mg.cat([a23[0], mg.tensor(1.0)]), ValueError,
                       "zero-dimensional tensor (at position 1) cannot be concatenated; stack"),
    "flip": (lambda: a23.flip(0, -2), ValueError, "flip: dim 0 appears multiple times in (0, -2)"),
    "cat nothing": (lambda: mg.cat([]), ValueError, "non-empty"),
    "item": (lambda: a23.item(), ValueError, "only one element can become a Python number; this tensor has shape (2, 3)"),
    "truth": (lambda: bool(a23), ValueError, "truth of a tensor of shape (2, 3) is ambiguous"),
    "len": (lambda: len(mg.tensor(1.0)), TypeError, "0-d"),
    "ragged": (lambda: mg.tensor([[1.0], [1.0, 2.0]]), ValueError, "rows of equal length"),
    "a list of vectors": (lambda: mg.tensor([a22[0], a22[1]]), ValueError,
                          "only one element tensors can be converted to Python scalars, got one of shape (2,) in a list; use stack()"),
    "a nested list of one": (lambda: mg.zeros(2, 2).copy_([[1.0, a22[0]], [2.0, 3.0]]), ValueError, "got one of shape (2,)"),
    "a list of leaves": (lambda: mg.tensor([leaf[:1]]), RuntimeError, "Use tensor.detach().numpy()"),
    "strings": (lambda: mg.tensor("text"), TypeError, "floats, integers or booleans"),
    "integer gradient": (lambda: mg.tensor([1], requires_grad=True), TypeError, "only floating point tensors"),
    "numpy of a leaf": (lambda: mg.ones(1, requires_grad=True).numpy(), RuntimeError, "Use tensor.detach().numpy()"),
    "asarray of a leaf": (lambda: np.asarray(mg.ones(1, requires_grad=True)), RuntimeError, "Use tensor.detach().numpy()"),
    "grad of another dtype": (lambda: setattr(mg.ones(2, 3, requires_grad=True), "grad", a23.double()), TypeError,
                              "grad: expected a float32 Tensor, like this one, got float64"),
    "grad of the wrong shape": (lambda: setattr(mg.ones(2, requires_grad=True), "grad", a23), ValueError, "shape (2,)"),
    "unknown ufunc": (lambda: np.cbrt(a23), TypeError, "np.cbrt is not supported on Tensors"),
    "unknown function": (lambda: np.fft.fft(a23), TypeError, "np.fft is not supported on Tensors"),
    "trace": (lambda: a23[0].trace(), ValueError, "trace: expected a matrix, got shape (3,)"),
    "index_add": (lambda: a23.index_add(1, mg.tensor([0, 3]), a22), IndexError,
                  "index 3 is out of bounds for dim 1 of (2, 3)"),
    "argmax": (lambda: a23.argmax(2), IndexError, "argmax: dim 2 is out of range for a tensor of shape (2, 3)"),
    "index_add negative": (lambda: a23.index_add(1, mg.tensor([0, -1]), a22), IndexError, "index -1 is out of bounds"),
    "index_add source": (lambda: a23.index_add(1, mg.tensor([0]), a22), ValueError, "a source of shape (2, 1), got (2, 2)"),
    "repeat_interleave": (lambda: a23.repeat_interleave(mg.tensor([1, -2]), 0), ValueError,
                          "one number, or one for each of 2 positions, none negative, got [ 1 -2]"),
    "multinomial": (lambda: a23.multinomial(4), ValueError, "cannot draw 4 of 3 without replacement"),
    "linear": (lambda: F.linear(a23, a34), ValueError, "(2, 3) and (3, 4) transposed"),
    "layer_norm": (lambda: F.layer_norm(a23, 2), ValueError, "expected an input of shape (..., 2,), got (2, 3)"),
    "cross_entropy": (lambda: F.cross_entropy(a23, mg.tensor([0, 1, 2])), ValueError, "got (2, 3) and (3,)"),
    "cross_entropy floats": (lambda: F.cross_entropy(a23, mg.ones(2)), TypeError, "targets must be integers"),
    "attention": (lambda: F.scaled_dot_product_attention(a23, a34, a34), ValueError, "got (2, 3), (3, 4) and (3, 4)"),
    "attention batches": (lambda: F.scaled_dot_product_attention(mg.ones(2, 3, 4), *[mg.ones(3, 3, 4)] * 2), ValueError,
                          "leading axes that broadcast, got (2, 3, 4), (3, 3, 4) and (3, 3, 4)"),
    "attention mask": (lambda: F.scaled_dot_product_attention(a22, a22, a22, mg.ones(3, 2)), ValueError,
                       "a mask of shape (3, 2) does not broadcast to (2, 2)"),
    "no tensor": (lambda: mg.add(2, 3), TypeError, "expected a Tensor among the operands, got 2 and 3; make one with tensor()"),
    "no tensor divided": (lambda: mg.div(2.0, True), TypeError, "expected a Tensor among the operands, got 2.0 and True"),
    "lists": (lambda: mg.maximum([1], [2]), TypeError, "expected a Tensor among the operands, got ndarray and ndarray"),
    "a missing argument": (lambda: a23.softmax(), TypeError, "Tensor.softmax() missing 1 required positional argument: 'dim'"),
    "a missing argument of one renamed": (lambda: a23.cumsum(), TypeError, "Tensor.cumsum() missing 1 required"),
    "arange without steps": (lambda: mg.arange(0, 3, 0), ValueError,
                             "arange: step must be nonzero and lead from start to end, got 0, 3 and step 0"),
    "arange the other way": (lambda: mg.arange(0, -3, 2), ValueError, "got 0, -3 and step 2"),
    "arange of nothing downwards": (lambda: mg.arange(-3), ValueError, "got 0, -3 and step 1"),
    "arange without end": (lambda: mg.arange(0.0, float("inf")), ValueError, "got 0.0, inf and step 1"),
    "arange of integers": (lambda: mg.arange(0, 3, 0.5, dtype=mg.int64), ValueError, "got 0, 3 and step 0"),
    "linspace": (lambda: mg.linspace(0, 1, -1), ValueError, "linspace: expected a whole number of steps >= 0, got -1"),
    "pad": (lambda: F.pad(mg.tensor([1]), (1, 1), value=1.5), TypeError, "pad: 1.5 does not fit into a tensor of int64"),
    "pad infinitely": (lambda: F.pad(mg.tensor([1]), (1, 1), value=float("inf")), TypeError, "pad: inf does not fit"),
    "load": (lambda: mg.load("no file"), FileNotFoundError, f"no such file to load; the current folder is {os.getcwd()}: 'no file'"),
    "load a number": (lambda: mg.load(3), TypeError, "os.PathLike object, not int"),
    "np.split": (lambda: np.split(a23, 2, 1), ValueError, "axis 1 of (2, 3) has no 2 equal parts"),
    "np.dot": (lambda: np.dot(a23, mg.ones(2, 3, 4)), ValueError, "np.dot: b has at most two axes, got shape (2, 3, 4); use @"),
    "np.pad": (lambda: np.pad(a23, 1, "reflect"), TypeError, "Tensors take mode 'constant' only, got 'reflect'"),
    "rounding_mode": (lambda: a23.div(2, rounding_mode="trunc"), ValueError, "None or 'floor', got 'trunc'; x.trunc()"),
    "decimals of integers": (lambda: mg.arange(3).round(decimals=1), TypeError, "decimals=1 needs floats, got int64"),
    "scatter and reduce": (lambda: scatter([[0]], 1.0, reduce="add"), ValueError, "reduce='add' is left out; use scatter_add"),
    "scatter of nothing": (lambda: scatter([[0]], None), TypeError, "expected either src or value"),
    "writing to what is expanded": (lambda: mg.ones(2).expand(3, 2).add_(1.0), RuntimeError, "clone"),
    "chunk": (lambda: mg.ones(2).chunk(0), ValueError, "at least 1 chunk, got 0"),
    "nuclear norm": (lambda: mg.ones(2).norm("nuc"), ValueError, "a number or 'fro', got 'nuc'"),
    "integers to negative powers": (lambda: mg.arange(2) ** -1, ValueError, "negative integer powers"),
    "seed": (lambda: mg.manual_seed(-1), ValueError, "non-negative"),
    "backward of a vector": (lambda: (leaf * 2.0).backward(), RuntimeError, "grad can be implicitly created only for scalar outputs"),
    "backward with another shape": (lambda: (leaf * 2.0).backward(mg.ones(3)), ValueError, "expected a gradient of shape (2,), got (3,)"),
    "backward of a constant": (lambda: a22.sum().backward(), RuntimeError, "does not require grad"),
    "a hook on a constant": (lambda: a22.register_hook(print), RuntimeError, "doesn't require gradient"),
    "the graph of a constant": (lambda: mg.graph(a22), RuntimeError, "not on the tape"),
    "a pickle of a result": (lambda: pickle.dumps([leaf * 2.0]), RuntimeError,
                             "only leaf tensors can be copied or pickled, and this one was made by Mul; use detach()"),
    "a deep copy of a result": (lambda: copy.deepcopy(leaf * 2.0), RuntimeError, "only leaf tensors can be copied"),
    "in place, another shape": (lambda: mg.ones(2).add_(mg.ones(3, 2)), ValueError, "does not fit into a tensor of"),
    "in place, another dtype": (lambda: mg.tensor([1]).add_(0.5), TypeError, "can't be cast to int64"),
    "in place, booleans": (lambda: mg.tensor([True]).add_(mg.tensor([True]), alpha=2), TypeError, "cast to bool"),
    "an item set twice": (lambda: (leaf * 1.0).__setitem__([0, 0], leaf), ValueError, "an index occurs twice"),
    "scatter twice": (lambda: scatter([[0, 0]], mg.zeros(1, 2)), ValueError, "an index occurs twice"),
    "scatter out of range": (lambda: scatter([[0, 4]], mg.zeros(1, 2)), IndexError,
                             "scatter: index 4 is out of bounds for dimension 1 with size 3"),
    "scatter negative": (lambda: scatter([[0, -1]], 1.0), IndexError, "scatter: index -1 is out of bounds"),
    "scatter too little": (lambda: scatter([[0, 1]], mg.zeros(1, 1)), ValueError, "does not fit into src"),
    "scatter at floats": (lambda: scatter([[0.0]], mg.zeros(1, 1)), TypeError, "scatter: expected integers as index, got float32"),
    "scatter of another dtype": (lambda: scatter([[0]], mg.zeros(1, 1).double()), TypeError, "scatter: expected src of float32, got float64"),
    "scatter of a fraction": (lambda: mg.arange(3).scatter(0, mg.tensor([1]), 0.5), TypeError,
                              "scatter: 0.5 does not fit into a tensor of int64"),
    "normal integers": (lambda: mg.arange(3).normal_(), TypeError, "normal_: expected a tensor of floats, got int64"),
    **{f"probabilities {p}": (lambda p=p: mg.full((2,), p).bernoulli(), ValueError, "from 0 to 1") for p in (-0.1, 1.1, float("nan"))},
    "randperm": (lambda: mg.randperm(-1), ValueError, "randperm: expected n >= 0, got -1"),
    "randint": (lambda: mg.randint(3, 3, (2,)), ValueError, "randint: expected low < high, got 3 and 3"),
    "index_select of a number": (lambda: mg.tensor(1.0).index_select(0, mg.tensor([0, 0])), ValueError,
                                 "a single number has one position, got 2"),
    "integers as mask": (lambda: F.scaled_dot_product_attention(a22, a22, a22, mg.tensor([1, 0])), TypeError,
                         "mask of booleans or floats, got int64"),
    **{f"multinomial {weights}": (lambda weights=weights: mg.tensor(weights, dtype=mg.float64).multinomial(2), ValueError, words)
       for weights, words in (([1.0, 0.0, 0.0], "fewer than 2 nonzero weights"),  # PyTorch draws one of weight zero
                              ([1.0, math.inf, 1.0], "finite"), ([1e308, 1e308, 1e308], "finite"))},
    "replacing nothing": (lambda: backend.replaced_by(nonsense=len), TypeError, "backend: no function that can be replaced is called nonsense"),
}  # fmt: skip


@pytest.mark.parametrize("call, error, words", ERRORS.values(), ids=ERRORS)
def test_errors_say_what_came_and_what_was_expected(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_data_is_converted_to_one_of_four_dtypes():
    for data, dtype in (
        (1.0, "float32"), ([1.0], "float32"), (np.float64(1), "float64"), (np.ones(1), "float64"),
        (np.ones(1, "f2"), "float32"), (np.ones(1, ">f8"), "float64"), (1, "int64"), (np.ones(1, "u1"), "int64"),
        (True, "bool"),
    ):  # fmt: skip
        tensor = mg.tensor(data)
        assert tensor.dtype == dtype and tensor.array.dtype.isnative


def test_tensors_in_a_list_are_numbers():
    """Also those with axes, as in PyTorch."""
    one, two = mg.tensor([1.0]), mg.tensor([[2]])
    for data, expected in (([one, two], [1, 2]), ((one, 2.0), [1, 2]), ([[3.0, one], [two, 4]], [[3, 1], [2, 4]]), ([two, 3], [2, 3])):
        out = mg.tensor(data)
        assert out.tolist() == expected and out.dtype == (mg.int64 if expected == [2, 3] else mg.float32)
    x = mg.zeros(2)
    x[:] = [one, two]
    assert x.tolist() == (mg.zeros(2) + [one, two]).tolist() == [1, 2]


def test_numpys_functions_work_on_both_sides_and_on_the_tape():
    array, x = np.array([1.0, 2.0]), mg.tensor([3.0, 4.0], dtype=mg.float64, requires_grad=True)
    for out in (array * x, x * array, np.multiply(array, x), np.exp(np.log(array) + np.log(x))):
        assert isinstance(out, mg.Tensor) and out.requires_grad
        np.testing.assert_allclose(out.array, [3.0, 8.0])
    out = np.sum(np.where(array > 1.5, np.maximum(x, 1.0), 0.0), axis=0)
    out.backward()
    np.testing.assert_array_equal(x.grad.array, [0.0, 1.0])
    assert (array < x).array.all() and (np.array([[1.0, 2.0]]) @ x).item() == 11.0
    assert mg.einsum("i,i->", array, x).item() == 11.0


def test_repr_shows_what_matters():
    x = mg.tensor([1.0, -2.5], requires_grad=True)
    assert repr(x) == "tensor([ 1. , -2.5], requires_grad=True)"
    assert repr(x * 2.0) == "tensor([ 2., -5.], grad_fn=<Mul>)"
    assert repr(mg.zeros(1, dtype=mg.float64)) == "tensor([0.], dtype=float64)"
    assert f"{mg.tensor(0.123456):.3f}" == "0.123" and f"{mg.ones(1)}" == "tensor([1.])"
    assert repr(mg.zeros(0, 3)) == "tensor([], size=(0, 3))" and repr(mg.zeros(0)) == "tensor([])"
    assert mg.zeros(0, 3).max(1).values.shape == (0,) and mg.zeros(2, 0).argmax(0).tolist() == []


@pytest.mark.parametrize("make, value", [
    (lambda: mg.zeros(100, 200), 0), (lambda: mg.ones(100, 200, dtype=mg.float64), 1), (lambda: mg.full((100, 200), 7), 7),
    (lambda: mg.full((200, 300), True), 1), (lambda: copy.deepcopy(mg.from_numpy(np.full((200, 100), 3.0).T)), 3),
    (lambda: mg.empty(100, 200).zero_(), 0), (lambda: nn.init.constant_(nn.Linear(100, 200).weight, 2), 2),
], ids=["zeros", "ones", "full", "full of bool", "copy", "empty", "weight"])
def test_large_tensors_begin_with_a_cache_line(make, value, kernels):
    """Reading weights that straddle two lines takes longer. NumPy aligns to 16 bytes, so some of several would."""
    made = [make() for _ in range(4)]
    assert [tensor.array.ctypes.data % 64 for tensor in made] == [0] * 4
    assert all((tensor.array == value).all() and tensor.array.flags.carray for tensor in made)


def test_no_function_hides_a_module():
    """A module with the name of a public function could not be reached as an attribute of the package."""
    modules = {module.name for module in pkgutil.iter_modules(mg.__path__)}
    hidden = {name for name in modules if not isinstance(getattr(mg, name, mg), types.ModuleType)}
    assert hidden == {"tensor"}  # whose Tensor is public itself


def test_add_and_sub_take_alpha_a_factor_of_the_other():
    x, y = mg.tensor([1.0, 2.0]), mg.tensor([10.0, 20.0], requires_grad=True)
    assert mg.add(x, y, alpha=2).tolist() == [21.0, 42.0] and x.sub(y, alpha=0.5).tolist() == [-4.0, -8.0]
    x.sub(y, alpha=3).backward(mg.tensor([1.0, 2.0]))
    assert y.grad.tolist() == [-3.0, -6.0]
    flags = mg.tensor([True])
    assert flags.add(flags).dtype == mg.bool
