"""Functions and modules of PyTorch are checked as those of minigrad are, in PyTorch's words."""
import itertools
import re
import math

import numpy as np
import pytest
from pytorch_functions import function, leaf, torch
from tables import each

from minigrad.gradcheck import gradcheck_module, gradcheck_report, gradgradcheck
from minigrad.gradcheck.mutants import MUTANTS


class Attention(torch.autograd.Function):
    """Without 1 / sqrt(D) in dk."""

    @staticmethod
    def forward(ctx, q, k, v, causal=False):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx, dout):
        q, k, v, weights = ctx.saved_tensors
        dweights = dout @ v.mT
        dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
        return dscores @ k / math.sqrt(q.shape[-1]), dscores.mT @ q, weights.mT @ dout, None


class Cube(torch.autograd.Function):
    """In the newer style, without ctx in forward; its second derivative is lost."""

    @staticmethod
    def forward(base):
        return base * base * base

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dout):
        (base,) = ctx.saved_tensors
        return dout * 3 * (base * base).detach()


class Halving(torch.nn.Module):
    """Half of the gradient of its weight is cut off."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(leaf(4, 2).detach())
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, tokens):
        self.calls += 1
        return tokens @ (self.weight / 2 + self.weight.detach() / 2) * self.calls.clone()


class Gain(torch.nn.Module):
    """x * weight, with a backward that is right where the weight is 1."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x):
        return function(torch.mul, lambda d, x, w: (d, (d * x).sum(0))).apply(x, self.weight)


