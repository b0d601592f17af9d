"""Gradients in float32, bfloat16 and float16 are judged by what their rounding allows."""
import pytest
from pytorch_functions import autograd, function, leaf, torch
from tables import each

from minigrad.gradcheck import gradcheck_report, gradgradcheck
from minigrad.gradcheck.libraries import library_of

NARROW = torch.float32, torch.bfloat16, torch.float16


def tanh(slope, is_kernel=False, noise=0.0):
    """With the derivative slope(x, out). A kernel does not take float64."""

    def forward(x):
        if is_kernel and x.dtype == torch.float64:
            raise TypeError("no kernel for float64")
        return torch.tanh(x) + noise * torch.sin(1e6 * x.double()).to(x.dtype)

    return function(forward, lambda dout, x: dout * slope(x, torch.tanh(x)))


def kernel(fn):
    """Right, and not for float64."""

    def forward(x):
        if x.dtype == torch.float64:
            raise TypeError("no kernel for float64")
        return fn(x)

    return function(forward, lambda dout, x: autograd(fn, dout, x))


def right(x, out):
    return 1 - out * out


def times(factor, dtypes=(torch.float64, *NARROW)):
    return lambda x, out: right(x, out) * (factor if x.dtype in dtypes else 1)


def in_float32(factor):
    """Its backward, whatever it is given."""
    return function(torch.tanh, lambda dout, x: (dout.float() * right(x, torch.tanh(x.float())) * factor).to(x.dtype))


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))


FUNCTIONS = {  # the function, its verdict in float32, bfloat16 and float16, and what the report says
    "right": (tanh(right), "pass pass pass", "input 0 in "),
    "wrong": (tanh(times(2)), "fail fail fail", "backward / differences is 2 everywhere"),
    "wrong by less than bfloat16 shows": (tanh(times(1.0001)), "fail fail fail", "differences is 1.0001 everywhere"),
    "wrong in narrow dtypes alone": (tanh(times(1.5, NARROW)), "fail fail fail", "the gradients are right in float64"),
    "overflow": (tanh(lambda x, out: right(x, out) if x.dtype == torch.float64 else x / 0), "fail fail fail", "backward gives"),
    "a kernel": (tanh(right, is_kernel=True), "pass pass pass", "does not run in float64 (TypeError: no kernel for float64, in line "),
    "a kernel, wrong": (tanh(times(1.5), is_kernel=True), "fail fail fail", "derivatives are wrong"),
    "a kernel, wrong by 0.1%": (tanh(times(1.001), is_kernel=True), "fail pass pass", "may go unnoticed"),
    "a kernel without a gradient": (tanh(times(0), is_kernel=True), "fail fail fail", "derivatives are wrong"),
    "a kernel with kinks": (kernel(torch.relu), "pass pass pass", "at wide steps"),
    "a kernel with a pole": (kernel(torch.reciprocal), "pass pass pass", "at wide steps"),
    "a kernel of noise": (tanh(right, is_kernel=True, noise=0.5), "inconclusive inconclusive inconclusive", "noise"),
    "another function in float64": (lambda x: (x if x.dtype == torch.float64 else -x).tanh(), "pass pass pass", "computes something else in float64"),
    "float32 within": (lambda x: x.float().tanh().to(x.dtype), "pass pass pass", ""),
    "float32 in the backward": (in_float32(1), "pass pass pass", "the backward's gradients are off by about "),
    "float32 in the backward, wrong by 1e-5": (in_float32(1 + 1e-5), "fail fail fail", "derivatives are wrong"),
    "not linear by 1e-5": (function(torch.tanh, lambda dout, x: (dout + 1e-5 * dout**3) * right(x, torch.tanh(x))), "fail fail fail",
                           "linear in the upstream: FAIL"),
    "a detached factor": (lambda x: x.detach() * x, "fail fail fail", "0.5 everywhere"),
    "a gradient with terms that cancel": (tanh(lambda x, out: right(x, out) + 20 * x - 20 * x), "pass pass pass", ""),
    "a constant": (lambda x: (x - 10).relu(), "pass pass pass", "is zero"),
    "outside the domain": (lambda x: x.sqrt(), "pass pass pass", "the given point is outside of the domain"),
    "gradients below the smallest number": (lambda x: x.tanh() * 1e-30 * 1e-12, "pass pass pass", "x in "),
    "cancels": (lambda x: x.softmax(-1).sum(), "pass pass pass", "proves nothing"),
    "a kernel that cancels": (kernel(lambda x: x.softmax(-1).sum()), "inconclusive inconclusive pass", "at wide steps"),
    "raises": (tanh(lambda x, out: out[100]), "fail fail fail", "IndexError"),
}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_functions(dtype):
    def judged(name, row):
        fn, verdicts, said = row
        report = gradcheck_report(fn, leaf(4, 6, dtype=dtype))
        assert report.verdict == verdicts.split()[NARROW.index(dtype)] and said in str(report)

    each(FUNCTIONS, judged)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_modules(dtype):
    module = layers().to(dtype)
    before = [p.tolist() for p in module.parameters()]
    report = gradcheck_report(module, leaf(5, 6, dtype=dtype))
    assert report and report.inputs[-1].name == f"input in {str(dtype).removeprefix('torch.')}" and len(report.inputs) == 14
    assert before == [p.tolist() for p in module.parameters()] and module[0].weight.dtype == dtype


