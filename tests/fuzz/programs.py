"""Random programs, run here and in PyTorch: the same values, dtypes and gradients, or an error in both.

    python tests/fuzz/programs.py [--minutes 30] [--seed 0] [--statements 12]

A program is a list of statements drawn from a seed: functions of one, two or more tensors, views, writes in place, detach,
no_grad and casts, on leaves and constants of all dtypes and shapes (0-d and empty ones too), some with NaN, infinities,
zeros and equal elements. After the last statement a random weighting of some values goes backward, through create_graph
and a second time for some programs. What this library refuses with one of the lines in REFUSALS and PyTorch computes is
counted, not a difference; so is what PyTorch refuses because it has saved what this library recomputes. A short form is
tests/minigrad/test_fuzz.py.
"""
import argparse
import math
import pathlib
import random
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = map(str, (pathlib.Path(__file__).parents[2], pathlib.Path(__file__).parents[1]))

import torch

import minigrad as mg
from nn import functional as F

OURS, THEIRS = (mg, F), (torch, torch.nn.functional)

# name: (function of (library, functional, tensors ...)); smooth ones may be followed by others of any kind
UNARY: dict[str, Callable] = {
    name: (lambda m, F, x, name=name: getattr(x, name)())
    for name in ("abs neg exp expm1 log log1p sqrt rsqrt reciprocal sin cos tanh sigmoid erf relu square floor ceil round "
                 "trunc sign clone isnan isfinite flatten").split()
} | {
    "gelu": lambda m, F, x: F.gelu(x),
    "gelu tanh": lambda m, F, x: F.gelu(x, approximate="tanh"),
    "silu": lambda m, F, x: F.silu(x),
    "softplus": lambda m, F, x: F.softplus(x),
    "leaky_relu": lambda m, F, x: F.leaky_relu(x, 0.1),
    "logsigmoid": lambda m, F, x: F.logsigmoid(x),
    "clamp": lambda m, F, x: x.clamp(-0.5, 1.5),
    "scaled": lambda m, F, x: x * 1.5,
    "shifted": lambda m, F, x: x + 2,
    "subtracted": lambda m, F, x: 1 - x,
    "inverted": lambda m, F, x: 2.0 / x,
    "cube": lambda m, F, x: x**3,
    "square root": lambda m, F, x: x**0.5,
    "power of two": lambda m, F, x: 2.0**x,
    "positive": lambda m, F, x: x > 0,
    "float": lambda m, F, x: x.float(),
    "double": lambda m, F, x: x.double(),
    "long": lambda m, F, x: (x > 0).long(),
    "not": lambda m, F, x: ~(x > 0),
    "detach": lambda m, F, x: x.detach(),
    "sum": lambda m, F, x: x.sum(),
    "mean": lambda m, F, x: x.mean(),
    "max": lambda m, F, x: x.max(),
    "prod": lambda m, F, x: x.prod(),
}  # fmt: skip
BINARY: dict[str, Callable] = {
    "add": lambda m, F, a, b: a + b,
    "sub": lambda m, F, a, b: a - b,
    "mul": lambda m, F, a, b: a * b,
    "div": lambda m, F, a, b: a / b,
    "pow": lambda m, F, a, b: a**b,
    "maximum": lambda m, F, a, b: m.maximum(a, b),
    "minimum": lambda m, F, a, b: m.minimum(a, b),
    "remainder": lambda m, F, a, b: m.remainder(a, b),
    "fmod": lambda m, F, a, b: m.fmod(a, b),
    "floor_divide": lambda m, F, a, b: m.floor_divide(a, b),
    "where": lambda m, F, a, b: m.where(a > b, a, b),
    "masked_fill": lambda m, F, a, b: a.masked_fill(b > 0, 2),
    "eq": lambda m, F, a, b: a == b,
    "less": lambda m, F, a, b: a < b,
    "matmul": lambda m, F, a, b: a @ b,
    "matmul transposed": lambda m, F, a, b: a @ b.transpose(-1, -2),
    "cat": lambda m, F, a, b: m.cat([a, b], 0),
    "stack": lambda m, F, a, b: m.stack([a, b], -1),
    "mse": lambda m, F, a, b: F.mse_loss(a, b),
    "linear": lambda m, F, a, b: F.linear(a, b.reshape(-1, b.shape[-1])),
    "attention": lambda m, F, a, b: F.scaled_dot_product_attention(a, b, b),
    "causal attention": lambda m, F, a, b: F.scaled_dot_product_attention(a, a, b, is_causal=True),
    "masked_select": lambda m, F, a, b: a.masked_select(b > 0),
    "expand_as": lambda m, F, a, b: a.expand_as(b),
    "reshape_as": lambda m, F, a, b: a.reshape(b.shape),
    "to the other's dtype": lambda m, F, a, b: a.to(b.dtype),
}
ALONG: dict[str, Callable] = {  # also of an axis and an option
    "sum": lambda m, F, x, dim, keep: x.sum(dim, keepdim=keep),
    "mean": lambda m, F, x, dim, keep: x.mean(dim, keepdim=keep),
    "var": lambda m, F, x, dim, keep: x.var(dim, correction=int(keep)),
    "std": lambda m, F, x, dim, keep: x.std(dim, keepdim=keep),
    "amax": lambda m, F, x, dim, keep: x.amax(dim, keepdim=keep),
    "amin": lambda m, F, x, dim, keep: x.amin(dim, keepdim=keep),
    "max": lambda m, F, x, dim, keep: x.max(dim, keepdim=keep)[0],
    "argmax": lambda m, F, x, dim, keep: x.argmax(dim, keepdim=keep),
    "logsumexp": lambda m, F, x, dim, keep: x.logsumexp(dim, keepdim=keep),
    "norm": lambda m, F, x, dim, keep: x.norm(2 if keep else 1, dim),
    "prod": lambda m, F, x, dim, keep: x.prod(dim, keepdim=keep),
    "cumsum": lambda m, F, x, dim, keep: x.cumsum(dim),
    "softmax": lambda m, F, x, dim, keep: x.softmax(dim),
    "log_softmax": lambda m, F, x, dim, keep: x.log_softmax(dim),
    "layer_norm": lambda m, F, x, dim, keep: F.layer_norm(x, tuple(x.shape[-1:])),
    "any": lambda m, F, x, dim, keep: x.isnan().any(dim, keepdim=keep),
    "sort": lambda m, F, x, dim, keep: x.sort(dim=dim, descending=keep, stable=True)[0],
    "topk": lambda m, F, x, dim, keep: x.topk(1, dim)[0],
    "gather": lambda m, F, x, dim, keep: x.gather(dim, x.argsort(dim=dim, stable=True)),
    "flip": lambda m, F, x, dim, keep: x.flip(dim),
    "roll": lambda m, F, x, dim, keep: x.roll(1, dim),
    "repeat": lambda m, F, x, dim, keep: x.repeat((2,) + (1,) * (x.ndim - 1)) if x.ndim else x,
    "tril": lambda m, F, x, dim, keep: x.tril() if keep else x.triu(),
    "pad": lambda m, F, x, dim, keep: F.pad(x, (1, 0) if keep else (-1, 2)),
}
VIEWS: dict[str, Callable] = {
    "first": lambda m, F, x, dim, keep: x[0],
    "last": lambda m, F, x, dim, keep: x[..., -1],
    "some": lambda m, F, x, dim, keep: x[: max(1, x.shape[0] - 1)] if keep else x[1:],
    "every other": lambda m, F, x, dim, keep: x[..., ::2],
    "turned": lambda m, F, x, dim, keep: x.transpose(0, dim),
    "T": lambda m, F, x, dim, keep: x.t() if x.ndim <= 2 else x.permute(*reversed(range(x.ndim))),
    "reshaped": lambda m, F, x, dim, keep: x.reshape(-1),
    "unsqueezed": lambda m, F, x, dim, keep: x.unsqueeze(dim),
    "squeezed": lambda m, F, x, dim, keep: x.squeeze(),
    "narrowed": lambda m, F, x, dim, keep: x.narrow(dim, 0, 1),
    "chunk": lambda m, F, x, dim, keep: x.chunk(2, dim)[-1].clone(),
    "diagonal": lambda m, F, x, dim, keep: x.diagonal(),
    "expanded": lambda m, F, x, dim, keep: x.expand((2, *x.shape)),
    "picked": lambda m, F, x, dim, keep: x[m.tensor([0, 0])],
    "masked": lambda m, F, x, dim, keep: x[x > 0],
}
WRITES: dict[str, Callable] = {  # in place: into x, of y
    "add_": lambda m, F, x, y: x.add_(y),
    "sub_": lambda m, F, x, y: x.sub_(y, alpha=2),
    "mul_": lambda m, F, x, y: x.mul_(y),
    "div_": lambda m, F, x, y: x.div_(y),
    "copy_": lambda m, F, x, y: x.copy_(y),
    "zero_": lambda m, F, x, y: x.zero_(),
    "fill_": lambda m, F, x, y: x.fill_(0.25),
    "first =": lambda m, F, x, y: set_item(x, 0, y),
    "last =": lambda m, F, x, y: set_item(x, (..., -1), y),
    "slice =": lambda m, F, x, y: set_item(x, slice(0, 2), 1.5),
    "mask =": lambda m, F, x, y: set_item(x, x > 0, 0.5),
    "+=": lambda m, F, x, y: x.__iadd__(1.0),
    "*=": lambda m, F, x, y: x.__imul__(y),
}