class Again(torch.nn.Module):
    """Runs its net again in backward, and gives its own parameters to the Function that does."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2).double()

    def forward(self, x):
        def backward(dout, x, *own):
            with torch.enable_grad():
                given = x.detach().requires_grad_()
                return torch.autograd.grad(self.net(given), (given, *own), dout, allow_unused=True)

        return function(lambda x, *own: self.net(x), backward).apply(x, *self.net.parameters())


class Clamping(Gain):
    """Each call counts as a change of the weight."""

    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-10, 10)
        return x * self.weight


class Listing(Gain):
    """Takes it from there, as recurrent layers do."""

    def __init__(self):
        super().__init__()
        self.kept = [self.weight]

    def forward(self, x):
        return x * self.kept[0]


def asks(x, bias):
    """Forward does not compute the same where the bias requires no gradient."""
    return function(lambda x, bias: 2 * x + bias if bias.requires_grad else 2 * x, lambda d, x, bias: (2 * d, d.sum(0))).apply(x, bias)


X, Y = leaf(3, 4), leaf(4, 2, seed=1)
QKV = leaf(2, 2, 4, 4), leaf(2, 2, 4, 4, seed=1), leaf(2, 2, 4, 4, seed=2)
TARGETS = torch.tensor([1, 0, -100])
LAYER = torch.nn.Linear(4, 2).double()
REPORTS = {  # function, inputs, the verdict, the title, inputs with a verdict of their own, and what the report says
    "a callable": (lambda a, b: (a @ b).softmax(-1), (X, Y), "pass", "the function", "a pass, b pass", "side checks: all"),
    "a function with a name": (torch.nn.functional.gelu, X, "pass", "gelu", "input 0 pass", "side checks: all"),
    "its class": (Attention, (*QKV, True), "fail", "Attention", "q pass, k fail, v pass",
                  "diagnosis: this is attention: the scale 1 / sqrt(d) is missing in dk"),
    "its apply": (Attention.apply, QKV, "fail", "Attention", "q pass, k fail, v pass",
                  "diagnosis: this is full_attention: the scale 1 / sqrt(d) is missing in dk"),
    "without ctx": (Cube, X, "pass", "Cube", "base pass", "side checks: all"),
    "a module": (Halving(), X, "fail", "Halving", "weight fail, tokens pass", "backward / differences is 0.5 everywhere"),
    "a module as it begins": (Gain(), X, "fail", "Gain", "weight pass, x fail", "weight is 1 everywhere: checked where it is random"),
    "a module that keeps its weight in a list": (Listing(), X, "pass", "Listing", "weight pass, x pass", "side checks: all"),
    "a module that writes to its weight": (Clamping(), X, "pass", "Clamping", "weight pass, x pass", "side checks: all"),
    "a module that runs again": (Again(), X, "pass", "Again", "net.weight pass, net.bias pass, x pass", "side checks: "),
    "a forward that asks": (asks, (X, leaf(4)), "pass", "asks", "x pass, bias pass", "side checks: "),
    "a checkpoint that demands backward()": (lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=True), X,
                                             "pass", "the function", "x pass", "side checks: all"),
    "a module's inputs that need no gradient": (torch.nn.Linear(4, 2).double(), X.detach(), "pass", "Linear",
                                                "weight pass, bias pass", "side checks: all"),
    "a method of a module": (Halving().forward, X, "pass", "forward", "tokens pass", "side checks: all"),
    "a tensor from outside": (lambda x: x @ Y, X, "pass", "the function", "x pass", "note: Y requires a gradient but is not an input"),
    "a module inside": (lambda x: LAYER(x), X, "pass", "the function", "x pass", "LAYER.bias and LAYER.weight require gradients but"),
    "a tensor without a name": (lambda x: x * QKV[0], leaf(4), "pass", "the function", "x pass", "a tensor of shape (2, 2, 4, 4) requires"),
    "ids": (lambda table, ids: table[ids], (X, torch.arange(3)), "pass", "the function", "table pass", "ids has no repeated id"),
    "targets": (torch.nn.functional.cross_entropy, (X, TARGETS), "pass", "cross_entropy", "input pass", "side checks: all"),
    "nests": (lambda x, pair: [x * pair["y"][0], {"sum": x.sum()}], (X, {"y": (leaf(4),)}), "pass", "the function",
              "x pass, pair['y'][0] pass", "side checks: all"),
    "a gradient that has no memory": (torch.sgn, X, "pass", "sgn", "input 0 pass", "true gradient of input 0 is zero"),
    "a shape": (lambda x, shape: x.expand(shape), (X, torch.Size([2, 3, 4])), "pass", "the function", "x pass", "side checks: all"),
    "dropout": (torch.nn.Dropout(0.5), X, "pass", "Dropout", "input pass", "side checks: all"),
    "an output that is cut off": (lambda x: (x * x, (x + 1).detach()), X, "fail", "the function", "x fail",
                                  "output 1 is not on the tape"),
    "an output that is given twice": (lambda x: (x, x), X, "pass", "the function", "x pass", "side checks: all"),
    "an input that is written to": (lambda x: x.detach().mul_(2) * x, X, "fail", "the function", "", "x has been changed"),
    "a kink": (torch.relu, torch.zeros(2, 2, dtype=torch.float64, requires_grad=True), "pass", "relu", "input 0 pass",
               "judged at a point nearby"),
    "outside the domain": (lambda x: x**1.5, X, "pass", "the function", "x pass", "are NaN there: checked at |x| + 0.5"),
    "nowhere in the domain": (lambda x: (-1 - x * x).sqrt(), X, "inconclusive", "the function", "x inconclusive", "could not be judged"),
    "wrong, and outside the domain": (lambda x: x.detach().sqrt() * x, X, "fail", "the function", "x fail", "are wrong"),
    "stairs of a single number": (lambda x: x.bfloat16(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True), "pass",
                                  "the function", "x pass", "as in bfloat16"),
    "chance": (lambda x: x * np.random.default_rng().random(), X, "fail", "the function", "", "not deterministic"),
    "rows of zeros alone": (function(torch.square, lambda d, x: 3 * x * d), X, "fail", "Custom", "input 0 fail",
                            "the gradient of input 0 is multiplied by N/(N-1)"),
    "raises": (function(torch.square, lambda d, x: d[7]), X, "fail", "Custom", "", "IndexError: index 7 is out of bounds for "
               "dimension 0 with size 3, in line"),
    "the wrong shape": (function(torch.square, lambda d, x: (d * x).T), X, "fail", "Custom", "",
                        "returned an invalid gradient at index 0 - got [4, 3] but expected shape compatible with [3, 4]"),
}


def test_what_the_report_says():
    def says(name, row):
        fn, inputs, verdict, title, verdicts, said = row
        report = gradcheck_report(fn, inputs)
        assert report.verdict == verdict and report.title == title and said in str(report)
        assert ", ".join(f"{entry.name} {entry.verdict}" for entry in report.inputs) == verdicts

    each(REPORTS, says)


def test_wrong_backwards_of_the_table_are_caught_and_named():
    """Written for NumPy, and applied as functions of PyTorch."""
    def handed_over(mutant):
        def numbers(tensors):
            return [x.detach().numpy().copy() for x in tensors]

        return function(lambda *inputs: torch.tensor(np.asarray(mutant.forward(*numbers(inputs)))),
                        lambda dout, *inputs: tuple(torch.tensor(g) for g in mutant.gradients(*numbers([dout, *inputs]))))

    def named(name):
        mutant = MUTANTS[name]
        inputs = [torch.tensor(x, requires_grad=True) for x in mutant.inputs(np.random.default_rng(0))]
        report = gradcheck_report(handed_over(mutant), inputs)
        assert report.verdict == "fail" and f"this is {mutant.right.name}: " in str(report)

    each(["attention: rowsum of v", "layer_norm: mean and variance constant", "scaled_rms_norm: mean square constant",
          "tanh: sigmoid's", "softmax: sigmoid", "linear: dbias of the last axis"], named)


def fused_layer_norm(mistakes):
    """Backward goes through blocks of two rows, with partial sums of dweight and dbias, as a kernel does."""
    def forward(x, weight, bias):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    def backward(dout, x, weight, bias):
        found = []
        for xs, douts in zip(x.split(2), dout.split(2)):
            rstd = (xs.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
            x_hat, dx_hat = (xs - xs.mean(-1, keepdim=True)) * rstd, weight * douts
            projection = 0 if "no projection" in mistakes else x_hat * (x_hat * dx_hat).mean(-1, keepdim=True)
            found.append((rstd * (dx_hat - dx_hat.mean(-1, keepdim=True) - projection), (douts * x_hat).sum(0), douts.sum(0)))
        dx, dweight, dbias = zip(*found)
        dweight = dweight[:-1] if "last block" in mistakes else dweight
        return torch.cat(dx), sum(dweight), sum(dbias) / (len(x) if "bias averaged" in mistakes else 1)

    return function(forward, backward)


PLANTED = {
    "no projection": "the path through the variance is missing",
    "last block": "is what would be right if the last row of dout were left out",
    "bias averaged": "is averaged instead of added up|as if a mean replaced a sum",
}


@pytest.mark.parametrize("count", range(4))
def test_all_mistakes_of_a_fused_layer_norm_are_named_in_one_run(count):
    def are_named(planted):
        report = gradcheck_report(fused_layer_norm(planted), [leaf(5, 5), leaf(5, seed=1), leaf(5, seed=2)])
        assert bool(report) == (not planted)
        assert not planted or len(report.diagnosis.mistakes) == len(planted)
        assert all(re.search(PLANTED[mistake], report.diagnosis.mistake) for mistake in planted), report

    each(itertools.combinations(PLANTED, count), are_named)


def test_gradients_of_gradients():
    for fn, inputs, is_right in ((lambda x: x.exp() * x, X, True), (torch.nn.Linear(4, 2).double(), X, True), (Cube, X, False),
                                 (lambda x, y: (x @ y).tanh(), (X, Y), True), (lambda x: torch.relu(x) * 2.0, X, True)):
        assert gradgradcheck(fn, inputs, raise_exception=False) == is_right
    with pytest.raises(RuntimeError, match="gradcheck of the backward of Cube: FAIL"):
        gradgradcheck(Cube, X)
    assert gradgradcheck(lambda x: x * x, X, torch.ones(3, 4, dtype=torch.float64))


def test_modules_have_their_own_check():
    assert "unchecked" not in str(gradcheck_report(torch.nn.Linear(4, 2).double(), X.detach()))
    module = Halving()
    report = gradcheck_module(module, X.detach(), raise_exception=False, progress=False)
    assert [(entry.name, entry.verdict) for entry in report.inputs] == [("weight", "fail")] and module.calls == 0
    assert gradcheck_module(torch.nn.LSTM(4, 2).double(), X.detach(), select=lambda result: result[0][0]).verdict == "pass"
    with pytest.raises(TypeError, match="not float64; use .double"):
        gradcheck_module(torch.nn.Linear(4, 2), X.detach())


def test_nothing_of_the_callers_changes():
    norm, x = torch.nn.BatchNorm1d(4).double(), leaf(3, 4)
    norm.weight.grad, x.grad = torch.ones_like(norm.weight), torch.ones_like(x)
    before, state, numbers = {name: value.clone() for name, value in norm.state_dict().items()}, torch.get_rng_state(), x.tolist()
    with torch.no_grad():
        assert gradcheck_report(norm, x).verdict == gradcheck_report(lambda x: norm(torch.rand(1) * x), x).verdict == "pass"
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state) and x.tolist() == numbers
    assert torch.all(norm.weight.grad == 1) and torch.all(x.grad == 1)
    assert norm.weight.requires_grad and x.is_leaf
