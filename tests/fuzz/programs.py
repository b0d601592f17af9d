"""Random programs, run here and in PyTorch: the same values, dtypes and gradients, or an error in both.

    python tests/fuzz/programs.py [--minutes 30] [--seed 0] [--statements 12]

A program is a list of statements drawn from a seed: functions of one, two or more tensors, views, writes in place, detach,
no_grad and casts, on leaves and constants of all dtypes and shapes (0-d and empty ones too), some with NaN, infinities,
zeros and equal elements. At the end, backward runs from a random weighting of some values, in some programs with
create_graph and a second time. Three things are counted but are no differences: what this library refuses with a line in
REFUSALS and PyTorch computes; what PyTorch refuses because it saved what this library recomputes; and differences no larger
than noise in the last digits of each result causes in PyTorch, by cancellation or a jump. A short form is
tests/minigrad/test_fuzz.py.
"""
import math
import pathlib
import random
import re
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = map(str, (pathlib.Path(__file__).parents[2], pathlib.Path(__file__).parents[1]))

import torch

import minigrad as mg
from fuzz.searching import parser, search
from nn import functional as F

OURS, THEIRS = (mg, F), (torch, torch.nn.functional)


def functions(operands: str, table: str) -> dict[str, Callable]:
    """Expressions, separated by two blanks, as functions of a library m, its functional F and the operands, by their text."""
    return {text: eval(f"lambda m, F, {operands}: {text}", {"set_item": set_item})
            for text in re.split(r"\s{2,}", table.strip())}


def set_item(x, index, value):
    x[index] = value
    return x


def has(text: str, *words: str) -> bool:
    return any(word in text for word in words)


UNARY = functions("x", """
    x.abs()  x.neg()  x.exp()  x.log()  x.log1p()  x.sqrt()  x.rsqrt()  x.reciprocal()  x.sin()  x.cos()
    x.tanh()  x.sigmoid()  x.erf()  x.relu()  x.square()  x.floor()  x.ceil()  x.round()  x.trunc()  x.sign()
    x.clone()  x.isnan()  x.isfinite()  F.gelu(x)  F.gelu(x, approximate="tanh")  x.unsqueeze(0).flatten()  F.silu(x)
    F.softplus(x)  F.leaky_relu(x, 0.1)  F.logsigmoid(x)  x.clamp(-0.5, 1.5)  x * 1.5  x + 2  1 - x  2.0 / x  x**3
    x**0.5  2.0**x  x > 0  x.float()  x.double()  (x > 0).long()  ~(x > 0)  x.detach()  x.sum()  x.mean()  x.max()
""")
BINARY = functions("a, b", """
    a + b  a - b  a * b  a / b  a**b  m.maximum(a, b)  m.minimum(a, b)  m.remainder(a, b)
    m.floor_divide(a, b)  m.where(a > b, a, b)  a.masked_fill(b > 0, 2)  a == b  a < b  a @ b
    a @ b.transpose(-1, -2)  m.cat([a, b], 0)  m.stack([a, b], -1)  F.mse_loss(a, b.expand(a.shape))
    F.linear(a, b.reshape(-1, b.shape[-1]))  F.scaled_dot_product_attention(a, b, b)
    F.scaled_dot_product_attention(a, a, b, is_causal=True)  a.expand_as(b)
    a.reshape(b.shape)  a.to("cpu", b.dtype)  a.type_as(b)  m.addcmul(a, b, a, value=3)
    m.addcdiv(a, b, a, value=2.0)  a.scatter(0, b.argsort(dim=0, stable=True), b)
""")  # PyTorch's mse_loss expands first, so 0-d tensors keep their dtype
ALONG = functions("x, dim, keep", """
    x.sum(dim, keepdim=keep)  x.mean(dim, keepdim=keep)  x.var(dim, correction=int(keep))  x.std(dim, keepdim=keep)
    x.amax(dim, keepdim=keep)  x.amin(dim, keepdim=keep)  x.max(dim, keepdim=keep)[0]  x.argmax(dim, keepdim=keep)
    x.logsumexp(dim, keepdim=keep)  x.norm(2 if keep else 1, dim)  x.cumsum(dim)
    (x * 1.0).softmax(dim)  (x * 1.0).log_softmax(dim)  F.layer_norm(x, tuple(x.shape[-1:]))
    x.isnan().any(dim, keepdim=keep)  x.sort(dim=dim, descending=keep, stable=True)[0]  x.topk(1, dim)[0]
    x.gather(dim, x.argsort(dim=dim, stable=True))  x.scatter(dim, x.argmax(dim, keepdim=True), -2)
    x.scatter(dim, x.argsort(dim=dim, stable=True), x * 2)  x.flip(dim)
    x.repeat((2,) + (1,) * (x.ndim - 1)) if x.ndim else x  x.tril() if keep else x.triu()
    F.pad(x, (1, 0) if keep else (-1, 2))
""")  # with an axis and an option; PyTorch refuses the softmax of integers, unless it is empty
VIEWS = functions("x, dim, keep", """
    x[0]  x[..., -1]  x[: max(1, x.shape[0] - 1)] if keep else x[1:]  x[..., ::2]  x.transpose(0, dim)
    x.t() if x.ndim <= 2 else x.permute(*reversed(range(x.ndim)))  x.reshape(-1)  x.unsqueeze(dim)  x.squeeze()
    x.chunk(2, dim)[-1].clone()  x.diagonal()  x.expand((2, *x.shape))  x[m.tensor([0, 0])]
    x[x > 0]  m.from_dlpack(x.detach())
""")
WRITES = functions("x, y", """
    x.add_(y)  x.sub_(y, alpha=2)  x.mul_(y)  x.div_(y)  x.copy_(y)  x.zero_()  x.fill_(0.25)  set_item(x, 0, y)
    set_item(x, (..., -1), y)  set_item(x, slice(0, 2), 1.5)  set_item(x, x > 0, 0.5)  x.__iadd__(1.0)
    x.addcmul_(y, y, value=-2)  x.masked_fill_(y > 0, 2)
    x.scatter_(0, y.argsort(dim=0, stable=True), y.clone())  x.clamp_(-0.5, 1.5)  x.sigmoid_()  x.__ipow__(3)
    x.exp_().relu_()  x.__imul__(y)
""")  # of y into x, in place; PyTorch reads y while it writes to x, and relu_ of NaN differs on purpose