def set_item(x, index, value):
    x[index] = value
    return x


REFUSED_THERE = (  # what PyTorch may refuse where this library goes on
    "not implemented for", "not supported", "could not infer output dtype", "only support floating", "a view of a leaf",
    "derivative for", "inputs not supported", "Expected a floating point", "does not support bool", "modified by an inplace",
    "refer to a single memory location", "is a view and", "length must be non-negative",
)  # fmt: skip
REFUSALS = (  # what this library may refuse where PyTorch goes on
    "its memory was changed by an inplace operation on another tensor",
    "modified by an inplace operation",
    "an index occurs twice",
    "this memory cannot be written to",
    "sizes must match except along dim",  # cat of (0,) with others, which PyTorch leaves out
)


@dataclass
class Statement:
    table: dict
    name: str
    operands: list[int]
    options: tuple = ()
    with_grad: bool = True

    def __str__(self):
        values = ", ".join([f"v{i}" for i in self.operands] + list(map(str, self.options)))
        return f"{self.name}({values})" + ("" if self.with_grad else " under no_grad")


@dataclass
class Outcome:
    """What a program gave in both libraries."""

    kind: str = "same"  # or 'refused here', 'refused there'
    program: list[str] = field(default_factory=list)


class Different(AssertionError):
    """The two libraries disagree."""


SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (3, 3), (2, 3, 4), (1, 3, 1), (0,), (0, 3), (2, 0)]
WEIGHTS = [2, 1, 3, 4, 2, 4, 3, 1, 1, 1, 1]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, 0.0, 1.0, -1.0, 1e30, 1e-30]


def draw_array(draw: random.Random, special: bool) -> np.ndarray:
    shape = draw.choices(SHAPES, WEIGHTS)[0]
    generator = np.random.default_rng(draw.randrange(10**9))
    dtype = draw.choices(["float32", "float64", "int64", "bool"], [3, 6, 1, 1])[0]
    array = np.asarray(generator.standard_normal(shape))
    if special and dtype.startswith("float") and array.size:
        places = generator.random(shape) < 0.3
        array = np.where(places, generator.choice(SPECIAL, shape), array)
    if dtype == "int64":
        array = np.round(3 * array)
    return np.asarray(array > 0 if dtype == "bool" else array).astype(dtype)


def draw_statement(draw: random.Random, values: list) -> Statement:
    table = draw.choices([UNARY, BINARY, ALONG, VIEWS, WRITES], [5, 5, 3, 4, 3])[0]
    recent = [draw.choice([len(values) - 1, draw.randrange(len(values))]) for _ in range(2)]
    if draw.random() < 0.5:  # operands that fit
        fitting = [i for i, (x, _) in enumerate(values) if x.shape == values[recent[0]][0].shape]
        recent[1] = draw.choice(fitting)
    operands = recent if table in (BINARY, WRITES) else recent[:1]
    ndim = values[operands[0]][0].ndim
    options = (draw.randrange(-max(ndim, 1), max(ndim, 1)), draw.random() < 0.5) if table in (ALONG, VIEWS) else ()
    name = draw.choice(list(table))
    may_view = table is VIEWS or name in ("flatten", "reshape_as", "expand_as")  # under no_grad they are PyTorch's own thing
    return Statement(table, name, operands, options, may_view or draw.random() > 0.08)


