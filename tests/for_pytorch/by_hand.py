"""Wrong backwards by hand: what custom functions of PyTorch get wrong apart from their formulas, and tricks that are right.

An op is a forward(ctx, *inputs) and a backward(ctx, *upstreams, *inputs); a row of WRONG replaces one of them or both, and names
the side check that must notice, or part of what the report must say.
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


class Op(NamedTuple):
    name: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inputs: tuple[Any, ...]

    def function(self, forward=None, backward=None) -> type[Function]:
        """A custom function with the op's forward and backward, or these. It saves its inputs, unless forward saves others."""
        forward, backward = forward or self.forward, backward or self.backward

        def saving(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(ctx, *inputs)

        def restoring(ctx, *upstreams):
            return backward(ctx, *upstreams, *ctx.saved_tensors)

        saving.__signature__ = inspect.signature(self.forward)  # the inputs' names
        return type(self.name, (Function,), {"forward": staticmethod(saving), "backward": staticmethod(restoring)})


def last(*done):
    """The last of several expressions."""
    return done[-1]


# ---------------------------------------------------------------------------------------------------- right functions

def two_backward(ctx, dproduct, dsum, x, y):
    if dproduct is None:
        return dsum, dsum
    return (dproduct * y, dproduct * x) if dsum is None else (dproduct * y + dsum, dproduct * x + dsum)


def softmax_backward(ctx, dout, x):
    out = x.softmax(-1)
    return out * (dout - (dout * out).sum(-1, keepdim=True))


def normalized(x, eps=1e-5):
    rstd = (x.var(-1, keepdim=True, correction=0) + eps).rsqrt()
    return (x - x.mean(-1, keepdim=True)) * rstd, rstd


def layer_norm_backward(dout, xhat, rstd, weight):
    dxhat = dout * weight
    rest = dxhat.mean(-1, keepdim=True) + xhat * (dxhat * xhat).mean(-1, keepdim=True)
    return rstd * (dxhat - rest), (dout * xhat).sum(0), dout.sum(0)


def rms_norm_backward(ctx, dout, x):
    r = (x * x).mean(-1, keepdim=True).rsqrt()
    return r * dout - r**3 * x * (dout * x).mean(-1, keepdim=True)


def attention_weights(q, k):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)


def attention_backward(ctx, dout, q, k, v, weights=None):
    weights = attention_weights(q, k) if weights is None else weights
    dweights = dout @ v.mT
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return dscores @ k, dscores.mT @ q, weights.mT @ dout


def cross_entropy_backward(ctx, dout, scores, targets):
    return (scores.softmax(-1) - torch.nn.functional.one_hot(targets, scores.shape[-1])) * dout[:, None], None


def dropout(ctx, x):
    ctx.keep = torch.rand_like(x) < 0.6
    return x * ctx.keep / 0.6


X, Y, W, B, G = leaf(3, 4), leaf(3, 4, seed=1), leaf(5, 4, seed=2), leaf(5, seed=3), leaf(4, seed=4)
MULTIPLY = Op("Multiply", lambda ctx, x, y: x * y, lambda ctx, dout, x, y: (dout * y, dout * x), (X, Y))
TWO = Op("Two", lambda ctx, x, y: last(ctx.set_materialize_grads(False), (x * y, x + y)), two_backward, (X, Y))
LINEAR = Op("Linear", lambda ctx, x, weight, bias: x @ weight.T + bias,
            lambda ctx, dout, x, weight, bias: (dout @ weight, dout.T @ x, dout.sum(0)), (X, W, B))
LINEAR_RELU = Op("LinearReLU", lambda ctx, x, weight, bias: (x @ weight.T + bias).relu(), lambda ctx, dout, x, weight, bias: LINEAR.backward(
    ctx, dout.masked_fill(x @ weight.T + bias <= 0, 0), x, weight, bias), (X, W, B))