REFUSED_THERE = (  # what PyTorch may refuse and this library computes
    "not implemented for", "not supported", "could not infer output dtype", "only support floating", "a leaf Variable",
    "derivative for", "Autograd not support dtype", "inputs not supported", "Expected a floating point",
    "does not support bool", "modified by an inplace", "refer to a single memory location", "is a view and", "length must be non-negative",
    "Integer division with addcdiv", # addcdiv
    "can't be cast to the desired output type",  # the backward of addcmul
)  # fmt: skip
REFUSALS = (  # what this library may refuse and PyTorch computes
    "its memory was changed by an inplace operation on another tensor",
    "modified by an inplace operation",
    "an index occurs twice",
    "this memory cannot be written to",
    "sizes must match except along dim",  # cat of (0,) with others, which PyTorch leaves out
    "expected two float32 or two float64 arrays", "matmul: expected both of the same dtype",  # integers, empty operands
    "expected float32 or float64 throughout",  # and attention
    "Integers to negative integer powers",  # 0 in PyTorch
    "scatter: expected an index with",  # of no elements, in any shape
    "scatter: expected src of",  # another dtype
    "scaled_dot_product_attention: expected query",  # fewer values than keys, unseen without queries
)
APART = (  # differs on purpose if an operand is NaN or infinite; or, through cancellation, very large
    "attention(",  # here no NaN comes from the future, and a row with NaN is all NaN
    "gelu(",  # the limits here, inf - inf or 0 * inf in PyTorch, which also loses digits below -3
    ".sign(", "x.relu(",  # the sign of NaN is NaN here, 0 in PyTorch; relu at NaN has gradient 0 here, 1 in PyTorch
)
VIEW_OR_COPY = "flatten(", "x.reshape(", "a.reshape("  # depending on the layout, which is up to each library


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


class Different(AssertionError):
    """The two libraries disagree, by `difference` from what PyTorch `wanted`; None if it cannot be measured."""

    def __init__(self, message: str, difference: np.ndarray | None = None, wanted: np.ndarray | None = None):
        super().__init__(message)
        self.difference, self.wanted = difference, wanted


SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (3, 3), (2, 3, 4), (1, 3, 1), (0,), (0, 3), (2, 0)]
WEIGHTS = [2, 1, 3, 4, 2, 4, 3, 1, 1, 1, 1]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, 0.0, 1.0, -1.0, 1e15, 1e-15]  # whose squares stay in the range of float32


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
    if draw.random() < 0.5:  # with fitting shapes
        fitting = [i for i, (x, _) in enumerate(values) if x.shape == values[recent[0]][0].shape]
        recent[1] = draw.choice(fitting)
    operands = recent if table in (BINARY, WRITES) else recent[:1]
    ndim = values[operands[0]][0].ndim
    options = (draw.randrange(-max(ndim, 1), max(ndim, 1)), draw.random() < 0.5) if table in (ALONG, VIEWS) else ()
    name = draw.choice(list(table))
    may_view = table is VIEWS or has(name, *VIEW_OR_COPY, "expand_as(")  # views under no_grad are special in PyTorch
    return Statement(table, name, operands, options, may_view or draw.random() > 0.08)


def attempt(statement: Statement, library: tuple, values: list) -> tuple[Any, Exception | None]:
    m, functional = library
    try:
        with m.set_grad_enabled(statement.with_grad):
            return statement.table[statement.name](m, functional, *values, *statement.options), None
    except (RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError, NotImplementedError) as error:
        return None, error