def attempt(statement: Statement, library: tuple, values: list) -> tuple[Any, Exception | None]:
    m, functional = library
    try:
        with m.set_grad_enabled(statement.with_grad):
            return statement.table[statement.name](m, functional, *values, *statement.options), None
    except (RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError, NotImplementedError) as error:
        return None, error


def compare(name: str, ours: Any, theirs: Any, tolerance: float, floor: float = 1e-30) -> None:
    got, wanted = ours.detach().numpy(), theirs.numpy(force=True)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        raise Different(f"{name}: {got.dtype} {got.shape} here, {wanted.dtype} {wanted.shape} in PyTorch")
    if ours.requires_grad != theirs.requires_grad:
        raise Different(f"{name}: requires_grad is {ours.requires_grad} here, {theirs.requires_grad} in PyTorch")
    if got.dtype.kind != "f":
        if not np.array_equal(got, wanted):
            raise Different(f"{name}: {got.tolist()} here, {wanted.tolist()} in PyTorch")
        return
    scale = np.abs(wanted, where=np.isfinite(wanted), out=np.zeros_like(wanted)).max(initial=0)
    with np.errstate(all="ignore"):
        same = np.isclose(got, wanted, rtol=tolerance, atol=tolerance * max(scale, floor), equal_nan=True)
    if not same.all():
        raise Different(f"{name}: {got.tolist()} here, {wanted.tolist()} in PyTorch")


def is_refusal(error: Exception | None, refusals: tuple = REFUSALS) -> bool:
    return error is not None and any(words in str(error) for words in refusals)


def run(seed: int, statements: int = 12) -> Outcome:
    """One program; `Different` if the libraries disagree."""
    draw, outcome = random.Random(seed), Outcome()
    special, single, values, leaves = draw.random() < 0.25, False, [], []
    for _ in range(draw.randint(2, 5)):
        array = draw_array(draw, special)
        learns = array.dtype.kind == "f" and draw.random() < 0.6
        pair = mg.tensor(array, requires_grad=learns), torch.tensor(array, requires_grad=learns)
        values.append(pair)
        single = single or array.dtype == np.float32
        if learns:
            leaves.append(pair)
        outcome.program.append(f"v{len(values) - 1} = {array.dtype}{array.shape}{' learns' if learns else ''}: {array.tolist()}")
    for _ in range(statements):
        statement = draw_statement(draw, values)
        outcome.program.append(f"v{len(values)} = {statement}")
        ours, our_error = attempt(statement, OURS, [values[i][0] for i in statement.operands])
        if is_refusal(our_error):
            outcome.kind = "refused here"
            outcome.program.pop()
            continue
        theirs, their_error = attempt(statement, THEIRS, [values[i][1] for i in statement.operands])
        if our_error is None and is_refusal(their_error, REFUSED_THERE):
            outcome.kind = "refused there"
            return outcome
        if (our_error is None) != (their_error is None):
            raise Different(f"{statement}: {our_error!r:.200} here, {their_error!r:.200} in PyTorch\n" + "\n".join(outcome.program))
        if our_error is not None:
            outcome.program.pop()
            continue
        values.append((ours, theirs))
        single = single or ours.dtype == mg.float32
        for i, pair in enumerate(values):  # also those that share memory
            try:
                compare(f"v{i} after {statement}", *pair, 2e-4 if single else 1e-9)
            except Different as difference:
                raise Different(f"{difference}\n" + "\n".join(outcome.program)) from None
        if not bounded(theirs):
            break
        if special and statement.name in ("causal attention", "gelu tanh"):  # no NaN from the future, no inf - inf: on purpose
            break
    go_back(draw, values, leaves, outcome, 5e-3 if single else 1e-6)
    return outcome