SOFTMAX = Op("Softmax", lambda ctx, x: x.softmax(-1), softmax_backward, (X,))
LAYER_NORM = Op("LayerNorm", lambda ctx, x, weight, bias: normalized(x)[0] * weight + bias,
                lambda ctx, dout, x, weight, bias: layer_norm_backward(dout, *normalized(x), weight), (X, G, leaf(4, seed=5)))
RMS_NORM = Op("RMSNorm", lambda ctx, x: x * (x * x).mean(-1, keepdim=True).rsqrt(), rms_norm_backward, (X,))
ATTENTION = Op("Attention", lambda ctx, q, k, v: attention_weights(q, k) @ v, attention_backward, (leaf(2, 3, 4), leaf(2, 3, 4, seed=1), leaf(2, 3, 4, seed=2)))
CROSS_ENTROPY = Op("CrossEntropy", lambda ctx, scores, targets: -scores.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1),
                   cross_entropy_backward, (X, torch.tensor([1, 0, 1])))
DROPOUT = Op("Dropout", dropout, lambda ctx, dout, x: dout * ctx.keep / 0.6, (X,))
SILU = Op("SiLU", lambda ctx, x: x * x.sigmoid(), lambda ctx, dout, x: dout * x.sigmoid() * (1 + x * (1 - x.sigmoid())), (X,))
OPS = MULTIPLY, TWO, LINEAR, LINEAR_RELU, SOFTMAX, LAYER_NORM, RMS_NORM, ATTENTION, CROSS_ENTROPY, DROPOUT, SILU


class Fused(torch.nn.Module):
    """A module that calls `function` with its own weight and bias."""

    def __init__(self, function):
        super().__init__()
        self.function, self.weight, self.bias = function, *(torch.nn.Parameter(p.detach()) for p in LAYER_NORM.inputs[1:])

    def forward(self, x):
        return self.function.apply(x, self.weight, self.bias)


# -------------------------------------------------------------------------------------------------------- wrong ones

class Row(NamedTuple):
    fn: Any
    inputs: tuple[Any, ...]
    says: str  # part of the report: "the side check: FAIL: its sentence"


WRONG: dict[str, Row] = {}
REMARKED: dict[str, Row] = {}  # right numbers, and something else to know: these pass


BUT = "the numbers are right; but "


def wrong(op: Op, check: str, *rows: tuple[Any, ...]) -> None:
    """Add rows (name, what the check says, backward or {"forward": ..., "backward": ...}) of an op to WRONG, or to REMARKED."""
    for name, says, part in rows:
        parts = part if isinstance(part, dict) else {"backward": part}
        (REMARKED if check == BUT else WRONG)[f"{op.name}: {name}"] = Row(op.function(**parts), op.inputs, check + says)


UPSTREAM = "leaves the upstream as it is: FAIL: backward overwrites the upstream gradient"
wrong(MULTIPLY, UPSTREAM, ("product in dout", "", lambda ctx, dout, x, y: (dout * y, dout.mul_(x))))
wrong(SOFTMAX, UPSTREAM, ("row sums taken from dout", "", lambda ctx, dout, x: x.softmax(-1) * dout.sub_((dout * x.softmax(-1)).sum(-1, keepdim=True))))
wrong(LINEAR_RELU, UPSTREAM, ("dout masked in place", "", lambda ctx, dout, x, weight, bias: LINEAR.backward(
    ctx, dout.masked_fill_(x @ weight.T + bias <= 0, 0), x, weight, bias)))
wrong(LAYER_NORM, UPSTREAM, ("dout as workspace", "", lambda ctx, dout, *saved: last(
    found := LAYER_NORM.backward(ctx, dout, *saved), (dout.copy_(found[0]), *found[1:]))))


def by_address(x):
    """As a kernel reads it that takes it to be contiguous."""
    return x if 0 in x.stride() else torch.as_strided(x, x.shape, torch.empty(x.shape).stride())


