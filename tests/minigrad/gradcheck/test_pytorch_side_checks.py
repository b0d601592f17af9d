"""What a backward in PyTorch gets wrong although its numbers are right: one row for each mistake, and the sentence on it."""
import numpy as np
import pytest
from tables import each

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.torch_checks import CHECKS

torch = pytest.importorskip("torch")


def leaf(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def function(backward, forward=torch.mul, save=None):
    """x * y, with backward(ctx, *douts)."""

    def keep(ctx, x, y):
        ctx.save_for_backward(x, y)
        return forward(x, y)

    return type("Custom", (torch.autograd.Function,), {
        "forward": staticmethod(save or keep), "backward": staticmethod(backward)})


def right(ctx, dout):
    x, y = ctx.saved_tensors
    return dout * y, dout * x


def in_the_upstream(ctx, dout):
    x, y = ctx.saved_tensors
    return dout * y, dout.mul_(x)


def by_memory(ctx, dout):
    """Reads the upstream as a kernel does."""
    x, y = ctx.saved_tensors
    dout = dout if 0 in dout.stride() else torch.as_strided(dout, dout.shape, torch.empty(dout.shape).stride())
    return dout * y, dout * x


def by_view(ctx, dout):
    x, y = ctx.saved_tensors
    dout = dout.view(-1).view(x.shape)
    return dout * y, dout * x


def first_only(ctx, dout):
    """Takes it that both inputs need a gradient if one does."""
    x, y = ctx.saved_tensors
    return (dout * y, dout * x) if ctx.needs_input_grad[0] else (None, None)


def raises_alone(ctx, dout):
    x, y = ctx.saved_tensors
    if not all(ctx.needs_input_grad):
        raise ValueError("both, please")
    return dout * y, dout * x


def exchanged_alone(ctx, dout):
    x, y = ctx.saved_tensors
    return (dout * y, dout * x) if all(ctx.needs_input_grad) else (dout * x, dout * y)


def no_second(ctx, dout):
    return dout * ctx.saved_tensors[1], None


def on_the_class(ctx, x, y):
    Kept.saved = x, y
    return x * y


class Kept:
    saved = ()


def from_the_class(ctx, dout):
    x, y = Kept.saved
    return dout * y, dout * x


def half_without_gradients(x, y):
    return x * y if torch.is_grad_enabled() or x.requires_grad else x * y * (1 + 1e-6)


def of_two(ctx, first, second):
    """The gradients of x * y and x + y."""
    x, y = ctx.saved_tensors
    return first * y + second, first * x + second


def of_two_or_none(ctx, first, second):
    if first is None or second is None:
        raise ValueError("no gradient for one output")
    return of_two(ctx, first, second)


def unmaterialised(ctx, x, y):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, y)
    return x * y, x + y


def squeezed(ctx, dout):
    x, y = ctx.saved_tensors
    return (dout * y).squeeze().expand(x.shape) * (0.5 if len(x) == 1 else 1), dout * x


def by_first_row(ctx, dout):
    x, y = ctx.saved_tensors
    return dout * y + 0 * dout[0], dout * x


class Mapped(torch.autograd.Function):
    """Under vmap, all examples share the mean of their y."""

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    backward = staticmethod(right)

    @staticmethod
    def vmap(info, in_dims, x, y):
        return Mapped.apply(x, y.mean(0, keepdim=True) if info.batch_size > 1 else y), 0


def noisy(ctx, dout):
    x, y = ctx.saved_tensors
    return dout * y * (1 + 1e-9 * np.random.default_rng().normal()), dout * x


def writes_to_saved(ctx, dout):
    """A saved array that is neither an input nor an output."""
    _, y, twice = ctx.saved_tensors
    return dout * y, dout * twice.mul_(0.5)


def keep_twice(ctx, x, y):
    ctx.save_for_backward(x, y, 2 * x)
    return x * y


def twice_only_once(ctx, dout):
    (x, y), ctx.kept = ctx.kept, (None, None)
    return dout * y, dout * x


