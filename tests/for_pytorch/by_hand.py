"""Wrong backwards by hand: what custom functions of PyTorch get wrong apart from their formulas, and tricks that are right.

Each row of WRONG names the side check that must notice, or part of what the report must say.
"""
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd.function import Function, once_differentiable


def leaf(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


# ---------------------------------------------------------------------------------------------------- right functions

class Multiply(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, dout):
        x, y = ctx.saved_tensors
        return dout * y, dout * x


class Two(Multiply):
    """The product and the sum."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, dproduct, dsum):
        x, y = ctx.saved_tensors
        if dproduct is None:
            return dsum, dsum
        return (dproduct * y, dproduct * x) if dsum is None else (dproduct * y + dsum, dproduct * x + dsum)


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx, dout):
        x, weight = ctx.saved_tensors
        return dout @ weight, dout.T @ x, dout.sum(0)


class LinearReLU(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        out = (x @ weight.T + bias).relu()
        ctx.save_for_backward(x, weight, out)
        return out

    @staticmethod
    def backward(ctx, dout):
        x, weight, out = ctx.saved_tensors
        dout = dout.masked_fill(out == 0, 0)
        return dout @ weight, dout.T @ x, dout.sum(0)


class Softmax(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.softmax(-1)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, dout):
        (out,) = ctx.saved_tensors
        return out * (dout - (dout * out).sum(-1, keepdim=True))


def normalized(x, eps=1e-5):
    rstd = (x.var(-1, keepdim=True, correction=0) + eps).rsqrt()
    return (x - x.mean(-1, keepdim=True)) * rstd, rstd


def layer_norm_backward(dout, xhat, rstd, weight):
    dxhat = dout * weight
    rest = dxhat.mean(-1, keepdim=True) + xhat * (dxhat * xhat).mean(-1, keepdim=True)
    return rstd * (dxhat - rest), (dout * xhat).sum(0), dout.sum(0)


class LayerNorm(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return normalized(x)[0] * weight + bias

    @staticmethod
    def backward(ctx, dout):
        x, weight = ctx.saved_tensors
        return layer_norm_backward(dout, *normalized(x), weight)


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x * x).mean(-1, keepdim=True).rsqrt()

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        r = (x * x).mean(-1, keepdim=True).rsqrt()
        return r * dout - r**3 * x * (dout * x).mean(-1, keepdim=True)


def attention_weights(q, k):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)


def attention_backward(dout, q, k, v):
    weights = attention_weights(q, k)
    dweights = dout @ v.mT
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return dscores @ k, dscores.mT @ q, weights.mT @ dout


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return attention_weights(q, k) @ v

    @staticmethod
    def backward(ctx, dout):
        return attention_backward(dout, *ctx.saved_tensors)


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, scores, targets):
        ctx.save_for_backward(scores, targets)
        return -scores.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)

    @staticmethod
    def backward(ctx, dout):
        scores, targets = ctx.saved_tensors
        return (scores.softmax(-1) - torch.nn.functional.one_hot(targets, scores.shape[-1])) * dout[:, None], None


class Dropout(Function):
    @staticmethod
    def forward(ctx, x):
        keep = torch.rand_like(x) < 0.6
        ctx.save_for_backward(keep)
        return x * keep / 0.6

    @staticmethod
    def backward(ctx, dout):
        (keep,) = ctx.saved_tensors
        return dout * keep / 0.6


class SiLU(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return dout * s * (1 + x * (1 - s))


X, Y, W, B, G = leaf(3, 4), leaf(3, 4, seed=1), leaf(5, 4, seed=2), leaf(5, seed=3), leaf(4, seed=4)
INPUTS: dict[type[Function], tuple[Any, ...]] = {
    Multiply: (X, Y), Two: (X, Y), Linear: (X, W, B), LinearReLU: (X, W, B), Softmax: (X,), LayerNorm: (X, G, leaf(4, seed=5)), RMSNorm: (X,),
    Attention: (leaf(2, 3, 4), leaf(2, 3, 4, seed=1), leaf(2, 3, 4, seed=2)), CrossEntropy: (X, torch.tensor([1, 0, 1])), Dropout: (X,),
    SiLU: (X,),
}

# -------------------------------------------------------------------------------------------------------- wrong ones


class Row(NamedTuple):
    fn: Any
    inputs: tuple[Any, ...]
    says: str  # part of the report: "the side check: FAIL: its sentence"


WRONG: dict[str, Row] = {}


def wrong(of: type[Function], says: str) -> Callable[[Callable], Callable]:
    """The function decorated is `of`'s forward or backward, with a mistake; or it makes a whole class of it."""
    def add(part):
        name = f"{of.__name__}: {part.__name__.replace('_', ' ')}"
        fn, names = part, list(inspect.signature(part).parameters)
        if names[0] == "ctx":
            kind = "backward" if names[1].startswith("d") else "forward"
            fn = type(of.__name__, (of,), {kind: staticmethod(part)})
        WRONG[name] = Row(fn, INPUTS[of], says)
        return part

    return add


UPSTREAM = "leaves the upstream as it is: FAIL: backward overwrites the upstream gradient"


@wrong(Multiply, UPSTREAM)
def product_in_dout(ctx, dout):
    x, y = ctx.saved_tensors
    return dout * y, dout.mul_(x)


@wrong(Softmax, UPSTREAM)
def row_sums_taken_from_dout(ctx, dout):
    (out,) = ctx.saved_tensors
    dout -= (dout * out).sum(-1, keepdim=True)
    return out * dout


@wrong(LinearReLU, UPSTREAM)
def dout_masked_in_place(ctx, dout):
    x, weight, out = ctx.saved_tensors
    dout[out == 0] = 0
    return dout @ weight, dout.T @ x, dout.sum(0)


@wrong(LayerNorm, UPSTREAM)
def dout_as_workspace(ctx, dout):
    x, weight = ctx.saved_tensors
    found = layer_norm_backward(dout, *normalized(x), weight)
    return dout.copy_(found[0]), *found[1:]


LAYOUT = "takes an upstream of any layout: FAIL: another gradient if the upstream gradient is "


def by_address(x):
    """As a kernel reads it that takes it to be contiguous."""
    return x if 0 in x.stride() else torch.as_strided(x, x.shape, torch.empty(x.shape).stride())


@wrong(Multiply, LAYOUT + "transposed in memory")
def dout_by_address(ctx, dout):
    return Multiply.backward(ctx, by_address(dout))


@wrong(LayerNorm, LAYOUT + "transposed in memory")
def dout_with_a_stride_for_rows_alone(ctx, dout):
    return LayerNorm.backward(ctx, torch.as_strided(dout, dout.shape, (dout.stride(0), min(1, dout.stride(1)))))


@wrong(Softmax, LAYOUT + "expanded, as that of a sum")
def first_bytes_of_dout(ctx, dout):
    kept = dout.untyped_storage().tolist()[: 8 * dout.numel()]
    kept += [0] * (8 * dout.numel() - len(kept))
    return Softmax.backward(ctx, torch.tensor(kept, dtype=torch.uint8).view(torch.float64).reshape(dout.shape))


@wrong(Attention, LAYOUT + "a slice with gaps")
def gaps_taken_for_a_transpose(ctx, dout):
    is_plain = dout.is_contiguous() or 0 in dout.stride() or dout.stride(-1) == 6
    return Attention.backward(ctx, dout if is_plain else dout.mT.contiguous().view(dout.shape))


@wrong(Multiply, "takes an upstream of any layout: FAIL: backward raises if the upstream gradient is transposed in memory: RuntimeError: view")
def view_of_dout(ctx, dout):
    x, y = ctx.saved_tensors
    dout = dout.view(-1).view(x.shape)
    return dout * y, dout * x


@wrong(Multiply, LAYOUT + "its first row, expanded, as under sum(0)")
def expanded_rows_taken_for_a_number(ctx, dout):
    return Multiply.backward(ctx, dout.flatten()[0] if 0 in dout.stride() else dout)


@wrong(Multiply, LAYOUT + "part of a wider array, as under cat")
def own_stride_of_rows_forgotten(ctx, dout):
    return Multiply.backward(ctx, by_address(dout) if dout.stride(-1) == 1 else dout)


ALONE = "each input alone may need a gradient: FAIL: "


@wrong(Multiply, ALONE + "another gradient if only y")
def first_needs_for_all(ctx, dout):
    return Multiply.backward(ctx, dout) if ctx.needs_input_grad[0] else (None, None)


@wrong(Multiply, ALONE + "backward raises if only x requires a gradient: ValueError: both, please, in line")
def both_or_an_error(ctx, dout):
    if not all(ctx.needs_input_grad):
        raise ValueError("both, please")
    return Multiply.backward(ctx, dout)


@wrong(Multiply, ALONE + "another gradient if only x")
def exchanged_if_alone(ctx, dout):
    return Multiply.backward(ctx, dout)[:: 1 if all(ctx.needs_input_grad) else -1]


@wrong(Linear, ALONE + "another gradient if only bias")
def flag_of_the_weight_for_the_bias(ctx, dout):
    found = Linear.backward(ctx, dout)
    return *found[:2], found[2] if ctx.needs_input_grad[1] else None


@wrong(LayerNorm, ALONE + "backward raises if only bias")
def normalized_only_for_x_and_weight(ctx, dout):
    x, weight = ctx.saved_tensors
    if any(ctx.needs_input_grad[:2]):
        xhat, rstd = normalized(x)
    return layer_norm_backward(dout, xhat, rstd, weight)


@wrong(Attention, ALONE + "another gradient if only k")
def scale_with_the_query(ctx, dout):
    q, k, v = ctx.saved_tensors
    dq, dk, dv = attention_backward(dout, q, k, v)
    return dq, dk if ctx.needs_input_grad[0] else dk * math.sqrt(q.shape[-1]), dv


@wrong(Linear, "no gradient is None: FAIL: bias gets None for a gradient, though the output depends on it")
def bias_forgotten(ctx, dout):
    return *Linear.backward(ctx, dout)[:2], None


@wrong(Multiply, "no gradient is None: FAIL: y gets None")
def second_taken_as_constant(ctx, dout):
    return dout * ctx.saved_tensors[1], None


@wrong(Attention, "no gradient is None: FAIL: v gets None")
def gradients_of_queries_and_keys_alone(ctx, dout):
    return *Attention.backward(ctx, dout)[:2], None


UNUSED = "outputs may go unused: FAIL: "


@wrong(Two, UNUSED + "backward raises if only output 0 is used")
def both_upstreams_or_an_error(ctx, dproduct, dsum):
    x, y = ctx.saved_tensors
    return dproduct * y + dsum, dproduct * x + dsum


@wrong(Two, UNUSED + "another gradient if outputs are used one by one")
def nothing_without_the_product(ctx, dproduct, dsum):
    return Two.backward(ctx, dproduct, dsum) if dproduct is not None else (None, None)


@wrong(Two, UNUSED + "another gradient")
def none_for_the_sum_counts_as_ones(ctx, dproduct, dsum):
    return Two.backward(ctx, dproduct, torch.ones_like(ctx.saved_tensors[0]) if dsum is None else dsum)


CALLS = "calls are kept apart: FAIL: "


@wrong(Multiply, CALLS + "another gradient after a second call")
class KeptOnTheClass(Multiply):
    @staticmethod
    def forward(ctx, x, y):
        KeptOnTheClass.saved = x.clone(), y.clone()
        return x * y

    @staticmethod
    def backward(ctx, dout):
        x, y = KeptOnTheClass.saved
        return dout * y, dout * x


STATISTICS: dict[Any, Any] = {}


@wrong(LayerNorm, CALLS + "another gradient after a second call")
class StatisticsByShape(LayerNorm):
    @staticmethod
    def forward(ctx, x, weight, bias):
        STATISTICS[x.shape] = normalized(x)
        return LayerNorm.forward(ctx, x, weight, bias)

    @staticmethod
    def backward(ctx, dout):
        x, weight = ctx.saved_tensors
        return layer_norm_backward(dout, *STATISTICS[x.shape], weight)


WORKSPACES: dict[Any, torch.Tensor] = {}


def workspace(shape, of):
    return WORKSPACES.setdefault((of, tuple(shape)), torch.empty(shape, dtype=torch.float64))


@wrong(Softmax, CALLS + "a second call overwrites the first one's output")
def output_in_a_workspace(ctx, x):
    out = workspace(x.shape, "softmax")
    out.copy_(x.softmax(-1))
    ctx.save_for_backward(out.clone())
    return out.detach()


@wrong(Linear, CALLS + "a second backward overwrites the first one's gradients: return new memory")
def gradient_in_a_workspace(ctx, dout):
    dx, dweight, dbias = Linear.backward(ctx, dout)
    return workspace(dx.shape, "linear").copy_(dx).detach(), dweight, dbias


@wrong(Multiply, CALLS + "a second backward overwrites the first one's gradients: return new memory")
class GradientKept(Multiply):
    @staticmethod
    def forward(ctx, x, y):
        ctx.dx = torch.empty_like(x)
        return Multiply.forward(ctx, x, y)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, y = ctx.saved_tensors
        return torch.mul(dout, y, out=ctx.dx), dout * x


@wrong(Dropout, CALLS + "another gradient after a second call")
class MaskOnTheClass(Dropout):
    @staticmethod
    def forward(ctx, x):
        MaskOnTheClass.keep = torch.rand_like(x) < 0.6
        return x * MaskOnTheClass.keep / 0.6

    @staticmethod
    def backward(ctx, dout):
        return dout * MaskOnTheClass.keep / 0.6


SIZES = "sizes of 1 and 0: FAIL: "


@wrong(Multiply, SIZES + "a wrong gradient if axis 0 of x has size 1: the slope by x")
def half_for_one_row(ctx, dout):
    x, y = ctx.saved_tensors
    return (dout * y).squeeze().expand(x.shape) * (0.5 if len(x) == 1 else 1), dout * x


@wrong(Linear, SIZES + "a wrong gradient if axis 0 of x has size 1: the slope by bias differs")
def wrong_for_x_and_half_for_one_row(ctx, dout):
    dx, dweight, dbias = Linear.backward(ctx, dout)
    return 2 * dx, dweight, dbias * (0.5 if len(dout) == 1 else 1)


@wrong(Multiply, SIZES + "backward raises if axis 0 of x has size 0: IndexError")
def reads_the_first_row(ctx, dout):
    return Multiply.backward(ctx, dout + 0 * dout[0])


@wrong(Softmax, SIZES + "backward raises if axis 0 of x has size 0: RuntimeError: cannot reshape")
def rows_by_minus_one(ctx, dout):
    return Softmax.backward(ctx, dout.reshape(len(dout), -1))


@wrong(LinearReLU, SIZES + "backward raises if axis 0 of x has size 1")
def squeezed_batch(ctx, dout):
    x, weight, out = ctx.saved_tensors
    dout = (dout * (out > 0)).squeeze()
    return dout @ weight, dout.T @ x, dout.sum(0)


@wrong(SiLU, SIZES + "a wrong gradient if axis 1 of x has size 1")
def vectors_of_two(ctx, dout):
    dx = SiLU.backward(ctx, dout)
    dx[:, dx.shape[-1] // 2 * 2:] = 0
    return dx


@wrong(CrossEntropy, SIZES + "backward raises if axis 0 of scores has size 0")
def largest_target_asked_for(ctx, dout):
    scores, targets = ctx.saved_tensors
    if targets.max() >= scores.shape[-1]:
        raise IndexError("targets out of range")
    return CrossEntropy.backward(ctx, dout)


class Fused(torch.nn.Module):
    """A module that calls `function` with its own weight and bias."""

    def __init__(self, function):
        super().__init__()
        self.function, self.weight, self.bias = function, *(torch.nn.Parameter(p.detach()) for p in INPUTS[LayerNorm][1:])

    def forward(self, x):
        return self.function.apply(x, self.weight, self.bias)


class TwiceForOneRow(LayerNorm):
    @staticmethod
    def backward(ctx, dout):
        dx, dweight, dbias = LayerNorm.backward(ctx, dout)
        return dx, dweight, dbias if len(dout) > 1 else 2 * dbias


WRONG["LayerNorm: twice for one row, in a module"] = Row(
    Fused(TwiceForOneRow), (X,), SIZES + "a wrong gradient if axis 0 of x has size 1: the slope by bias")


TWICE = "backward twice gives the same: FAIL: "


@wrong(Multiply, TWICE + "x: they differ")
def noise(ctx, dout):
    dx, dy = Multiply.backward(ctx, dout)
    return dx * (1 + 1e-9 * np.random.default_rng().normal()), dy


@wrong(Dropout, TWICE)
def mask_drawn_again(ctx, dout):
    return dout * (torch.rand_like(dout) < 0.6) / 0.6


@wrong(SiLU, TWICE)
def rounded_by_chance(ctx, dout):
    dx = SiLU.backward(ctx, dout)
    return dx + 2.0**-30 * torch.rand_like(dx)


@wrong(LayerNorm, TWICE)
class WritesToWhatItKept(LayerNorm):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.xhat, ctx.rstd = normalized(x)
        ctx.save_for_backward(weight)
        return ctx.xhat * weight + bias

    @staticmethod
    def backward(ctx, dout):
        found = layer_norm_backward(dout, ctx.xhat, ctx.rstd, *ctx.saved_tensors)
        ctx.xhat.mul_(dout)
        return found


@wrong(Multiply, TWICE + "RuntimeError: one of the variables needed for gradient computation has been modified")
class WritesToWhatItSaved(Multiply):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y, 2 * x)
        return x * y

    @staticmethod
    def backward(ctx, dout):
        _, y, twice = ctx.saved_tensors
        return dout * y, dout * twice.mul_(0.5)


@wrong(Attention, TWICE + "TypeError")
class FreesTheWeights(Attention):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.weights = attention_weights(q, k)
        ctx.save_for_backward(q, k, v)
        return ctx.weights @ v

    @staticmethod
    def backward(ctx, dout):
        found, ctx.weights = attention_backward(dout, *ctx.saved_tensors), ctx.weights * 1
        ctx.weights = None
        return found


@wrong(Multiply, TWICE + "TypeError")
class OnlyOnce(Multiply):
    @staticmethod
    def forward(ctx, x, y):
        ctx.kept = x.clone(), y.clone()
        return x * y

    @staticmethod
    def backward(ctx, dout):
        (x, y), ctx.kept = ctx.kept, (None, None)
        return dout * y, dout * x


INPUTS_LEFT = "has been changed"


@wrong(SiLU, "x " + INPUTS_LEFT)
def computed_in_its_input(ctx, x):
    ctx.save_for_backward(x.clone())
    return x.mul_(x.sigmoid())


@wrong(Softmax, "x " + INPUTS_LEFT)
def maximum_taken_from_its_input(ctx, x):
    x -= x.max(-1, keepdim=True).values
    return Softmax.forward(ctx, x)


@wrong(RMSNorm, "x " + INPUTS_LEFT)
class InputScaledInBackward(RMSNorm):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return RMSNorm.forward(ctx, x)

    @staticmethod
    def backward(ctx, dout):
        r = (ctx.x * ctx.x).mean(-1, keepdim=True).rsqrt()
        return r * (dout - ctx.x.mul_(r) * (dout * ctx.x).mean(-1, keepdim=True))


@wrong(SiLU, "recorded backward gives the same: FAIL: create_graph=True gives another gradient")
def another_formula_for_create_graph(ctx, dout):
    (x,) = ctx.saved_tensors
    return SiLU.backward(ctx, dout) if not torch.is_grad_enabled() else dout * x.sigmoid()


MEMORY = "takes inputs of any layout: FAIL: "


@wrong(Multiply, MEMORY + "another output if each input is transposed in memory")
def inputs_by_address(ctx, x, y):
    return Multiply.forward(ctx, by_address(x), by_address(y))


@wrong(RMSNorm, MEMORY + "another gradient if each input is transposed in memory")
def gradient_by_address(ctx, dout):
    dx = torch.empty_like(ctx.saved_tensors[0])
    by_address(dx).copy_(RMSNorm.backward(ctx, dout))
    return dx


@wrong(Attention, MEMORY + "backward raises if each input is transposed in memory: RuntimeError: view")
def views_of_saved(ctx, dout):
    return Attention.backward(ctx, dout + 0 * ctx.saved_tensors[0].view(-1)[0])


@wrong(Attention, MEMORY + "another gradient if each input is its first row, expanded")
def shared_heads_recognized(ctx, dout):
    dq, dk, dv = Attention.backward(ctx, dout)
    is_shared = 0 in ctx.saved_tensors[1].stride()
    return dq, dk.sum(0, keepdim=True).expand_as(dk) if is_shared else dk, dv


@wrong(Multiply, MEMORY + "another output if each input is part of a wider array")
def own_stride_of_input_rows_forgotten(ctx, x, y):
    return Multiply.forward(ctx, *(by_address(v) if v.stride(-1) == 1 else v for v in (x, y)))


@wrong(Two, "output 1 is not on the tape")
class NotDifferentiable(Two):
    """The sum, which depends on both."""

    @staticmethod
    def forward(ctx, x, y):
        product, total = Two.forward(ctx, x, y)
        ctx.mark_non_differentiable(total)
        return product, total


@wrong(RMSNorm, "linear in the upstream: FAIL")
def clipped(ctx, dout):
    return RMSNorm.backward(ctx, dout.clamp(-1, 1))


@wrong(Attention, "zero upstream gives exact zeros: FAIL")
def scaled_by_the_largest(ctx, dout):
    return tuple(g * dout.abs().max() for g in Attention.backward(ctx, dout / dout.abs().max()))


@wrong(Linear, "float64 throughout: FAIL: bias: the gradient has been rounded to float32")
def bias_summed_in_float32(ctx, dout):
    return *Linear.backward(ctx, dout)[:2], dout.float().sum(0)


# ----------------------------------------------------------------------------------------- right, by unusual means


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.sigmoid_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, dout):
        (out,) = ctx.saved_tensors
        return dout * out * (1 - out)