def first_bytes(dout):
    kept = dout.untyped_storage().tolist()[: 8 * dout.numel()]
    kept += [0] * (8 * dout.numel() - len(kept))
    return torch.tensor(kept, dtype=torch.uint8).view(torch.float64).reshape(dout.shape)


def is_plain(dout):
    return dout.is_contiguous() or 0 in dout.stride() or dout.stride(-1) == 6


LAYOUT = "takes an upstream of any layout: FAIL: "
wrong(MULTIPLY, LAYOUT,
      ("dout by address", "another gradient if the upstream gradient is transposed in memory",
       lambda ctx, dout, *saved: MULTIPLY.backward(ctx, by_address(dout), *saved)),
      ("view of dout", "backward raises if the upstream gradient is transposed in memory: RuntimeError: view",
       lambda ctx, dout, x, y: MULTIPLY.backward(ctx, dout.view(-1).view(x.shape), x, y)),
      ("expanded rows taken for a number", "another gradient if the upstream gradient is its first row, expanded, as under sum(0)",
       lambda ctx, dout, *saved: MULTIPLY.backward(ctx, dout.flatten()[0] if 0 in dout.stride() else dout, *saved)),
      ("own stride of rows forgotten", "another gradient if the upstream gradient is part of a wider array, as under cat",
       lambda ctx, dout, *saved: MULTIPLY.backward(ctx, by_address(dout) if dout.stride(-1) == 1 else dout, *saved)))
wrong(LAYER_NORM, LAYOUT, ("dout with a stride for rows alone", "another gradient if the upstream gradient is transposed in memory", lambda ctx, dout, *saved: (
    LAYER_NORM.backward(ctx, torch.as_strided(dout, dout.shape, (dout.stride(0), min(1, dout.stride(1)))), *saved))))
wrong(SOFTMAX, LAYOUT, ("first bytes of dout", "another gradient if the upstream gradient is expanded, as that of a sum",
                        lambda ctx, dout, x: SOFTMAX.backward(ctx, first_bytes(dout), x)))
wrong(ATTENTION, LAYOUT, ("gaps taken for a transpose", "another gradient if the upstream gradient is a slice with gaps", lambda ctx, dout, *saved: (
    ATTENTION.backward(ctx, dout if is_plain(dout) else dout.mT.contiguous().view(dout.shape), *saved))))


def both_or_an_error(ctx, dout, x, y):
    if not all(ctx.needs_input_grad):
        raise ValueError("both, please")
    return MULTIPLY.backward(ctx, dout, x, y)


def flag_of_the_weight_for_the_bias(ctx, dout, *saved):
    dx, dweight, dbias = LINEAR.backward(ctx, dout, *saved)
    return dx, dweight, dbias if ctx.needs_input_grad[1] else None


def normalized_only_for_x_and_weight(ctx, dout, x, weight, bias):
    if any(ctx.needs_input_grad[:2]):
        xhat, rstd = normalized(x)
    return layer_norm_backward(dout, xhat, rstd, weight)


def scale_with_the_query(ctx, dout, q, k, v):
    dq, dk, dv = attention_backward(ctx, dout, q, k, v)
    return dq, dk if ctx.needs_input_grad[0] else dk * math.sqrt(q.shape[-1]), dv


ALONE = "each input alone may need a gradient: FAIL: "
wrong(MULTIPLY, ALONE,
      ("first needs for all", "another gradient if only y",
       lambda ctx, dout, *saved: MULTIPLY.backward(ctx, dout, *saved) if ctx.needs_input_grad[0] else (None, None)),
      ("exchanged if alone", "another gradient if only x",
       lambda ctx, dout, *saved: MULTIPLY.backward(ctx, dout, *saved)[:: 1 if all(ctx.needs_input_grad) else -1]))