def compare(name: str, ours: Any, theirs: Any, tolerance: float, floor: float = 1e-30, not_compared: Any = False) -> None:
    """`Different` if they differ anywhere except where `not_compared`."""
    got, wanted = ours.detach().numpy(), theirs.numpy(force=True)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        raise Different(f"{name}: {got.dtype} {got.shape} here, {wanted.dtype} {wanted.shape} in PyTorch")
    if ours.requires_grad != theirs.requires_grad and got.dtype.kind == "f" and got.size and is_current(ours):
        raise Different(f"{name}: requires_grad is {ours.requires_grad} here, {theirs.requires_grad} in PyTorch")
    if got.dtype.kind != "f":
        got, wanted, tolerance, floor = got.astype(float), wanted.astype(float), 0, 0
    scale = np.abs(wanted, where=np.isfinite(wanted), out=np.zeros_like(wanted)).max(initial=0)
    with np.errstate(all="ignore"):
        same = np.isclose(got, wanted, rtol=tolerance, atol=tolerance * max(scale, floor), equal_nan=True)
        same |= not_compared
        if not same.all():
            difference = np.where(same, 0.0, apart(got, wanted))
            raise Different(f"{name}: {got.tolist()} here, {wanted.tolist()} in PyTorch", difference, wanted)


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|, infinite where only one is NaN"""
    with np.errstate(all="ignore"):
        return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.nan_to_num(abs(a - b), nan=np.inf))


def is_current(x: mg.Tensor) -> bool:
    """Can it be used? Not if it was written to through another tensor: its place on the tape is meaningless then."""
    try:
        x.clone()
    except RuntimeError as error:
        return not is_refusal(error)
    return True


def is_refusal(error: Exception | None, refusals: tuple = REFUSALS) -> bool:
    return error is not None and has(str(error), *refusals)


@dataclass
class Program:
    """What was drawn: arrays, the statements that both libraries ran, and where backward starts."""

    arrays: list[tuple[np.ndarray, bool]] = field(default_factory=list)  # and whether it requires a gradient
    statements: list[Statement] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    is_second_order: bool = False
    seed: int = 0  # of the upstream gradients

    def __str__(self):
        lines = [f"{a.dtype}{a.shape}{' learns' if learns else ''}: {a.tolist()}" for a, learns in self.arrays]
        lines = [f"v{i} = {line}" for i, line in enumerate([*lines, *self.statements])]
        order = "second" if self.is_second_order else "first"
        return "\n".join(lines + [f"backward from v{i}, {order} order" for i in self.chosen])

    def leaves(self, library: tuple) -> list:
        return [library[0].tensor(array, requires_grad=learns) for array, learns in self.arrays]

    def gradients(self, library: tuple, values: list) -> tuple[list, Exception | None]:
        """For all leaves that require one: first order, or first and second."""
        m = library[0]
        leaves = [x for x, (_, learns) in zip(values, self.arrays) if learns]
        grad = torch.autograd.grad if m is torch else mg.grad

        def weights(x, number):
            generator = np.random.default_rng((self.seed, number))
            return m.tensor(np.asarray(generator.standard_normal(tuple(x.shape))), dtype=x.dtype)

        try:
            outputs = [values[i] for i in self.chosen]
            arriving = [weights(y, i) for i, y in zip(self.chosen, outputs)]
            found = grad(outputs, leaves, arriving, create_graph=self.is_second_order, allow_unused=True)
            if self.is_second_order:
                on_tape = [(i, g) for i, g in enumerate(found) if g is not None and g.requires_grad]
                terms = [(g * weights(g, i)).sum().double() for i, g in on_tape]
                if terms:
                    found = *found, *grad(sum(terms), leaves, allow_unused=True)
            return [None if g is None else g.detach() for g in found], None
        except RuntimeError as error:
            return [], error

    def with_noise(self, seed: int) -> tuple[list, list]:
        """Values and gradients in PyTorch with noise in the last digits of each result."""
        generator, values = np.random.default_rng(seed), self.leaves(THEIRS)
        for number in range(-len(values), len(self.statements)):
            if number >= 0:
                statement = self.statements[number]
                values.append(attempt(statement, THEIRS, [values[i] for i in statement.operands])[0])
            x = values[number + len(self.arrays)]
            if x is not None and x.dtype.is_floating_point and 0 not in x.stride():
                size = 1e-6 if x.dtype == torch.float32 else 1e-14  # of the largest element, as log_softmax near 0 is only that accurate
                finite = x.data[x.data.isfinite()]
                size *= float(finite.abs().max()) if finite.numel() else 0.0
                x.data.add_((x.data != 0) * torch.tensor(size * generator.standard_normal(tuple(x.shape))))
        return values, self.gradients(THEIRS, values)[0] if self.chosen else []

    def is_sensitive(self, error: Different, pick: Callable) -> bool:
        """Is the difference no larger than noise causes in PyTorch? `pick` finds the value in (values, gradients)."""
        if error.difference is None:
            return False
        try:
            runs = [pick(*self.with_noise(seed)).numpy(force=True).astype(float) for seed in range(8)]
        except (RuntimeError, IndexError, AttributeError, TypeError):  # a mask picks other elements, and shapes differ
            return True
        if any(x.shape != error.wanted.shape for x in runs):
            return True
        spread = np.max([apart(x, error.wanted) for x in runs], axis=0)
        return bool((error.difference <= 100 * spread).all())


def run(seed: int, statements: int = 12) -> str:
    """Run one program: 'same', or why not everything was compared; `Different` if the libraries disagree."""
    draw, program, kind = random.Random(seed), Program(), "same"
    special = draw.random() < 0.25
    for _ in range(draw.randint(2, 5)):
        array = draw_array(draw, special)
        program.arrays.append((array, array.dtype.kind == "f" and draw.random() < 0.6))
    values = list(zip(program.leaves(OURS), program.leaves(THEIRS)))
    for _ in range(statements):
        statement = draw_statement(draw, values)
        operands = [values[i] for i in statement.operands]
        if not is_comparable(statement, operands):
            continue
        ours, our_error = attempt(statement, OURS, [x for x, _ in operands])
        if is_refusal(our_error):
            kind = "refused here"
            continue
        theirs, their_error = attempt(statement, THEIRS, [x for _, x in operands])
        if our_error is None and is_refusal(their_error, REFUSED_THERE):
            return "refused there"
        if (our_error is None) != (their_error is None):
            raise Different(f"{statement}: {our_error!r:.200} here, {their_error!r:.200} in PyTorch\n{program}")
        if our_error is not None:
            continue
        program.statements.append(statement)
        values.append((ours, theirs))
        for i, pair in enumerate(values):  # including those that share memory
            try:
                compare(f"v{i} after {statement}", *pair, tolerance_of(values, 2e-4, 1e-9))
            except Different as error:
                if program.is_sensitive(error, lambda values, _, i=i: values[i]):
                    return "sensitive"
                raise Different(f"{error}\n{program}") from None
        if not bounded(theirs) or not same_zeros(ours, theirs):
            break
    outcome = go_back(draw, program, values)
    return kind if outcome == "same" else outcome


def tolerance_of(values: list, single: float, double: float) -> float:
    return single if any(x.dtype == mg.float32 for x, _ in values) else double


def is_comparable(statement: Statement, operands: list) -> bool:
    """Is there a single right answer?"""
    name, theirs = statement.name, [x for _, x in operands]
    if "attention(" in name and not all(x.numel() for x in theirs):  # PyTorch does not broadcast the leading axes of empty tensors
        return False
    if has(name, *APART):
        return all(bool((x.double().abs() < 1e6).all()) and not ("gelu(" in name and bool((x < -3).any()))
                   for x in theirs)
    if has(name, *VIEW_OR_COPY):
        return operands[0][0].array.flags.c_contiguous == theirs[0].is_contiguous()
    if has(name, "remainder(", "floor_divide(") and len(theirs) == 2 and any(x.is_floating_point() for x in theirs):
        try:  # near whole quotients they jump, or are nothing but rounding
            quotient = theirs[0].detach().double() / theirs[1].detach().double()
        except RuntimeError:  # shapes that do not fit
            return True
        return not bool(((quotient - quotient.round()).abs() < 1e-5).any())
    if "topk(" in name:  # which of equal elements is first may differ; for unique(), NaNs differ
        return theirs[0].unique().numel() == theirs[0].numel() and int(theirs[0].isnan().sum()) < 2
    if statement.table is WRITES and not theirs[0].is_floating_point():  # in PyTorch integers and booleans may require gradients then
        return not any(x.requires_grad for x in theirs)
    if statement.table is WRITES:  # from a part of itself: PyTorch may read what it has just written
        return operands[0][0] is operands[1][0] or not np.shares_memory(operands[0][0].array, operands[1][0].array)
    return True


def same_zeros(ours: mg.Tensor, theirs: torch.Tensor) -> bool:
    """Do zeros have the same sign? It depends on the order of a sum, and 1 / 0 depends on it."""
    got, wanted = ours.detach().numpy(), theirs.numpy(force=True)
    return got.dtype.kind != "f" or bool(((got != 0) | (np.signbit(got) == np.signbit(wanted))).all())


def is_finite(x: torch.Tensor) -> bool:
    return bool(x.isfinite().all())


def bounded(x: Any) -> bool:
    """Are size and values small enough to compare what follows?"""
    if x.numel() > 2000:
        return False
    finite = x.detach()[x.detach().isfinite()] if x.dtype.is_floating_point else x.detach()
    return finite.numel() == 0 or float(finite.abs().max() if finite.dtype != torch.bool else 0) < 1e8


def go_back(draw: random.Random, program: Program, values: list) -> str:
    """Backward from a random weighting of some values, of first or second order.

    Where PyTorch's gradient isn't finite, this library's may be: it selects, where PyTorch multiplies by a mask, and gets NaN
    from infinity * 0. The reverse is a difference, except in programs with a value that is NaN or infinite.
    """
    wanted = [i for i, (y, x) in enumerate(values) if x.requires_grad and x.numel() and y.grad_fn is not None]
    if not wanted or not any(learns for _, learns in program.arrays):
        return "same"
    program.chosen = sorted({wanted[-1], draw.choice(wanted)})
    program.is_second_order, program.seed = draw.random() < 0.25, draw.randrange(10**9)
    ours, our_error = program.gradients(OURS, [x for x, _ in values])
    if is_refusal(our_error):
        return "refused here"
    theirs, their_error = program.gradients(THEIRS, [x for _, x in values])
    if is_refusal(their_error, REFUSED_THERE):
        return "refused there"
    if our_error is not None or their_error is not None:
        raise Different(f"backward: {our_error!r:.300} here, {their_error!r:.300} in PyTorch\n{program}")
    all_finite = all(is_finite(x) for _, x in values)
    for i, (got, expected) in enumerate(zip(ours, theirs)):
        if got is None and expected is None:
            continue
        if expected is not None and expected._is_zerotensor():  # zeros without memory, whose numpy() may crash
            expected = torch.zeros(expected.shape, dtype=expected.dtype)
        got = mg.zeros_like(mg.tensor(expected.numpy(force=True))) if got is None else got  # None and zeros are the same
        expected = torch.zeros_like(torch.tensor(got.numpy())) if expected is None else expected
        is_compared = np.isfinite(expected.numpy(force=True)) & (all_finite | np.isfinite(got.numpy()))
        try:
            compare(f"gradient {i}", got, expected, tolerance_of(values, 5e-3, 1e-6), 1.0, ~is_compared)
        except Different as error:
            if program.is_sensitive(error, lambda _, gradients, i=i: gradients[i]):
                return "sensitive"
            raise Different(f"{error}\n{program}") from None
    return "same"


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--statements", type=int, default=12)
    options = flags.parse_args()
    warnings.simplefilter("ignore")
    sys.exit(search(lambda seed: run(seed, options.statements), options))