def test_the_copy_in_float64_is_on_the_same_device():
    """A kernel may be for one device alone. No other than meta is sure to exist."""
    x, ids = leaf(2, dtype=torch.float32), torch.ones(2, dtype=torch.int64)
    library = library_of(None, [x])
    fn, (x, ids) = library.widened(library.placed(layers(), "float32", "meta"), [library.placed(x, "float32", "meta"), ids])
    assert (x.device.type, x.dtype, x.requires_grad) == ("meta", torch.float64, True)
    assert fn[0].weight.is_meta and fn[0].weight.dtype == torch.float64 and ids.dtype == torch.int64


def test_gradients_of_gradients_are_those_of_float64():
    assert gradgradcheck(lambda x: x.tanh(), leaf(3, dtype=torch.bfloat16))
    assert not gradgradcheck(lambda x: (x * x).detach() * x, leaf(3, dtype=torch.float32), raise_exception=False)


def test_a_number_is_judged_by_wide_steps():
    assert gradcheck_report(tanh(times(1.5), is_kernel=True), leaf(dtype=torch.float32)).verdict == "fail"


def test_inputs_of_several_dtypes():
    inputs = leaf(3, 4, dtype=torch.float32), leaf(3, 4, dtype=torch.float64, seed=1)
    rows = gradcheck_report(lambda x, y: x * y, inputs).inputs
    assert [row.name for row in rows] == ["x", "y", "x in float32", "y in float64"]
    assert {row.verdict for row in rows} == {"pass"}
    assert [x.dtype for x in inputs] == [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_kernel_with_a_kink_nearby_is_not_accused(dtype):
    near_a_kink = torch.tensor([0.7031, 0.3, -0.4]).to(dtype).requires_grad_()
    assert gradcheck_report(kernel(lambda x: (x - 0.7).abs()), near_a_kink).verdict != "fail"
    assert gradcheck_report(kernel(lambda x: x.bfloat16().to(dtype) * 2), leaf(4, 6, dtype=dtype)).verdict != "fail"


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_kink_that_is_crossed_by_rounding_is_not_judged(dtype):
    """x + 1 is 1 in the narrow dtype, where max(x, 0) has another gradient than at x."""
    near_a_kink = torch.tensor([torch.finfo(dtype).eps / 8, 0.9, -0.4]).to(dtype).requires_grad_()
    assert gradcheck_report(lambda x: (x + 1 - 1).relu(), near_a_kink).verdict == "inconclusive"
    assert gradcheck_report(tanh(times(1.5, NARROW)), near_a_kink).verdict == "fail"


SATURATED = {"tanh": (torch.tanh, 8.2), "sigmoid": (torch.sigmoid, 14.3), "gelu": (torch.nn.functional.gelu, -7.1)}


def test_saturated_functions_are_not_accused():
    """Their gradients are differences of nearly equal numbers, and float32 rounds these."""
    def is_spared(name, row):
        fn, x = row
        assert gradcheck_report(fn, torch.tensor(x).requires_grad_()).verdict != "fail"

    each(SATURATED, is_spared)
