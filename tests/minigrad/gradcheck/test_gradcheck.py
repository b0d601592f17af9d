"""The checker must pass what is right, catch what is wrong, and say what it is."""
import importlib
import inspect
import operator
import sys

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.gradcheck import (
    GradcheckError, VacuousGradcheckWarning, above, census, compare_float32, explain_with, gradcheck, gradcheck_module,
    gradcheck_report, gradgradcheck, taylor,
)
from minigrad.gradcheck.mutants import MUTANTS
from minigrad.tape import Op
from minigrad.tensor import apply


class Square(Op):
    """out = x^2, with a gradient that is off by a factor."""

    factor = 1.0

    def forward(self, x):
        self.save(x)
        return x * x

    def backward(self, dout, x):
        return 2 * x * dout * self.factor


def wrong_by(factor):
    op = type("Wrong", (Square,), {"factor": factor})
    return lambda x: apply(op, x)


def leaf(values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


@pytest.fixture
def x(random):
    return leaf(random.standard_normal((3, 4)))


def test_a_right_gradient_passes(x):
    assert gradcheck(lambda x: apply(Square, x), x)


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.0, 1.001, 1 + 1e-5])
def test_a_wrong_factor_is_found_and_reported(x, factor):
    with pytest.raises(GradcheckError, match=r"d output\[\d, \d\] / d x\[\d, \d\]: backward gives .* differences") as error:
        gradcheck(wrong_by(factor), x)
    assert error.value.report.inputs[0].ratio == pytest.approx(factor)
    assert not gradcheck(wrong_by(factor), x, raise_exception=False)


@pytest.mark.parametrize("factor, name", [(1 / 3, "1/N with N = 3 (dim 0 of x)"), (2.0, "sqrt(N) with N = 4")])
def test_a_constant_ratio_is_named(x, factor, name):
    assert name in str(gradcheck_report(wrong_by(factor), x))


def test_a_transposed_gradient_is_named(random):
    x = leaf(random.standard_normal((3, 3)))
    turned = type("Turned", (Op,), {"forward": lambda op, x: x.copy(), "backward": lambda op, dout: dout.T})
    assert "diagnosis: dx is transposed" in str(gradcheck_report(lambda x: apply(turned, x), x))


def test_large_inputs_are_checked_along_random_directions(random):
    x = leaf(random.standard_normal((40, 50)))
    assert "8 directions" in str(gradcheck_report(lambda x: apply(Square, x), x))
    assert "256 entries" in str(gradcheck_report(wrong_by(1.001), x))  # for the report of a failure
    assert "3 directions" in str(gradcheck_report(lambda x: apply(Square, x), x, fast_mode=True))


def test_a_missing_path_is_found(x):
    assert not gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    assert not gradcheck(lambda x, y: x * y.detach(), (x, leaf(np.ones((3, 4)))), raise_exception=False)


def test_several_inputs_and_outputs(x, random):
    y = leaf(random.standard_normal(4))
    assert gradcheck(lambda x, y, scale: (x * y * scale, (x + y).tanh()), (x, y, 2.0))


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
    module.x = nn.Parameter(y.data)
    assert [entry.name for entry in gradcheck_module(module, x).inputs] == ["weight", "bias", "x", "x'"]
    x.name, y.name = "q", "k"
    assert title_and_names(mg.maximum, x, y)[1:] == ["q", "k"]
    y.name = "q"
    assert title_and_names(mg.maximum, x, y)[1:] == ["q", "q'"]
    assert [entry.name for entry in compare_float32(mg.maximum, (x, y)).inputs] == ["q", "q'"]


def test_kinks_are_judged_nearby_or_between_their_slopes():
    report = gradcheck_report(lambda x: x.relu(), leaf([0.0, 1.0, -1.0]))
    assert report and "judged at a point nearby" in str(report)
    assert not gradcheck_report(MUTANTS["max: ties twice"], MUTANTS["max: ties twice"].draw(0))


def test_noise_is_inconclusive_not_wrong(x):
    noisy = gradcheck_report(lambda x: (x + 1e9) - 1e9, x)
    assert noisy.verdict == "inconclusive" and not noisy
    with pytest.raises(GradcheckError, match="could not be judged"):
        gradcheck(lambda x: (x + 1e9) - 1e9, x)