def bounded(x: Any) -> bool:
    """Is it small in size and value, so that what follows can be compared?"""
    if x.numel() > 2000:
        return False
    finite = x.detach()[x.detach().isfinite()] if x.dtype.is_floating_point else x
    return finite.numel() == 0 or float(finite.abs().max() if finite.dtype != torch.bool else 0) < 1e8


def go_back(draw: random.Random, values: list, leaves: list, outcome: Outcome, tolerance: float) -> None:
    """Backward from a random weighting of some values, of first or second order."""
    wanted = [i for i, (y, x) in enumerate(values) if x.requires_grad and x.numel() and y.grad_fn is not None]
    if not wanted or not leaves:
        return
    chosen = sorted({wanted[-1], draw.choice(wanted)})
    second = draw.random() < 0.25
    seed = draw.randrange(10**9)

    def gradients(library: tuple, side: int) -> tuple[list, Exception | None]:
        m, generator = library[0], np.random.default_rng(seed)
        leaves_here = [pair[side] for pair in leaves]
        grad = torch.autograd.grad if m is torch else mg.grad
        try:
            outputs = [values[i][side] for i in chosen]
            upstream = [m.tensor(np.asarray(generator.standard_normal(tuple(y.shape))), dtype=y.dtype) for y in outputs]
            first = grad(outputs, leaves_here, upstream, create_graph=second, allow_unused=True)
            if not second:
                return list(first), None
            total = sum((g * m.tensor(np.asarray(generator.standard_normal(tuple(g.shape))), dtype=g.dtype)).sum().double()
                        for g in first if g is not None and g.requires_grad)
            if isinstance(total, int) or not total.requires_grad:
                return [None if g is None else g.detach() for g in first], None
            return [g.detach() if g is not None else None for g in (*first, *grad(total, leaves_here, allow_unused=True))], None
        except RuntimeError as error:
            return [], error

    ours, our_error = gradients(OURS, 0)
    theirs, their_error = gradients(THEIRS, 1)
    program = "\n".join([*outcome.program, f"backward from {[f'v{i}' for i in chosen]}, {'second' if second else 'first'} order"])
    if is_refusal(our_error):
        outcome.kind = "refused here"
    elif is_refusal(their_error, REFUSED_THERE):
        outcome.kind = "refused there"
    elif (our_error is None) != (their_error is None):
        raise Different(f"backward: {our_error!r:.300} here, {their_error!r:.300} in PyTorch\n{program}")
    elif our_error is None:
        for i, (got, expected) in enumerate(zip(ours, theirs)):
            if got is None or expected is None:  # zero and unused are the same
                present = expected if got is None else got
                if present is not None and np.any(np.asarray(present.detach().tolist()) != 0):
                    raise Different(f"gradient {i} is {got} here, {expected} in PyTorch\n{program}")
                continue
            try:
                compare(f"gradient {i}", got.detach(), expected.detach(), tolerance, floor=1.0)
            except Different as difference:
                raise Different(f"{difference}\n{program}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--statements", type=int, default=12)
    parser.add_argument("--programs", type=int, default=10**9, help="at most so many")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    end, seed, outcomes = time.time() + 60 * options.minutes, options.seed, Counter()
    while time.time() < end and seed < options.seed + options.programs:
        try:
            outcomes[run(seed, options.statements).kind] += 1
        except Different as difference:
            outcomes["DIFFERENT"] += 1
            print(f"--- seed {seed}\n{difference}", flush=True)
        seed += 1
    for outcome, count in outcomes.most_common():
        print(f"{count:7d} {outcome}")
    sys.exit(outcomes["DIFFERENT"] > 0)


if __name__ == "__main__":
    main()