wrong(LINEAR, ALONE, ("flag of the weight for the bias", "another gradient if only bias", flag_of_the_weight_for_the_bias))
wrong(MULTIPLY, BUT, ("both or an error", "backward raises if only x requires a gradient: ValueError: both, please, in line", both_or_an_error))
wrong(LAYER_NORM, BUT, ("normalized only for x and weight", "backward raises if only bias", normalized_only_for_x_and_weight))
wrong(ATTENTION, ALONE, ("scale with the query", "another gradient if only k", scale_with_the_query))

NONE = "no gradient is None: FAIL: "
wrong(LINEAR, NONE, ("bias forgotten", "bias gets None for a gradient, though the output depends on it",
                     lambda ctx, dout, *saved: (*LINEAR.backward(ctx, dout, *saved)[:2], None)))
wrong(MULTIPLY, NONE, ("second taken as constant", "y gets None", lambda ctx, dout, x, y: (dout * y, None)))
wrong(ATTENTION, NONE, ("gradients of queries and keys alone", "v gets None",
                        lambda ctx, dout, *saved: (*attention_backward(ctx, dout, *saved)[:2], None)))

wrong(TWO, BUT, ("both upstreams or an error", "backward raises if only output 0 is used",
                 lambda ctx, dproduct, dsum, x, y: (dproduct * y + dsum, dproduct * x + dsum)))
wrong(TWO, "outputs may go unused: FAIL: ",
      ("nothing without the product", "another gradient if outputs are used one by one",
       lambda ctx, dproduct, *others: (None, None) if dproduct is None else two_backward(ctx, dproduct, *others)),
      ("none for the sum counts as ones", "another gradient",
       lambda ctx, dproduct, dsum, x, y: two_backward(ctx, dproduct, torch.ones_like(x) if dsum is None else dsum, x, y)))

KEPT: dict[Any, Any] = {}  # what outlives a call


def keep(key, value):
    KEPT[key] = value
    return value


def in_workspace(value):
    return KEPT.setdefault(("workspace", value.shape), torch.empty_like(value)).copy_(value).detach()


CALLS = "calls are kept apart: FAIL: "
wrong(MULTIPLY, CALLS,
      ("KeptOnTheClass", "another gradient after a second call", {
          "forward": lambda ctx, x, y: math.prod(keep("factors", (x.clone(), y.clone()))),
          "backward": lambda ctx, dout, x, y: MULTIPLY.backward(ctx, dout, *KEPT["factors"])}),
      ("GradientKept", "a second backward overwrites the first one's gradients: return new memory", {
          "forward": lambda ctx, x, y: last(setattr(ctx, "dx", torch.empty_like(x)), x * y),
          "backward": once_differentiable(lambda ctx, dout, x, y: (torch.mul(dout, y, out=ctx.dx), dout * x))}))
wrong(LAYER_NORM, CALLS, ("StatisticsByShape", "another gradient after a second call", {
    "forward": lambda ctx, x, weight, bias: keep(x.shape, normalized(x))[0] * weight + bias,
    "backward": lambda ctx, dout, x, weight, bias: layer_norm_backward(dout, *KEPT[x.shape], weight)}))
wrong(SOFTMAX, CALLS, ("output in a workspace", "a second call overwrites the first one's output", {
    "forward": lambda ctx, x: in_workspace(x.softmax(-1))}))
wrong(LINEAR, CALLS, ("gradient in a workspace", "a second backward overwrites the first one's gradients: return new memory",
                      lambda ctx, dout, x, weight, bias: (in_workspace(dout @ weight), dout.T @ x, dout.sum(0))))
wrong(DROPOUT, CALLS, ("MaskOnTheClass", "another gradient after a second call", {
    "forward": lambda ctx, x: x * keep("mask", torch.rand_like(x) < 0.6) / 0.6, "backward": lambda ctx, dout, x: dout * KEPT["mask"] / 0.6}))

SIZES = "sizes of 1 and 0: FAIL: "
wrong(MULTIPLY, SIZES,
      ("half for one row", "a wrong gradient if axis 0 of x has size 1: the slope by x",
       lambda ctx, dout, x, y: ((dout * y).squeeze().expand(x.shape) * (0.5 if len(x) == 1 else 1), dout * x)))