def test_a_function_that_is_not_deterministic_is_refused(x):
    generator = np.random.default_rng()
    report = gradcheck_report(lambda x: x * generator.random(), x)
    assert not report and "not deterministic" in str(report)


def test_dropout_draws_the_same_mask_each_time(x):
    layer, state = nn.Dropout(0.5), mg.random.get_state()
    assert gradcheck(lambda x: layer(x) * x, x)
    assert mg.random.get_state() == state


def test_the_callers_tensors_are_left_alone(x):
    weight = leaf([1.0, 2.0, 3.0, 4.0])
    before, state = x.data.copy(), mg.random.get_state()
    gradcheck(lambda x: x.exp() * weight, x)
    np.testing.assert_array_equal(x.data, before)
    assert x.grad is None and weight.grad is None and mg.random.get_state() == state


def test_what_cannot_be_checked_is_refused(x):
    with pytest.raises(TypeError, match="x is float32; use .double") as error:
        gradcheck(lambda x: x, mg.ones(1, requires_grad=True))
    package, _, path = str(error.value).split()[-1].partition(".")
    assert package == "minigrad" and operator.attrgetter(path)(mg) is compare_float32
    with pytest.raises(ValueError, match="no input or parameter requires a gradient"):
        gradcheck(lambda x: x, mg.ones(1))
    with pytest.raises(ValueError, match="check_forward_ad is not supported"):
        gradcheck(lambda x: x, x, check_forward_ad=True)
    with pytest.raises(TypeError, match="unexpected keyword"):
        gradcheck(lambda x: x, x, tolerance=1)


def test_pytorchs_keywords_are_understood(x):
    assert gradcheck(lambda x: x.tanh(), [x], eps=1e-6, atol=1e-5, rtol=1e-3, check_batched_grad=False, masked=None)


def test_it_says_when_it_proves_nothing(x):
    with pytest.warns(VacuousGradcheckWarning, match="true gradient of x is zero"):
        assert gradcheck(lambda x: x.softmax(-1).sum(), x)
    weight = leaf(np.ones(4))
    assert "w is 1 everywhere" in str(gradcheck_report(lambda x, w: x * w, (x, weight)))
    assert "symmetric" in str(gradcheck_report(lambda x: x @ x, leaf(np.eye(3) + 1)))
    ids = np.arange(3)
    assert "ids has no repeated id" in str(gradcheck_report(lambda x, ids: x[ids], (x, ids)))


def test_gradgradcheck(x, random):
    assert gradgradcheck(lambda x: x.softmax(-1), x)
    assert gradgradcheck(lambda x, y: x @ y, (x, leaf(random.standard_normal((4, 2)))))

    def once(x):
        return x.detach() * x  # its gradient, x, is a constant on the tape

    assert not gradgradcheck(lambda x: once(x).exp(), x, raise_exception=False)


def test_float32_gradients_are_compared_with_float64(x):
    assert compare_float32(lambda x: x.softmax(-1).log(), x)

    class Rough(Square):
        def backward(self, dout, x):
            return (2.001 if x.dtype == np.float32 else 2.0) * x * dout

    report = compare_float32(lambda x: apply(Rough, x), x)
    assert not report and "float64" in str(report)


def test_taylor_tells_right_from_wrong_without_a_step_size(x):
    assert taylor(lambda x: x.tanh(), x).slope == pytest.approx(2, abs=0.05)
    assert taylor(wrong_by(1.0001), x).slope == pytest.approx(1, abs=0.1)
    assert taylor(lambda x: 3 * x, x)  # linear: nothing but rounding remains
    assert taylor(lambda x: x.max(), leaf([1.0, 1.0, 0.0])).verdict == "inconclusive"


def test_the_plot_has_three_pictures_for_each_input(tmp_path):
    mutant = MUTANTS["linear: bias averaged"]
    figure = gradcheck_report(mutant, mutant.draw(0)).plot(tmp_path / "report.png")
    assert sum(axis.get_title() != "" for axis in figure.axes) == 9 and (tmp_path / "report.png").stat().st_size > 0