def keep_once(ctx, x, y):
    ctx.kept = x.detach(), y.detach()
    return x * y


XY = leaf(3, 4), leaf(3, 4, seed=1)
WRONG = {  # the function, and the side check that fails, with its sentence
    "overwrites dout": (function(in_the_upstream), "leaves the upstream as it is: FAIL: backward overwrites the upstream"),
    "assumes contiguous": (function(by_memory), "takes an upstream of any layout: FAIL: another gradient if the upstream gradient "
                           "is transposed in memory: x differs"),
    "views": (function(by_view), "takes an upstream of any layout: FAIL: backward raises if the upstream gradient is transposed in "
              "memory: RuntimeError: view size is not compatible"),
    "the first input alone": (function(first_only), "each input alone may need a gradient: FAIL: another gradient if only y"),
    "raises for one": (function(raises_alone), "each input alone may need a gradient: FAIL: backward raises if only x requires a gradient: ValueError: both, please, in line"),
    "exchanged for one": (function(exchanged_alone), "another gradient if only x requires one"),
    "None": (function(no_second), "no gradient is None: FAIL: y gets None for a gradient, though the output depends on it"),
    "on the class": (function(from_the_class, save=on_the_class), "calls are kept apart: FAIL: another gradient after a second call"),
    "under no_grad": (function(right, half_without_gradients), "the same output under no_grad: FAIL"),
    "a None upstream": (function(of_two_or_none, save=unmaterialised), "outputs may go unused: FAIL: backward raises if only output 0"),
    "a size of 1": (function(squeezed), "sizes of 1 and 0: FAIL: a wrong gradient if axis 0 has size 1: the slope by x"),
    "a size of 0": (function(by_first_row), "sizes of 1 and 0: FAIL: backward raises if axis 0 has size 0: IndexError"),
    "vmap": (Mapped, "vmap: FAIL: another output under vmap"),
    "chance": (function(noisy), "backward twice gives the same: FAIL: x: they differ"),
    "a saved tensor is written to": (function(writes_to_saved, save=keep_twice), "modified by an inplace operation"),
    "a second backward": (function(twice_only_once, save=keep_once), "backward gives gradients: FAIL: TypeError"),
}


def test_every_mistake_has_its_sentence():
    def found(name, row):
        fn, sentence = row
        report = gradcheck_report(fn, tuple(x.detach().clone().requires_grad_() for x in XY))
        assert report.verdict == "fail" and sentence in str(report)
        if name == "overwrites dout":  # an expanded one cannot be written to; the other checks give it copies
            failed = [check.name for check in report.side_checks if not check.passed]
            assert failed == ["leaves the upstream as it is", "takes an upstream of any layout"]

    each(WRONG, found)
    assert CHECKS.keys() <= {sentence.split(":")[0] for _, sentence in WRONG.values()}


class Right(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, first, second):
        return of_two(ctx, first, second)


RIGHT = {
    "a function": (Right, XY), "one input": (torch.tanh, leaf(3, 4)), "a number": (torch.exp, leaf()), "empty": (torch.exp, leaf(0, 3)),
    "averages that it writes to": (lambda x, mean, var: torch.nn.functional.batch_norm(x, mean, var, training=True), (
        XY[0], torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64))),
    "None at a step": (lambda x, y: torch.where(y == 1, x * x, x), (XY[0], torch.ones(3, 4, dtype=torch.float64).requires_grad_())),
    "logarithms of the upstream": (lambda x: x.logcumsumexp(-1), leaf(3, 4)), "1 + erf": (torch.special.ndtr, torch.linspace(-9, 9, 20, dtype=torch.float64).requires_grad_()),
    "a batch norm": (torch.nn.BatchNorm1d(4).double(), XY[0]), "an unused input": (lambda x, y: x * 2, XY),
    "an embedding": (torch.nn.Embedding(4, 2).double(), torch.tensor([1, 1, 3])),
}


def test_what_is_right_is_not_accused():
    def passes(name, row):
        report = gradcheck_report(*row)
        assert report.verdict == "pass", report

    each(RIGHT, passes)