wrong(MULTIPLY, BUT, ("reads the first row", "backward raises if axis 0 of x has size 0: IndexError",
                      lambda ctx, dout, *saved: MULTIPLY.backward(ctx, dout + 0 * dout[0], *saved)))
wrong(LINEAR, SIZES, ("wrong for x and half for one row", "a wrong gradient if axis 0 of x has size 1: the slope by bias differs",
                      lambda ctx, dout, x, weight, bias: (2 * dout @ weight, dout.T @ x, dout.sum(0) * (0.5 if len(dout) == 1 else 1))))
wrong(SOFTMAX, BUT, ("rows by minus one", "backward raises if axis 0 of x has size 0: RuntimeError: cannot reshape",
                       lambda ctx, dout, x: SOFTMAX.backward(ctx, dout.reshape(len(dout), -1), x)))
wrong(LINEAR_RELU, BUT, ("squeezed batch", "backward raises if axis 0 of x has size 1", lambda ctx, dout, x, weight, bias: LINEAR.backward(
    ctx, dout.masked_fill(x @ weight.T + bias <= 0, 0).squeeze(), x, weight, bias)))
wrong(SILU, SIZES, ("vectors of two", "a wrong gradient if axis 1 of x has size 1",
                    lambda ctx, dout, x: SILU.backward(ctx, dout, x) * (torch.arange(x.shape[-1]) < x.shape[-1] // 2 * 2)))
wrong(CROSS_ENTROPY, BUT, ("largest target asked for", "backward raises if axis 0 of scores has size 0",
                           lambda ctx, dout, scores, targets: CROSS_ENTROPY.backward(ctx, dout + 0 * targets.max(), scores, targets)))
WRONG["LayerNorm: twice for one row, in a module"] = Row(
    Fused(LAYER_NORM.function(backward=lambda ctx, dout, x, weight, bias: tuple(
        g * c for g, c in zip(LAYER_NORM.backward(ctx, dout, x, weight, bias), (1, 1, 1 if len(dout) > 1 else 2))))),
    (X,), SIZES + "a wrong gradient if axis 0 of x has size 1: the slope by bias")

TWICE, SECOND = "backward twice gives the same: FAIL: ", "a second backward of the same forward "
wrong(MULTIPLY, TWICE, ("noise", "backward is not deterministic: x differs", lambda ctx, dout, x, y: (
    dout * y * (1 + 1e-9 * np.random.default_rng().normal()), dout * x)))
wrong(MULTIPLY, BUT,
      ("WritesToWhatItSaved", f"{SECOND}raises: RuntimeError: one of the variables needed for gradient computation has been modified", {
          "forward": lambda ctx, x, y: last(ctx.save_for_backward(x, y, 2 * x), x * y),
          "backward": lambda ctx, dout, x, y, twice: (dout * y, dout * twice.mul_(0.5))}),
      ("OnlyOnce", f"{SECOND}raises: TypeError", {
          "forward": lambda ctx, x, y: last(setattr(ctx, "kept", (x.clone(), y.clone())), x * y),
          "backward": lambda ctx, dout, x, y: last(found := MULTIPLY.backward(ctx, dout, *ctx.kept), setattr(ctx, "kept", (None, None)), found)}))
wrong(DROPOUT, TWICE, ("mask drawn again", f"{SECOND}gives other numbers: x differs", lambda ctx, dout, x: dout * (torch.rand_like(dout) < 0.6) / 0.6))
wrong(SILU, TWICE, ("rounded by chance", f"{SECOND}gives other numbers: x differs", lambda ctx, dout, x: SILU.backward(ctx, dout, x) + 2.0**-30 * torch.rand_like(x)))
wrong(LAYER_NORM, TWICE, ("WritesToWhatItKept", f"{SECOND}gives other numbers: x differs", {
    "forward": lambda ctx, x, weight, bias: last(setattr(ctx, "kept", normalized(x)), ctx.kept[0] * weight + bias),
    "backward": lambda ctx, dout, x, weight, bias: last(
        found := layer_norm_backward(dout, *ctx.kept, weight), ctx.kept[0].mul_(dout), found)}))
wrong(ATTENTION, BUT, ("FreesTheWeights", f"{SECOND}raises: TypeError", {
    "forward": lambda ctx, q, k, v: last(setattr(ctx, "weights", attention_weights(q, k)), ctx.weights @ v),
    "backward": lambda ctx, dout, *saved: last(ctx.weights * 1, setattr(ctx, "weights", None), attention_backward(ctx, dout, *saved))}))

wrong(SILU, "x has been changed", ("computed in its input", "", {
    "forward": lambda ctx, x: last(ctx.save_for_backward(x.clone()), x.mul_(x.sigmoid()))}))
wrong(SOFTMAX, "x has been changed", ("maximum taken from its input", "", {
    "forward": lambda ctx, x: x.sub_(x.max(-1, keepdim=True).values).softmax(-1)}))
wrong(RMS_NORM, "x has been changed", ("InputScaledInBackward", "", {
    "forward": lambda ctx, x: last(ctx.save_for_backward(), setattr(ctx, "x", x.detach()), RMS_NORM.forward(ctx, x)),
    "backward": lambda ctx, dout: last(found := RMS_NORM.backward(ctx, dout, ctx.x), ctx.x.mul_(2), found)}))
wrong(SILU, "recorded backward gives the same: FAIL: create_graph=True gives another gradient", (
    "another formula for create graph", "", lambda ctx, dout, x: dout * x.sigmoid() if torch.is_grad_enabled() else SILU.backward(ctx, dout, x)))


def shared_heads_recognized(ctx, dout, q, k, v):
    dq, dk, dv = attention_backward(ctx, dout, q, k, v)
    return dq, dk.sum(0, keepdim=True).expand_as(dk) if 0 in k.stride() else dk, dv


MEMORY = "takes inputs of any layout: FAIL: "
wrong(MULTIPLY, MEMORY,
      ("inputs by address", "another output if each input is transposed in memory",
       {"forward": lambda ctx, x, y: by_address(x) * by_address(y)}),
      ("own stride of input rows forgotten", "another output if each input is part of a wider array",
       {"forward": lambda ctx, *inputs: math.prod(by_address(x) if x.stride(-1) == 1 else x for x in inputs)}))
wrong(RMS_NORM, MEMORY, ("gradient by address", "another gradient if each input is transposed in memory", lambda ctx, dout, x: last(
    dx := torch.empty_like(x), by_address(dx).copy_(RMS_NORM.backward(ctx, dout, x)), dx)))
wrong(ATTENTION, MEMORY,
      ("views of saved", "backward raises if each input is transposed in memory: RuntimeError: view",
       lambda ctx, dout, q, k, v: attention_backward(ctx, dout + 0 * q.view(-1)[0], q, k, v)),
      ("shared heads recognized", "another gradient if each input is its first row, expanded", shared_heads_recognized))

wrong(TWO, "output 1 is not on the tape", ("NotDifferentiable", "", {  # the sum, which depends on both
    "forward": lambda ctx, x, y: last(outputs := TWO.forward(ctx, x, y), ctx.mark_non_differentiable(outputs[1]), outputs)}))
wrong(RMS_NORM, "linear in the upstream: FAIL", ("clipped", "", lambda ctx, dout, x: RMS_NORM.backward(ctx, dout.clamp(-1, 1), x)))
wrong(ATTENTION, "zero upstream gives exact zeros: FAIL", ("scaled by the largest", "", lambda ctx, dout, *saved: tuple(
    g * dout.abs().max() for g in attention_backward(ctx, dout / dout.abs().max(), *saved))))
wrong(LINEAR, "float64 throughout: FAIL: bias: the gradient has been rounded to float32", (
    "bias summed in float32", "", lambda ctx, dout, x, weight, bias: (dout @ weight, dout.T @ x, dout.float().sum(0))))


# ----------------------------------------------------------------------------------------- right, by unusual means

def largest(ctx, x):
    """With its place, which has no gradient."""
    values, ids = x.max(-1)
    ctx.mark_non_differentiable(ids)
    ctx.save_for_backward(x, ids)
    return values, ids


def contiguous_alone(ctx, x):
    """A refusal is not a wrong gradient."""
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    return RMS_NORM.forward(ctx, x)


def computed_again(ctx, dout, *saved):
    """As by a checkpoint: forward runs again in backward."""
    x, y = (tensor.detach().requires_grad_() for tensor in saved)
    with torch.enable_grad():
        return torch.autograd.grad(torch.tanh(x * y) * y, (x, y), dout)


def in_numpy(ctx, dout, out):
    out, dout = out.numpy(), dout.numpy()
    return torch.from_numpy(out * (dout - (dout * out).sum(-1, keepdims=True)))


def from_output(forward):
    """What saves its output."""
    return lambda ctx, x: last(out := forward(x), ctx.save_for_backward(out), out)


@torch.library.custom_op("minigrad_by_hand::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


cube.register_autograd(lambda ctx, dout: 3 * ctx.saved_tensors[0] ** 2 * dout,
                       setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))

SIGMOID = Op("Sigmoid", lambda ctx, x: last(ctx.mark_dirty(x), x.sigmoid_(), ctx.save_for_backward(x), x),
             lambda ctx, dout, out: dout * out * (1 - out), (X,))
TANH = Op("Tanh", lambda ctx, x, y: torch.tanh(x * y) * y, once_differentiable(computed_again), (X, Y))
TRANSPOSED = Op("Transposed", lambda ctx, x: x.mT, lambda ctx, dout, x: dout.mT, (X,))
SAME = Op("Same", lambda ctx, x, y: (x, y + x), lambda ctx, dx, dsum, x, y: (dx + dsum, dsum), (X, Y))
LARGEST = Op("Largest", largest, lambda ctx, dout, _, x, ids: torch.zeros_like(x).scatter(-1, ids[:, None], dout[:, None]), (X,))

RIGHT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{op.name: (op.function(), op.inputs) for op in OPS},
    "mark_dirty": (lambda x: SIGMOID.function().apply(x * 2), (X,)),
    "once_differentiable": (SOFTMAX.function(from_output(lambda x: x.softmax(-1)), once_differentiable(in_numpy)), (X,)),
    "saved weights": (ATTENTION.function(lambda ctx, q, k, v: last(
        weights := attention_weights(q, k), ctx.save_for_backward(q, k, v, weights), weights @ v)), ATTENTION.inputs),
    "needs_input_grad": (LINEAR.function(backward=lambda ctx, dout, *saved: tuple(
        g if is_needed else None for g, is_needed in zip(LINEAR.backward(ctx, dout, *saved), ctx.needs_input_grad))), LINEAR.inputs),
    "forward computed again": (TANH.function(), TANH.inputs), "a view": (TRANSPOSED.function(), (X,)), "its input": (SAME.function(), (X, Y)),
    "mark_non_differentiable": (LARGEST.function(), (X,)), "contiguous inputs alone": (RMS_NORM.function(contiguous_alone), (X,)),
    "a custom op": (cube, (X,)), "a module": (Fused(LAYER_NORM.function()), (X,)),
    "a constant that broadcasts": (lambda x: LAYER_NORM.function().apply(x, G.detach(), G.detach()), (X,)),
    "views of one tensor": (lambda qkv: ATTENTION.function().apply(*qkv.chunk(3, -1)), (leaf(2, 3, 12),)),
    "a tensor twice": (lambda x: MULTIPLY.function().apply(x, x), (X,)),
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