class Tied(nn.Module):
    """One weight is used twice, once cut off; one not at all; one is cut off entirely."""

    def __init__(self):
        super().__init__()
        generator = np.random.default_rng(0)
        for name in ("tied", "partial", "unused", "cut"):
            setattr(self, name, nn.Parameter(generator.standard_normal((4, 4))))

    def forward(self, x):
        return (x @ self.tied).tanh() @ self.tied.T @ self.partial + x @ self.partial.detach() + self.cut.detach()[0]


def test_the_census_finds_gradients_that_miss_a_use(random):
    module = Tied()
    rows = {row.name: row for row in census(module, mg.tensor(random.standard_normal((3, 4))))}
    assert {name: row.status for name, row in rows.items()} == {
        "tied": "ok", "partial": "partial", "unused": "unused", "cut": "none",
    }
    assert rows["tied"].uses == 2 and all(parameter.grad is None for parameter in module.parameters())


def test_gradcheck_module_checks_every_parameter(random, capsys):
    layer = nn.Linear(3, 2).to("float64")
    before = [p.data.copy() for p in layer.parameters()]
    report = gradcheck_module(layer, mg.tensor(random.standard_normal((5, 3))), progress=True)
    assert [entry.name for entry in report.inputs] == ["weight", "bias"] and report
    assert "parameter" in capsys.readouterr().err
    for parameter, array in zip(layer.parameters(), before):
        np.testing.assert_array_equal(parameter.data, array)
    with pytest.raises(TypeError, match="float32"):
        gradcheck_module(nn.Linear(3, 2), mg.ones(1, 3))


def test_the_package_is_the_function_too(x):
    import minigrad.gradcheck as package
    import minigrad.gradcheck.mutants as wrong_backwards

    assert wrong_backwards.MUTANTS is MUTANTS and package is mg.gradcheck and package.gradcheck is gradcheck
    assert mg.gradcheck(lambda x: x * x, x) and not mg.gradcheck(wrong_by(2.0), x, raise_exception=False)
    assert list(inspect.signature(mg.gradcheck).parameters) == list(inspect.signature(gradcheck).parameters)


KNOWING = """
from types import SimpleNamespace

def consultations(point, reports, seed):
    said = SimpleNamespace(is_right=False, mistake=f"{reports[0].name} is wrong", sentence="as it seems")
    return [SimpleNamespace(diagnosis=lambda: said)]
"""


def test_what_is_handed_on_is_there_once_or_says_what_is_missing():
    with pytest.raises(ModuleNotFoundError, match="not a package"):
        importlib.import_module("minigrad.gradcheck.mutants.attention")
    with pytest.raises(ModuleNotFoundError, match="there is no nowhere.mistakes: minigrad's package 'nowhere' is not"):
        above.handed_on("nowhere.mistakes")[0]("FUNCTIONS")


@pytest.fixture
def explained_by(tmp_path, monkeypatch):
    """explained_by("package.module", files): these are there to be imported, and that is who is asked."""
    def write(module, files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(above, "EXPLAINERS", [])
        explain_with(module)
    return write


def test_who_has_registered_is_asked_when_a_check_has_failed(x, explained_by):
    explained_by("knowing.mistakes", {"knowing/mistakes.py": KNOWING})
    assert gradcheck_report(wrong_by(1.0), x).diagnosis is None and "knowing" not in sys.modules
    report = gradcheck_report(wrong_by(2.0), x)
    assert report.diagnosis.mistake == "x is wrong" and str(report).endswith("\n  diagnosis: x is wrong")


@pytest.mark.parametrize("package, files", {
    "not_installed": {},
    "a_script": {"a_script.py": "raise AssertionError('a script of the user, which is not to run')"},
    "of_the_user": {"of_the_user/__init__.py": ""},
}.items())
def test_without_anyone_to_explain_there_is_no_diagnosis(package, files, x, explained_by):
    explained_by(f"{package}.mistakes", files)
    report = gradcheck_report(wrong_by(2.0), x)
    assert report.verdict == "fail" and report.diagnosis is None and "diagnosis" not in str(report)


def test_who_explains_and_lacks_a_library_says_so(x, explained_by):
    explained_by("lacking.mistakes", {"lacking/mistakes.py": "import a_library_that_nobody_has"})
    with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
        gradcheck_report(wrong_by(2.0), x)
