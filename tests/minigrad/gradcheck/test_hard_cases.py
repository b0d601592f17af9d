"""Wrong backwards made to slip through, right functions made to look wrong, and calls that make no sense."""
import collections
import itertools

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.gradcheck import (
    census, compare_float32, gradcheck, gradcheck_module, gradcheck_report, gradgradcheck, taylor,
)
from minigrad.gradcheck.mutants import with_backward
from minigrad.tape import Op
from minigrad.tensor import apply


def leaf(values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


def normal(*shape, seed=3):
    return leaf(np.random.default_rng(seed).standard_normal(shape))


def function(forward, backward):
    """A function of one array with backward(dout, x), applied to Tensors."""
    op = type("Custom", (Op,), {
        "forward": lambda op, x: (op.save(x), forward(x))[1], "backward": lambda op, dout, x: backward(dout, x),
    })  # fmt: skip
    return lambda x: apply(op, x)


def square(x):
    return x * x


class Cube(Op):
    """x^3 with a right backward for arrays and a wrong one for Tensors."""

    def forward(self, x):
        self.save(x)
        return x * x * x

    def backward(self, dout, x):
        slope = 3 * x * x
        return dout * (slope if isinstance(dout, np.ndarray) else slope + 4)


class ModeDependent(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        return (3 if mg.is_grad_enabled() else 5) * x * x * dout


WEIGHTS = np.where(np.arange(400) == 7, 1e-6, 1.0)
WRONG = {
    "sparse upstreams apart": (function(square, lambda d, x: (2 if np.count_nonzero(d) <= 1 else 3) * d * x), normal(3, 4)),
    "upstreams with zeros apart": (function(square, lambda d, x: (2 if np.all(d) else 3) * d * x), normal(20, 30)),
    "another backward under no_grad": (ModeDependent.apply, normal(3, 4)),
    "another backward with create_graph": (lambda x: apply(Cube, x), normal(3, 4)),
    "clips what forward saved": (function(square, lambda d, x: (np.clip(x, -0.5, 0.5, out=x), 2 * d * x)[1]), normal(3, 4)),
    "changes its input in forward": (function(lambda x: square(np.abs(x, out=x)), lambda d, x: 2 * d * x), normal(3, 4)),
    "needs a contiguous upstream": (function(square, lambda d, x: 2 * d * x if d.flags.c_contiguous else 0 * d), normal(3, 4)),
    "needs strides": (function(square, lambda d, x: 0 * d if 0 in d.strides else 2 * d * x), normal(3, 4)),
    "wrong beside a large value": (function(square, lambda d, x: d * np.where(x < 10, 3 * x, 2 * x)), leaf([1e6, 1.0, 2.0])),
    "wrong on a large constant": (function(lambda x: 1e6 + np.sin(x), lambda d, x: 1.0001 * d * np.cos(x)), normal(3)),
    "wrong beneath a constant": (function(lambda x: 1 + 1e-10 * np.sin(x), lambda d, x: 2e-10 * d * np.cos(x)), normal(3)),
    "small row lost": (
        function(lambda x: np.where(np.arange(40) == 3, 1e-9, 1.0) * np.sin(x),
                 lambda d, x: d * np.where(np.arange(40) == 3, 0.0, 1.0) * np.cos(x)), normal(40)),
    "saved in float32": (function(square, lambda d, x: 2 * d * x.astype(np.float32)), normal(3, 4)),
    "small entry forgotten": (function(lambda x: WEIGHTS * square(x), lambda d, x: 2 * d * x * (WEIGHTS == 1)), normal(400)),
    "large clipped": (function(square, lambda d, x: np.clip(2 * d * x, -1e6, 1e6)), normal(3, 4)),
    "tiny flushed": (function(square, lambda d, x: np.where(np.abs(2 * d * x) < 1e-9, 0.0, 2 * d * x)), normal(3, 4)),
    "size of a tiny upstream": (function(lambda x: 1e-13 * x, lambda d, x: 1e-13 * np.abs(d)), normal(3, 4)),
    "nested outputs": (lambda x: (x * 2.0, {"state": (function(square, lambda d, x: 3 * d * x)(x),)}), normal(3)),
    "kink of many": (function(np.abs, lambda d, x: d * np.where(x == 0, 17.0, np.sign(x))), leaf(np.zeros((12, 12)))),
    "concave kink of many": (
        function(lambda x: -np.abs(x), lambda d, x: d * np.where(x == 0, 17.0, -np.sign(x))), leaf(np.zeros((12, 12)))),
    "raises": (function(square, lambda d, x: d[7]), normal(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_backwards_do_not_slip_through(name):
    fn, x = WRONG[name]
    assert not gradcheck(fn, x, raise_exception=False)


def test_nested_inputs_are_checked():
    wrong = function(square, lambda d, x: 3 * d * x)
    report = gradcheck_report(lambda x, pair: x * wrong(pair["y"][0]), [normal(3), {"y": [normal(3)]}])
    assert [(entry.name, entry.verdict) for entry in report.inputs] == [("x", "pass"), ("pair['y'][0]", "fail")]


def test_a_kink_is_judged_in_fast_mode_as_well():
    fn, _ = WRONG["kink of many"]
    assert gradcheck_report(fn, leaf(np.zeros((3, 3))), fast_mode=True).verdict == "fail"


def test_gradgradcheck_knows_a_wrong_backward_of_tensors():
    with pytest.raises(RuntimeError, match="create_graph=True gives another gradient"):
        gradgradcheck(lambda x: apply(Cube, x), normal(3))
    with pytest.raises(ValueError, match="expected a grad_output for each of 2 outputs, got 1"):
        gradgradcheck(lambda x: (x * x, x.exp()), normal(3), normal(3))


class KeyBias(nn.Module):
    """Attention with a key bias, whose true gradient is zero: softmax does not see it."""

    def __init__(self):
        super().__init__()
        mg.manual_seed(1)
        self.q, self.k, self.v = (nn.Linear(8, 8).to("float64") for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)


MASK = np.random.default_rng(0).random((20, 20)) < 0.3
RIGHT = {
    "sine of a million": (lambda x: x.sin(), lambda r: leaf(1e6 * r.uniform(1, 2, 3))),
    "outlier": (lambda x: x.softmax(-1), lambda r: leaf(np.where(np.arange(900) == 5, -1e9, r.normal(size=900)).reshape(30, 30))),
    "masked with -1e9": (lambda x: x.softmax(-1), lambda r: leaf(np.where(MASK, -1e9, r.normal(size=(20, 20))))),
    "tanh with an outlier": (lambda x: x.tanh(), lambda r: leaf(np.where(np.arange(300) == 5, 1e6, r.normal(size=300)))),
    "masked outputs": (lambda x: x.masked_fill(MASK, -np.inf), lambda r: leaf(r.normal(size=(20, 20)))),
    "masked log_softmax": (lambda x: x.masked_fill(MASK, -np.inf).log_softmax(-1), lambda r: leaf(r.normal(size=(20, 20)))),
    "-inf in the input": (lambda x: x.softmax(-1), lambda r: leaf(np.where(MASK[:4, :5], -np.inf, r.normal(size=(4, 5))))),
    "ties sorted": (lambda x: x.sort().values, lambda r: leaf([1.0, 1.0, 1.0, 2.0])),
    "ties in topk": (lambda x: x.topk(2).values, lambda r: leaf([1.0, 1.0, 1.0])),
    "a kink both ways": (lambda x: x.relu() @ mg.tensor([[1.0], [-0.01]], dtype=mg.float64), lambda r: leaf(np.zeros((1, 2)))),
    "steep": (lambda x: (x * 300.0).tanh(), lambda r: leaf(0.01 * r.normal(size=5))),
    "very steep": (lambda x: (x * 1e8).tanh(), lambda r: leaf(1e-8 * r.uniform(0.5, 1, 3))),
    "a jump nearby": (lambda x: x / x.abs(), lambda r: leaf(1e-8 * r.uniform(0.5, 1, 3))),
    "a pole nearby": (lambda x: 1.0 / x, lambda r: leaf(1e-8 * r.uniform(0.5, 1, 3))),
    "root near zero": (lambda x: x.sqrt(), lambda r: leaf([1e-2, 1.0])),
    "badly scaled": (lambda x: x.exp(), lambda r: leaf(r.normal(size=6) * 10.0 ** np.arange(-8, -2))),
    "empty": (lambda x: x * 2.0, lambda r: leaf(np.zeros((0, 3)))),
    "a number": (lambda x: x.exp(), lambda r: leaf(0.3)),
    "half zero": (lambda x: x.softmax(-1).sum() * 1e4 + x[0] * 0.0, lambda r: leaf(r.normal(size=5))),
    "normalised sum": (lambda x: (x - x.mean(-1, keepdim=True)).sum(), lambda r: leaf(r.normal(size=(3, 4)))),
    "layer norm's sum": (lambda x: nn.functional.layer_norm(x, 4).sum(), lambda r: leaf(r.normal(size=(3, 4)))),
}


@pytest.mark.filterwarnings("ignore::minigrad.gradcheck.VacuousGradcheckWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_are_not_accused(name):
    fn, draw = RIGHT[name]
    for seed, fast_mode in itertools.product(range(3), (False, True)):
        assert gradcheck(fn, draw(np.random.default_rng(seed)), seed=seed, fast_mode=fast_mode)


def test_what_differences_cannot_see_is_left_open():
    report = gradcheck_report(lambda x: x.float().sin().double(), leaf(np.ones(3)))
    assert report.inputs[0].verdict == "inconclusive" and "rounded to float32" in str(report)


def test_points_nearby_stay_in_the_domain():
    for fn in (lambda x: x.sqrt(), lambda x: x.rsqrt(), lambda x: x**1.5):
        assert gradcheck_report(fn, leaf([1e-8, 1.0])).verdict != "fail"


def test_gradients_that_cancel_are_not_accused():
    module, x = KeyBias(), mg.tensor(np.random.default_rng(0).standard_normal((2, 5, 8)))
    for seed in range(3):
        assert gradcheck_module(module, x, seed=seed)
    assert {row.name: row.status for row in census(module, x)}["k.bias"] == "cancelled"
    for seed in range(4):
        report = compare_float32(lambda x, b: ((x @ x.mT + (x @ b))).softmax(-1) @ x, (normal(2, 5, 8), normal(8, 1)), seed=seed)
        assert report and "gradient of b is zero, or nearly" in str(report)


def test_the_census_sees_a_small_use_beside_a_large_constant():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(np.ones(3))

        def forward(self, x):
            return x * 1e8 + (self.w**2).detach() * 1e-2

    assert census(Cut(), normal(3))[0].status == "none"


def test_taylor_at_special_functions():
    x = normal(3)
    assert "proves nothing" in str(taylor(lambda x: x.softmax(-1).sum(), x))
    assert "proves nothing" not in str(taylor(square, leaf(np.zeros(3))))  # flat only to first order
    assert taylor(lambda x: x.masked_fill(np.array([True, False, False]), -np.inf).tanh(), x)
    assert taylor(lambda x: x.float().sin().double(), x).verdict != "fail"
    with pytest.raises(ValueError, match="no input or parameter requires a gradient"):
        taylor(lambda x: x, mg.ones(2))


def test_compare_float32_refuses_what_is_not_float32():
    constant = normal(3).detach()
    with pytest.raises(TypeError, match="Mul is computed in float64 though all inputs are float32"):
        compare_float32(lambda x: x * constant, normal(3))
    with pytest.raises(ValueError, match="no output depends on an input"):
        compare_float32(lambda x: x.detach(), normal(3))


x = normal(3)


@pytest.mark.parametrize("call, error, words", [
    (lambda: gradcheck(lambda x: None, x), TypeError, "must return a floating-point Tensor.* got NoneType"),
    (lambda: gradcheck(lambda x: 1.0, x), TypeError, "got float"),
    (lambda: gradcheck(lambda x: x, x, eps=0), ValueError, "eps must be a positive number, got 0"),
    (lambda: gradcheck(lambda x: x, x, rtol=float("nan")), ValueError, "rtol must be a number >= 0, got nan"),
    (lambda: gradcheck(lambda x: x, x, seed=-1), ValueError, "seed must be an integer >= 0, got -1"),
    (lambda: gradcheck(lambda x: x, x, directions=0), ValueError, "directions must be an integer >= 1"),
    (lambda: gradgradcheck(lambda x: x, x, epz=1), TypeError, "unexpected keyword argument 'epz'; the options are eps,"),
    (lambda: gradcheck_module(nn.Linear(2, 2).double(), x, epz=1), TypeError, "unexpected keyword argument 'epz'"),
    (lambda: gradgradcheck(lambda x: x, mg.ones(2)), ValueError, "requires a gradient; make one with requires_grad"),
    (lambda: gradgradcheck(lambda x: x.detach(), x), ValueError, "no output depends on an input"),
    (lambda: with_backward("sofmax", None), ValueError, "no function 'sofmax'; did you mean 'softmax'"),
])  # fmt: skip
def test_calls_that_make_no_sense_are_told_so(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_array_is_one_input_of_a_module():
    embedding = nn.Embedding(4, 2).to("float64")
    assert gradcheck_module(embedding, np.array([1, 1, 3]), check_batched_grad=False)


def test_constants_buffers_and_the_callers_inputs_are_left_alone():
    constant, array = mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64), np.ones(3)

    def halve(x, c, a):
        c.data[...] *= 0.5
        a *= 0.5
        return x * x

    report = gradcheck_report(halve, (x, constant, array))
    assert not report and "c has been changed" in str(report)
    assert constant.tolist() == [1, 2, 3] and array.tolist() == [1, 1, 1]

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(np.ones(3))
            self.register_buffer("count", mg.zeros(1, dtype=mg.float64))

        def forward(self, x):
            self.count += 1.0
            return x * self.weight * (1.0 + self.count.clone())

    module = Counting()
    assert gradcheck_module(module, x.detach()) and module.count.item() == 0

    before, state = x.tolist(), mg.random.get_state()
    with pytest.raises(ZeroDivisionError):
        gradgradcheck(lambda x: (mg.rand(1), x.data.__iadd__(1.0), 1 / 0), x)
    with pytest.raises(ZeroDivisionError):
        compare_float32(lambda x: (mg.rand(1), 1 / 0), x)
    assert x.tolist() == before and mg.random.get_state() == state


def test_outputs_of_any_nest():
    Pair = collections.namedtuple("Pair", "first second")
    assert gradcheck(lambda x: Pair(x * 2.0, [x.exp(), {"b": x.sin()}]), x)
    report = gradcheck_report(lambda x: (x * x, (x + 1.0).detach()), x)
    assert not report and "output 1 is not on the tape" in str(report)
