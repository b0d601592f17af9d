"""The checker must pass what is right, catch what is wrong, and say what it is, even where that is made hard."""
import collections
import inspect
import itertools
import signal
import sys
import time

import numpy as np
import pytest
from tables import each

import minigrad as mg
import nn
from minigrad.gradcheck import (
    GradcheckError, VacuousGradcheckWarning, above, assert_gradients, gradcheck, gradcheck_module, gradcheck_report,
    gradgradcheck,
)
from minigrad.gradcheck.mutants import MUTANTS, with_backward
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


def wrong_by(factor):
    """The square, with a gradient that is off by a factor."""
    return function(square, lambda d, x: 2 * x * d * factor)


class ModeDependent(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        return (3 if mg.is_grad_enabled() else 5) * x * x * dout


# x^3 with a right backward for arrays and a wrong one for Tensors
CUBE = function(lambda x: x * x * x, lambda d, x: d * (3 * x * x + (0 if isinstance(d, np.ndarray) else 4)))
X = normal(3, 4)
WEIGHTS = np.where(np.arange(400) == 7, 1e-6, 1.0)
WRONG = {
    "an input that is cut off": (lambda x, y: x * y.detach(), (X, normal(3, 4, seed=1))),
    "sparse upstreams apart": (function(square, lambda d, x: (2 if np.count_nonzero(d) <= 1 else 3) * d * x), X),
    "upstreams with zeros apart": (function(square, lambda d, x: (2 if np.all(d) else 3) * d * x), normal(20, 30)),
    "another backward under no_grad": (ModeDependent.apply, X),
    "another backward with create_graph": (CUBE, X),
    "clips what forward saved": (function(square, lambda d, x: (np.clip(x, -0.5, 0.5, out=x), 2 * d * x)[1]), X),
    "changes its input in forward": (function(lambda x: square(np.abs(x, out=x)), lambda d, x: 2 * d * x), X),
    "needs a contiguous upstream": (function(square, lambda d, x: 2 * d * x if d.flags.c_contiguous else 0 * d), X),
    "needs strides": (function(square, lambda d, x: 0 * d if 0 in d.strides else 2 * d * x), X),
    "wrong next to a large value": (function(square, lambda d, x: d * np.where(x < 10, 3 * x, 2 * x)), leaf([1e6, 1.0, 2.0])),
    "wrong on a large constant": (function(lambda x: 1e6 + np.sin(x), lambda d, x: 1.0001 * d * np.cos(x)), normal(3)),
    "wrong beneath a constant": (function(lambda x: 1 + 1e-10 * np.sin(x), lambda d, x: 2e-10 * d * np.cos(x)), normal(3)),
    "small row lost": (
        function(lambda x: np.where(np.arange(40) == 3, 1e-9, 1.0) * np.sin(x),
                 lambda d, x: d * np.where(np.arange(40) == 3, 0.0, 1.0) * np.cos(x)), normal(40)),
    "saved in float32": (function(square, lambda d, x: 2 * d * x.astype(np.float32)), X),
    "small entry forgotten": (function(lambda x: WEIGHTS * square(x), lambda d, x: 2 * d * x * (WEIGHTS == 1)), normal(400)),
    "large clipped": (function(square, lambda d, x: np.clip(2 * d * x, -1e3, 1e3)), X),
    "tiny flushed": (function(square, lambda d, x: np.where(np.abs(2 * d * x) < 1e-3, 0.0, 2 * d * x)), X),
    "size of a tiny upstream": (function(lambda x: 1e-13 * x, lambda d, x: 1e-13 * np.abs(d)), X),
    "nested outputs": (lambda x: (x * 2.0, {"state": (function(square, lambda d, x: 3 * d * x)(x),)}), normal(3)),
    "kink of many": (function(np.abs, lambda d, x: d * np.where(x == 0, 17.0, np.sign(x))), leaf(np.zeros((12, 12)))),
    "concave kink of many": (
        function(lambda x: -np.abs(x), lambda d, x: d * np.where(x == 0, 17.0, -np.sign(x))), leaf(np.zeros((12, 12)))),
    "one kink of several": (function(np.abs, lambda d, x: d * np.array([0.0, 17.0, 0.0])), leaf(np.zeros(3))),
    "between thousands of jumps": (function(lambda x: x - np.floor(x), lambda d, x: 1.05 * d), leaf(5 * normal(2000).detach().numpy())),
    "of nanometres": (function(lambda x: np.sin(1e9 * x), lambda d, x: 1.01e9 * d * np.cos(1e9 * x)), leaf(1e-9 * normal(3).detach().numpy())),
    "raises": (function(square, lambda d, x: d[7]), normal(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_backwards_do_not_slip_through(name):
    assert not gradcheck(*WRONG[name], raise_exception=False)


MASK = np.random.default_rng(0).random((20, 20)) < 0.3
DROPOUT = nn.Dropout(0.5)
Pair = collections.namedtuple("Pair", "first second")
RIGHT = {
    "an op": (wrong_by(1.0), lambda r: leaf(r.normal(size=(3, 4)))),
    "several inputs and outputs": (
        lambda x, y, scale: (x * y * scale, (x + y).tanh()), lambda r: (leaf(r.normal(size=(3, 4))), leaf(r.normal(size=4)), 2.0)),
    "outputs of any nest": (lambda x: Pair(x * 2.0, [x.exp(), {"b": x.sin()}]), lambda r: leaf(r.normal(size=3))),
    "dropout, which draws the same mask": (lambda x: DROPOUT(x) * x, lambda r: leaf(r.normal(size=(3, 4)))),
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
    "nanometres": (lambda x: (1e9 * x).sin(), lambda r: leaf(1e-9 * r.normal(size=3))),
    "a tenth of a micrometre": (lambda x: (1e7 * x).sin(), lambda r: leaf(1e-7 * r.normal(size=3))),
    "between jumps": (lambda x: x - mg.tensor(np.floor(x.detach().numpy())), lambda r: leaf(5 * r.normal(size=300))),
    "root near zero": (lambda x: x.sqrt(), lambda r: leaf([1e-2, 1.0])),
    "badly scaled": (lambda x: x.exp(), lambda r: leaf(r.normal(size=6) * 10.0 ** np.arange(-8, -2))),
    "cancelled in backward alone": (
        function(np.zeros_like, lambda d, x: d * (300 * x + 1000 - 300 * x - 1000)), lambda r: leaf(r.normal(size=3))),
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


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.0, 1.001, 1 + 1e-5])
def test_a_wrong_factor_is_found_and_reported(factor):
    with pytest.raises(GradcheckError, match=r"d output\[\d, \d\] / d x\[\d, \d\]: backward gives .* differences") as error:
        gradcheck(wrong_by(factor), X)
    assert error.value.report.inputs[0].ratio == pytest.approx(factor)


def float32_softmax(factor):
    """Its sums are in an array of float32; the gradient is off by the factor."""
    def forward(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True).astype(np.float32)

    def backward(dout, x):
        p = forward(x)
        return factor * p * (dout - (dout * p).sum(-1, keepdims=True))

    return forward, backward


ZEROS = leaf(np.zeros((3, 3)))
FOURTH = np.arange(5) == 3


def summed_back(dout):
    """The gradient of a cumulative sum."""
    return np.cumsum(dout[::-1])[::-1]


REPORTS = {  # what is checked, the verdict, and what the report says
    "a size": (wrong_by(1 / 3), X, {}, "fail", "1/N with N = 3 (dim 0 of x)"),
    "the root of a size": (wrong_by(2.0), X, {}, "fail", "perhaps sqrt(N) with N = 4"),
    "directions": (wrong_by(1.0), normal(40, 50), {}, "pass", "8 directions"),
    "entries, to report a failure": (wrong_by(1.001), normal(40, 50), {}, "fail", "256 entries"),
    "few directions": (wrong_by(1.0), normal(40, 50), dict(fast_mode=True), "pass", "3 directions"),
    "few directions, to report a failure": (wrong_by(1.001), X, dict(fast_mode=True), "fail", "3 directions"),
    "a point nearby": (lambda x: x.relu(), leaf([0.0, 1.0, -1.0]), {}, "pass",
                       "judged at a point nearby; at the given one there is a kink, or noise"),
    "a kink in fast mode": (WRONG["kink of many"][0], ZEROS, dict(fast_mode=True), "fail", "not between the slopes"),
    "digits that are cancelled": (lambda x: (x + 1e9) - 1e9, X, {}, "pass", "the function's values are off by about"),
    "digits that are lost": (lambda x: 1 + x.erf(), leaf(-5.7), {}, "inconclusive", "could not be judged"),
    "float32 inside": (lambda x: x.float().sin().double(), X, {}, "pass", "of themselves, as in float32: let buffers"),
    "float32 inside, of many": (lambda x: (x.float() * 2).sin().double(), normal(30, 20), {}, "pass", "as in float32: let buffers"),
    "near kinks of a mean": (function(lambda x: np.asarray(np.abs(x).mean()), lambda d, x: -d * np.sign(x) / x.size),
                             leaf(np.subtract(*np.random.default_rng(0).normal(size=(2, 4, 3)))), {}, "fail", "the wrong sign"),
    "float32 inside, wrong": (function(lambda x: np.sin(x.astype(np.float32)).astype(float), lambda d, x: 1.05 * d * np.cos(x)), X, {},
                              "fail", "of themselves, as in float32"),
    "rounded to decimals": (function(lambda x: np.round(x, 4), lambda d, x: 0 * d), X, {}, "inconclusive", "too little precision"),
    "rounded to decimals, in part": (function(lambda x: np.round(x, 4) + x * x, lambda d, x: 2 * d * x), X, {}, "inconclusive",
                                     "could not be judged"),
    "rounded to decimals, wrong": (function(lambda x: np.round(x, 4) + x * x, lambda d, x: 3 * d * x), X, {}, "fail", "are wrong"),
    "rounded to float32, wrong": (function(lambda x: x.astype(np.float32).astype(float), lambda d, x: 0 * d), leaf([1.0, 40.3, -2000.7]), {},
                                 "fail", "are wrong"),
    "sums in float32": (function(*float32_softmax(1.0)), X, {}, "pass", "as in float32: let buffers and casts inside have the dtype"),
    "sums in float32, wrong": (function(*float32_softmax(1.1)), X, {}, "fail", "as in float32: let buffers"),
    "chance": (lambda x: x * np.random.default_rng().random(), X, {}, "fail", "not deterministic"),
    "off the tape": (lambda x: (x * x, (x + 1.0).detach()), X, {}, "fail", "output 1 is not on the tape"),
    "a special input": (lambda x, w: x * w, (X, leaf(np.ones(4))), {}, "pass", "w is 1 everywhere"),
    "symmetry": (lambda x: x @ x, leaf(np.eye(3) + 1), {}, "pass", "symmetric"),
    "ids": (lambda x, ids: x[ids], (X, np.arange(3)), {}, "pass", "ids has no repeated id"),
    "only the diagonal": (function(lambda x: x.cumsum(-1), lambda d, x: d), normal(5), {}, "fail",
                          "backward has only the diagonal of the Jacobian"),
    "a row": (function(lambda x: x.cumsum(-1), lambda d, x: summed_back(np.where(FOURTH, 2 * d, d))), normal(5), {}, "fail",
              "only derivatives of output[3] are wrong"),
    "a column": (function(lambda x: x.cumsum(-1), lambda d, x: np.where(FOURTH, 2, 1) * summed_back(d)), normal(5), {}, "fail",
                 "only derivatives by x[3] are wrong"),
    "the diagonal": (function(lambda x: x.cumsum(-1), lambda d, x: summed_back(d) + d), normal(5), {}, "fail",
                     "only the diagonal of the Jacobian is wrong"),
    "a small factor": (wrong_by(1 + 1e-7), X, {}, "fail", "is 1.0000001 everywhere"),
    "the sign": (wrong_by(-1.0), X, {}, "fail", "is -1 everywhere: the wrong sign"),
    "several sizes": (wrong_by(0.25), normal(4, 4), {}, "fail", "1/N with N = 4 (several sizes)"),
    "lost digits": (lambda x: 1 + x.erf(), leaf(-5.7), {}, "inconclusive", "numbers this small may be rounding"),
}
UNSAID = {  # what is checked, the verdict, and what would not be true of it
    "a factor": (function(np.exp, lambda d, x: (d + 1e-7 * d[::-1]) * np.exp(x)), normal(3, 4), "fail", "everywhere"),
    "only the diagonal": (function(np.exp, lambda d, x: d * x), normal(3), "fail", "diagonal"),
    "a missing transpose": (function(lambda x: x @ x, lambda d, x: d @ x), leaf(np.eye(3) + 1), "fail", "symmetric"),
    "a token": (lambda x, b: x * b, (normal(2, 3, 4), normal(2, 1, 4)), "pass", "token"),
    "a transpose of nothing": (lambda x, b: x * b, (normal(2, 4, 1, 1), normal(1, 4, 1, 1)), "pass", "symmetric"),
    "sums": (lambda x, b: x * b, (X, normal(1)), "pass", "sums"),
    "rounding of clipped numbers": (function(lambda x: x, lambda d, x: np.clip(d, -1e-3, 1e-3)), normal(3), "fail", "float32"),
    "a kink": (lambda x: 1 + x.erf(), leaf(-5.7), "inconclusive", "kink"),
    "several inputs": (function(np.sin, lambda d, x: d * np.where(x == x.max(), x, np.cos(x))), normal(3, 4), "fail", "inputs"),
    "how far elsewhere": (function(np.sin, lambda d, x: d * np.cos(x + 0.01)), normal(3, 4), "fail", "off by up to"),
}


def test_what_is_not_true_is_not_said():
    def is_unsaid(name, row):
        checked, inputs, verdict, unsaid = row
        report = gradcheck_report(checked, inputs)
        assert report.verdict == verdict and unsaid not in str(report), report

    each(UNSAID, is_unsaid)


@pytest.mark.parametrize("what, forward, backward", [
    ("a call of the function", lambda x: time.sleep(9) or x, lambda dout, x: dout), ("a backward", np.tanh, lambda dout, x: time.sleep(9))])
def test_what_does_not_end_is_told(what, forward, backward):
    report = gradcheck_report((forward, backward), np.ones(2), time_limit=0.1)
    assert report.verdict == "inconclusive" and f"ends: INCONCLUSIVE: {what} took longer than 0.1 s" in str(report)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_what_the_report_says():
    def says(name, row):
        fn, inputs, options, verdict, said = row
        report = gradcheck_report(fn, inputs, **options)
        assert report.verdict == verdict and bool(report) == (verdict == "pass") and said in str(report)

    each(REPORTS, says)
    with pytest.raises(GradcheckError, match="could not be judged"):
        gradcheck(*REPORTS["digits that are lost"][:2])


def powered(x, y, power=2, *, scale=1.0):
    return x**power * y.detach() * scale


BY_NAME = {  # the function, its inputs, and each one's name and verdict
    "in another order": (powered, {"y": normal(3, 4, seed=4), "x": X}, "x pass y fail"),
    "a default in between": (lambda x, factor=2.0, y=3.0: x * factor * y.detach(), {"y": normal(3, 4, seed=4), "x": X}, "x pass y fail"),
    "by keyword only": (powered, {"x": X, "scale": 2.0, "y": mg.ones(4)}, "x pass"),
    "one argument": (lambda batch: batch["x"] * batch["y"].detach(), {"x": X, "y": normal(3, 4, seed=4)}, "batch['x'] pass batch['y'] fail"),
    "nested": (lambda x, pair: x * wrong_by(1.5)(pair["y"][0]), [normal(3), {"y": [normal(3)]}], "x pass pair['y'][0] fail"),
    "a pair": ((lambda x, y: x * y, lambda dout, x, y: (dout * y, dout)), {"y": np.ones((3, 4)), "x": X.array}, "x pass y fail"),
}


def test_inputs_have_names():
    def check(name, row):
        fn, inputs, said = row
        assert " ".join(f"{entry.name} {entry.verdict}" for entry in gradcheck_report(fn, inputs).inputs) == said

    each(BY_NAME, check)


class Halved(mg.Function):
    """x * factor * x, with half of the gradient of x."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * factor * x

    @staticmethod
    def backward(ctx, dout):
        return dout * ctx.saved_tensors[0], None


def test_the_report_names_the_function_and_its_inputs():
    x, y, module = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0]), nn.Linear(3, 2).to("float64")

    def title_and_names(fn, *inputs):
        report = gradcheck_report(fn, inputs)
        return [report.title, *(entry.name for entry in report.inputs)]

    assert title_and_names(Halved.apply, x, mg.ones(3, dtype=mg.float64)) == ["Halved", "x"]
    assert title_and_names(lambda a, *others: a * others[0], x, y) == ["Mul", "a", "input 1"]
    assert title_and_names(lambda pair, a: pair[0] * a, (x, y), y) == ["Mul", "pair[0]", "pair[1]", "a"]
    assert title_and_names(module, x) == ["Linear", "x"]
    module.x = nn.Parameter(y.array)
    assert [entry.name for entry in gradcheck_module(module, x).inputs] == ["weight", "bias", "x", "x'"]
    x.name, y.name = "q", "k"
    assert title_and_names(mg.maximum, x, y)[1:] == ["q", "k"]
    y.name = "q"
    assert title_and_names(mg.maximum, x, y)[1:] == ["q", "q'"]
    narrow = [leaf.float().detach().requires_grad_() for leaf in (x, y)]
    narrow[0].name = narrow[1].name = "q"
    assert title_and_names(mg.maximum, *narrow) == ["maximum", "q", "q'", "q in float32", "q' in float32"]


def test_the_plot_has_three_pictures_for_each_input(tmp_path):
    mutant = MUTANTS["linear: dbias of the last axis"]
    figure = gradcheck_report(mutant, mutant.draw(0)).plot(tmp_path / "report.png")
    assert sum(axis.get_title() != "" for axis in figure.axes) == 9 and (tmp_path / "report.png").stat().st_size > 0


def test_it_warns_when_it_proves_nothing():
    with pytest.warns(VacuousGradcheckWarning, match="true gradient of x is zero"):
        assert gradcheck(lambda x: x.softmax(-1).sum(), X)


def test_a_tests_own_assertion():
    """It also fails where a check proves nothing."""
    assert_gradients(lambda x: x.tanh(), X)
    for wrong, words in ((wrong_by(2.0), "backward / differences is 2"), (lambda x: x.softmax(-1).sum(), "proves nothing")):
        with pytest.raises(AssertionError, match=words):
            assert_gradients(wrong, X)


def test_points_nearby_stay_in_the_domain():
    for fn in (lambda x: x.sqrt(), lambda x: x.rsqrt(), lambda x: x**1.5):
        assert gradcheck_report(fn, leaf([1e-8, 1.0])).verdict != "fail"


def test_nothing_of_the_callers_is_changed():
    weight, constant, array = leaf([1.0, 2.0, 3.0]), mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64), np.ones(3)
    x, state = normal(3), mg.random.get_state()
    before = x.tolist()

    def halve(x, c, a):
        c.data[...] *= 0.5
        a *= 0.5
        return x * x * weight * mg.rand(1).item()

    report = gradcheck_report(halve, (x, constant, array))
    assert not report and "c has been changed" in str(report)
    assert constant.tolist() == [1, 2, 3] and array.tolist() == [1, 1, 1]
    assert x.grad is None and weight.grad is None and x.tolist() == before and mg.random.get_state() == state

    with pytest.raises(ZeroDivisionError):
        gradgradcheck(lambda x: (mg.rand(1), x.data.__iadd__(1.0), 1 / 0), x)
    with pytest.raises(ZeroDivisionError):
        gradcheck(lambda x: (mg.rand(1), 1 / 0), x.float())
    assert x.tolist() == before and mg.random.get_state() == state


@pytest.mark.parametrize("call, error, words", [
    (lambda: gradcheck(lambda x: None, X), TypeError, "must return a floating-point tensor.* got NoneType"),
    (lambda: gradcheck(lambda x: 1.0, X), TypeError, "got float"),
    (lambda: gradcheck(lambda x: x, mg.ones(1)), ValueError, "no input or parameter requires a gradient"),
    (lambda: gradcheck(lambda x: x, X, check_forward_ad=True), ValueError, "check_forward_ad is not supported"),
    (lambda: gradcheck(lambda x: x, X, eps=0), ValueError, "eps must be a positive number, got 0"),
    (lambda: gradcheck(lambda x: x, X, rtol=float("nan")), ValueError, "rtol must be a number >= 0, got nan"),
    (lambda: gradcheck(lambda x: x, X, seed=-1), ValueError, "seed must be an integer >= 0, got -1"),
    (lambda: gradcheck(lambda x: x, X, directions=0), ValueError, "directions must be an integer >= 1"),
    (lambda: gradcheck(powered, {"x": X}), TypeError, "gradcheck: the argument 'y' is missing"),
    (lambda: gradcheck(powered, X, X), TypeError, r"give the inputs as a tuple, as gradcheck\(fn, \(x, y\)\), and options by name"),
    (lambda: gradcheck_report(powered, X, X), TypeError, "give the inputs as a tuple"),
    (lambda: assert_gradients(powered, X, X), TypeError, "give the inputs as a tuple"),
    (lambda: gradgradcheck(powered, X, X, X), TypeError, "give the inputs as a tuple"),
    (lambda: gradgradcheck(lambda x: x, X, epz=1), TypeError, "unexpected keyword argument 'epz'; the options are eps,"),
    (lambda: gradcheck_module(nn.Linear(2, 2).double(), X, epz=1), TypeError, "unexpected keyword argument 'epz'"),
    (lambda: gradcheck_module(nn.Linear(3, 2), mg.ones(1, 3)), TypeError, "not float64; use .double"),
    (lambda: gradgradcheck(lambda x: x, mg.ones(2)), ValueError, "requires a gradient; make one with requires_grad"),
    (lambda: gradgradcheck(lambda x: x.detach(), X), ValueError, "no output depends on an input"),
    (lambda: gradgradcheck(lambda x: (x * x, x.exp()), X, X), ValueError, "expected a grad_output for each of 2 outputs, got 1"),
    (lambda: with_backward("sofmax", None), ValueError, "no function 'sofmax'; did you mean 'softmax'"),
])  # fmt: skip
def test_calls_that_make_no_sense_are_told_so(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_pytorchs_keywords_are_understood():
    assert gradcheck(lambda x: x.tanh(), [X], eps=1e-6, atol=1e-5, rtol=1e-3, check_batched_grad=False, masked=None)


# ---- gradients of gradients, float32 ----

def test_gradgradcheck():
    assert gradgradcheck(lambda x, y: x @ y, (X, normal(4, 2)))

    def once(x):
        return x.detach() * x  # its gradient, x, is a constant on the tape

    assert not gradgradcheck(lambda x: once(x).exp(), X, raise_exception=False)
    with pytest.raises(RuntimeError, match="create_graph=True gives another gradient"):
        gradgradcheck(CUBE, normal(3))


def test_float32_gradients_are_compared_with_float64():
    assert gradcheck(lambda x: x.softmax(-1).log(), X.float())
    rough = function(square, lambda d, x: (2.001 if x.dtype == np.float32 else 2.0) * x * d)
    report = gradcheck_report(rough, X.float().detach().requires_grad_())
    assert [entry.verdict for entry in report.inputs] == ["pass", "fail"] and "what is wrong is in float32 alone" in str(report)
    layer = nn.Linear(4, 2)
    assert gradcheck(layer, X.float().detach().requires_grad_()) and layer.weight.dtype == np.float32


# ---- modules ----

class Tied(nn.Module):
    """One weight is used twice; one also cut off; one not at all; one only cut off, next to a large constant."""

    def __init__(self):
        super().__init__()
        generator = np.random.default_rng(0)
        for name in ("tied", "partial", "unused", "cut"):
            setattr(self, name, nn.Parameter(generator.standard_normal((4, 4))))

    def forward(self, x):
        out = (x @ self.tied).tanh() @ self.tied.T @ self.partial + x @ self.partial.detach()
        return out, x * 1e7 + self.cut.detach()[0] * 1e-2


class KeyBias(nn.Module):
    """Attention with a key bias, whose true gradient is zero: softmax does not see it."""

    def __init__(self):
        super().__init__()
        mg.manual_seed(1)
        self.q, self.k, self.v = (nn.Linear(8, 8).to("float64") for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(np.ones(3))
        self.register_buffer("count", mg.zeros(1, dtype=mg.float64))

    def forward(self, x):
        self.count += 1.0
        return x * self.weight * (1.0 + self.count.clone())


def test_gradients_that_miss_a_use_are_found(random):
    module = Tied()
    report = gradcheck_module(module, mg.tensor(random.standard_normal((3, 4))), raise_exception=False)
    assert {entry.name: entry.verdict for entry in report.inputs} == {
        "tied": "pass", "partial": "fail", "unused": "pass", "cut": "fail",
    }
    assert report.warnings[0].startswith("the true gradient of unused is zero")
    assert all(parameter.grad is None for parameter in module.parameters())


def test_gradcheck_module_checks_every_parameter(random, capsys):
    layer = nn.Linear(3, 2).to("float64")
    before = [p.tolist() for p in layer.parameters()]
    report = gradcheck_module(layer, mg.tensor(random.standard_normal((5, 3))), progress=True)
    assert [entry.name for entry in report.inputs] == ["weight", "bias"] and report
    assert "parameter" in capsys.readouterr().err and [p.tolist() for p in layer.parameters()] == before
    module = Counting()
    assert gradcheck_module(module, normal(3).detach()) and module.count.item() == 0
    assert gradcheck_module(nn.Embedding(4, 2).to("float64"), np.array([1, 1, 3]), check_batched_grad=False)


def test_gradients_that_cancel_are_not_accused():
    module, x = KeyBias(), mg.tensor(np.random.default_rng(0).standard_normal((2, 5, 8)))
    for seed in range(3):
        assert gradcheck_module(module, x, seed=seed)
    narrow = [leaf.float().detach().requires_grad_() for leaf in (normal(2, 5, 8), normal(8, 1))]
    for seed in range(4):
        assert gradcheck(lambda x, b: ((x @ x.mT + (x @ b))).softmax(-1) @ x, narrow, seed=seed)


# ---- the package, and who explains ----

def test_the_package_is_the_function_too():
    import minigrad.gradcheck as package
    import minigrad.gradcheck.mutants as wrong_backwards

    assert wrong_backwards.MUTANTS is MUTANTS and package is mg.gradcheck and package.gradcheck is gradcheck
    assert mg.gradcheck(square, X) and not mg.gradcheck(wrong_by(2.0), X, raise_exception=False)
    assert list(inspect.signature(mg.gradcheck).parameters) == list(inspect.signature(gradcheck).parameters)


KNOWING = """
from types import SimpleNamespace

def consultations(point, reports, seed):
    said = SimpleNamespace(is_right=False, mistake=f"{reports[0].name} is wrong", sentence="as it seems")
    return [SimpleNamespace(diagnosis=lambda: said)]
"""


@pytest.fixture
def explained_by(tmp_path, monkeypatch):
    """explained_by("package.module", files) writes these files where they can be imported, and has only that module asked."""
    def write(module, files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(above, "registered", lambda group: {"knowing": module})
    return write


def test_a_registered_module_is_asked_when_a_check_has_failed(explained_by):
    explained_by("knowing.mistakes", {"knowing/mistakes.py": KNOWING})
    report = gradcheck_report(wrong_by(1.0), X)
    assert report.diagnosis is None and report.consultations == [] and "knowing" not in sys.modules
    report = gradcheck_report(wrong_by(2.0), X)
    assert report.diagnosis.mistake == "x is wrong" and str(report).endswith("\n  diagnosis: x is wrong")


@pytest.mark.parametrize("package, files", {
    "not_installed": {},
    "a_script": {"a_script.py": "raise AssertionError('a script of the user, which is not to run')"},
    "of_the_user": {"of_the_user/__init__.py": ""},
}.items())
def test_without_anyone_to_explain_there_is_no_diagnosis(package, files, explained_by):
    explained_by(f"{package}.mistakes", files)
    report = gradcheck_report(wrong_by(2.0), X)
    assert report.verdict == "fail" and report.diagnosis is None and "diagnosis" not in str(report)


def test_a_registered_module_that_lacks_a_library_says_so(explained_by):
    explained_by("lacking.mistakes", {"lacking/mistakes.py": "import a_library_that_nobody_has"})
    with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
        gradcheck_report(wrong_by(2.0), X)