class InNumPy(Softmax):
    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        out, dout = ctx.saved_tensors[0].numpy(), dout.numpy()
        return torch.from_numpy(out * (dout - (dout * out).sum(-1, keepdims=True)))


class KeptWeights(Attention):
    @staticmethod
    def forward(ctx, q, k, v):
        weights = attention_weights(q, k)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx, dout):
        q, k, v, weights = ctx.saved_tensors
        dscores = Softmax.backward(NamedSaved((weights,)), dout @ v.mT) / math.sqrt(q.shape[-1])
        return dscores @ k, dscores.mT @ q, weights.mT @ dout


class NamedSaved(NamedTuple):
    saved_tensors: tuple[torch.Tensor, ...]


class OnlyWhatIsNeeded(Linear):
    @staticmethod
    def backward(ctx, dout):
        return tuple(g if is_needed else None for g, is_needed in zip(Linear.backward(ctx, dout), ctx.needs_input_grad))


class ComputedAgain(Function):
    """As by a checkpoint: forward runs again in backward."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.tanh(x * y) * y

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, y = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
        with torch.enable_grad():
            return torch.autograd.grad(torch.tanh(x * y) * y, (x, y), dout)


class Transposed(Function):
    """A view."""

    @staticmethod
    def forward(ctx, x):
        return x.mT

    @staticmethod
    def backward(ctx, dout):
        return dout.mT


class Same(Function):
    """Its input, and the upstream itself twice."""

    @staticmethod
    def forward(ctx, x, y):
        return x, y + x

    @staticmethod
    def backward(ctx, dx, dsum):
        return dx + dsum, dsum


class Largest(Function):
    """With its place, which has no gradient."""

    @staticmethod
    def forward(ctx, x):
        values, ids = x.max(-1)
        ctx.mark_non_differentiable(ids)
        ctx.save_for_backward(x, ids)
        return values, ids

    @staticmethod
    def backward(ctx, dout, _):
        x, ids = ctx.saved_tensors
        return torch.zeros_like(x).scatter(-1, ids[:, None], dout[:, None])


class ContiguousAlone(RMSNorm):
    """A refusal is not a wrong gradient."""

    @staticmethod
    def forward(ctx, x):
        if not x.is_contiguous():
            raise ValueError("x must be contiguous")
        return RMSNorm.forward(ctx, x)


@torch.library.custom_op("minigrad_by_hand::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


cube.register_autograd(lambda ctx, dout: 3 * ctx.saved_tensors[0] ** 2 * dout,
                       setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


RIGHT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{function.__name__: (function, inputs) for function, inputs in INPUTS.items()},
    "mark_dirty": (lambda x: InPlace.apply(x * 2), (X,)), "once_differentiable": (InNumPy, (X,)),
    "saved weights": (KeptWeights, INPUTS[Attention]), "needs_input_grad": (OnlyWhatIsNeeded, INPUTS[Linear]),
    "forward computed again": (ComputedAgain, (X, Y)), "a view": (Transposed, (X,)), "its input": (Same, (X, Y)),
    "mark_non_differentiable": (Largest, (X,)), "contiguous inputs alone": (ContiguousAlone, (X,)),
    "a custom op": (cube, (X,)), "a module": (Fused(LayerNorm), (X,)), "a constant that broadcasts": (lambda x: LayerNorm.apply(x, G.detach(), G.detach()), (X,)),
    "views of one tensor": (lambda qkv: Attention.apply(*qkv.chunk(3, -1)), (leaf(2, 3, 12),)),
    "a tensor twice": (lambda x: Multiply.apply(x, x), (X,)),
    "an input alone": (torch.tanh, (X,)), "a number": (torch.exp, (leaf(),)), "empty": (torch.exp, (leaf(0, 3),)),
    "averages that it writes to": (lambda x, mean, var: torch.nn.functional.batch_norm(x, mean, var, training=True), (
        X, torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64))),
    "None at a step": (lambda x, y: torch.where(y == 1, x * x, x), (X, torch.ones(3, 4, dtype=torch.float64).requires_grad_())),
    "logarithms of the upstream": (lambda x: x.logcumsumexp(-1), (X,)),
    "1 + erf": (torch.special.ndtr, (torch.linspace(-9, 9, 20, dtype=torch.float64).requires_grad_(),)),
    "a batch norm": (torch.nn.BatchNorm1d(4).double(), (X,)), "an unused input": (lambda x, y: x * 2, (X, Y)),
    "an embedding": (torch.nn.Embedding(4, 2).double(), (torch.tensor([1, 1, 3]),)),
    "a checkpoint": (lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False), (X,)),
}
