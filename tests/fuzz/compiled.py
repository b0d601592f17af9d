"""Random training steps, plain and compiled: the same bits, or a refusal that says why.

    python tests/fuzz/compiled.py [--minutes 30] [--seed 0] [--threads 3]

A `World` is a small network with everything that a step may touch, and a step, all drawn from a seed: what it computes, how
often it calls backward, where gradients are cleared, whether an optimizer steps inside, in which precisions. Two worlds with
the same seed run in parallel, one with the plain and one with the compiled step; between calls, events change something or
keep a reference. After each call all results, gradients and parameters must have the same bits. Sizes are below and above
32 kB, from which on a captured step reuses memory. A short form is tests/minigrad/test_fuzz.py.
"""
import contextlib
import gc
import pathlib
import random
import sys
import threading
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = map(str, (pathlib.Path(__file__).parents[2], pathlib.Path(__file__).parents[1]))

import minigrad as mg
import nn
import nn.functional as F
from fuzz.searching import parser, search
from nn.position import rotate, rotation

UNARY = [
    lambda x: x.tanh(), lambda x: F.gelu(x), lambda x: x.sigmoid(), lambda x: x.relu(), lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0), lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x.cumsum(0) * 0.1, lambda x: -x,
    lambda x: x.flip(1) * 2, lambda x: x[:, ::-1][:, ::-1], lambda x: x.sort(-1).values, lambda x: x * x * 0.1,
    lambda x: x.clamp(-1, 1), lambda x: x.abs().sqrt(), lambda x: F.pad(x, (1, 0))[:, 1:],
    lambda x: x - x.mean(0), lambda x: x / (x.var(1, keepdim=True) + 1), lambda x: mg.where(x > 0, x, x.exp() - 1),
    lambda x: x.masked_fill(x > 1, 0.5),
    lambda x: x.gather(1, x.argsort(1)), lambda x: x.reshape(-1).reshape(x.shape), lambda x: x.topk(2, 1).values.sum(1, True) + x,
    lambda x: x.detach() * 0.5 + x, lambda x: mg.cat([x[:, 1:], x[:, :1]], 1), lambda x: x.clone(), lambda x: x.T.contiguous().T,
    lambda x: F.rms_norm(x, x.shape[-1:]), lambda x: x.tril() + x.triu(1),
    lambda x: x.scatter_add(1, x.argsort(1), x * 0.5), lambda x: rotate(x) * 0.5,
    lambda x: F.packed_attention(mg.cat([x, x, x], 1)[None], 2, True, rotation=rotation(len(x), x.shape[1] // 2))[0]
    if x.shape[1] % 4 == 0 else x,
]  # fmt: skip
DRAWING = [
    lambda x: F.dropout(x, 0.3), lambda x: x + mg.randn_like(x) * 0.1, lambda x: F.add_dropped(x, x * x * 0.1, 0.3),
    lambda x: F.packed_attention(mg.cat([x, x, x], 1)[None], 2, True, dropout_p=0.3)[0],
]
BINARY = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b.abs() + 1), lambda a, b: mg.maximum(a, b),
    lambda a, b: mg.where(a > b, a, b * 0.5), lambda a, b: (a @ b.T) @ b * 0.01, lambda a, b: mg.einsum("ij,kj->ik", a, b) @ b * 0.01,
    lambda a, b: F.scaled_dot_product_attention(a, b, a, is_causal=True), lambda a, b: mg.stack([a, b]).sum(0),
    lambda a, b: F.swiglu(a, b),
]  # fmt: skip


def muon_and_adamw(parameters: list) -> nn.optim.Joined:
    matrices, others = [p for p in parameters if p.ndim == 2], [p for p in parameters if p.ndim != 2]
    return nn.optim.Joined([nn.optim.Muon(matrices, lr=1e-2), nn.optim.AdamW(others, lr=1e-2)], max_grad_norm=1.0)


class World:
    """Everything that a step reads and changes, drawn from a seed."""

    def __init__(self, seed: int):
        draw = random.Random(seed)
        mg.manual_seed(seed)
        self.rows, self.width = draw.choice([(3, 8), (5, 16), (96, 96), (128, 128), (70, 130)])
        self.draws = draw.random() < 0.4
        self.layer = nn.Sequential(nn.Linear(self.width, self.width), nn.LayerNorm(self.width), nn.Dropout(0.25 * self.draws))
        self.parameters = [nn.Parameter(mg.randn(self.rows, self.width) * 0.5) for _ in range(3)]
        self.parameters += list(self.layer.parameters())
        self.constants = [mg.randn(self.rows, self.width), mg.randn(self.width)]
        self.ids = mg.randint(0, self.rows, (self.rows,))
        self.array = np.full(self.width, 1.5, np.float32)
        self.optimizer = draw.choice([
            lambda p: nn.optim.AdamW(p, lr=1e-2, max_grad_norm=1.0), lambda p: nn.optim.SGD(p, lr=1e-2, momentum=0.9),
            lambda p: nn.optim.Adam(p, lr=1e-3), muon_and_adamw,
        ])(self.parameters)  # fmt: skip
        self.formulas = [self._draw_formula(draw) for _ in range(draw.choice([1, 1, 2, 3]))]
        self.clears = draw.choice(["start", "end", "between", "outside", "never", "by hand"])
        self.steps = draw.choice(["inside", "outside", "never"])
        self.returns = draw.choice(["loss", "all", "nothing"])
        self.precisions = [draw.random() < 0.5 for _ in range(2)]  # is the loss computed under autocast, does the optimizer step so?
        self.kept = []  # references that somebody keeps

    def _draw_formula(self, draw: random.Random) -> list[tuple]:
        """Statements (function, operands as indices of earlier values)."""
        given = 2 + 3 + 2  # input, layer of it, three parameters, constants
        formula = []
        for n in range(draw.randint(2, 9)):
            known = given + n
            if draw.random() < 0.6:
                formula.append((draw.choice(UNARY + DRAWING * self.draws), [draw.choice([known - 1, draw.randrange(known)])]))
            else:
                formula.append((draw.choice(BINARY), [known - 1, draw.randrange(known)]))
        return formula

    def loss(self, x: mg.Tensor, formula: list[tuple]) -> mg.Tensor:
        values = [x, self.layer(x)[self.ids % x.shape[0]], *self.parameters[:3], *self.constants]
        values = [v if v.ndim == 2 else v.expand(x.shape[0], self.width) for v in values]
        values = [v[: x.shape[0]] for v in values]
        for function, operands in formula:
            values.append(function(*[values[i] for i in operands]))
        y = values[-1] * self.array + self.parameters[1][: x.shape[0]]
        return (y * y).mean() + y.sum() * 1e-3

    def step(self, x: mg.Tensor):
        if self.clears == "start":
            self.optimizer.zero_grad()
        losses = []
        for formula in self.formulas:
            if self.clears == "by hand":
                for p in self.parameters[:2]:
                    p.grad = None
            with mg.autocast("cpu", enabled=self.precisions[0]):
                losses.append(self.loss(x, formula))
            losses[-1].backward()
            if self.clears == "between":
                self.optimizer.zero_grad()
        if self.steps == "inside":
            with mg.autocast("cpu", enabled=self.precisions[1]):
                self.optimizer.step()
        if self.clears == "end":
            self.optimizer.zero_grad()
        return {"loss": losses[0], "all": (*losses, losses[0] * x), "nothing": None}[self.returns]

    def state(self) -> list:
        return [x.detach().numpy().copy() for x in self.parameters] + [
            None if x.grad is None else x.grad.numpy().copy() for x in self.parameters] + [
            np.array(x) for x in self.kept]  # fmt: skip


def hold_gradients(world: World) -> None:
    world.kept += [p.grad.array for p in world.parameters if p.grad is not None][:2]


def hold_rows(world: World) -> None:
    world.kept += [p.grad.array[0] for p in world.parameters if p.grad is not None][:2]


def fill_memory(world: World) -> None:
    gc.collect()
    for n in range(20):
        np.full(world.rows * world.width + n, np.nan, np.float32)


def set_optimizer(world: World) -> None:
    world.optimizer = nn.optim.SGD(world.parameters, lr=1e-3)


def scale_gradients(world: World) -> None:
    for p in world.parameters:
        if p.grad is not None:
            p.grad *= 0.5


EVENTS = [
    hold_gradients, hold_rows, fill_memory, set_optimizer, scale_gradients, lambda world: world.kept.clear(),
    lambda world: world.layer.eval(), lambda world: world.layer.train(),
    lambda world: setattr(world.layer[2], "p", 0.6 * world.draws), lambda world: setattr(world.layer[1], "eps", 1e-2),
    lambda world: setattr(world.layer[0], "bias", nn.Parameter(mg.ones(world.width))),
    lambda world: world.parameters[0].requires_grad_(False), lambda world: world.parameters[0].requires_grad_(True),
    lambda world: world.parameters[1].data.fill_(0.3), lambda world: setattr(world.constants[0], "data", -world.constants[0].data),
    lambda world: world.ids.copy_(world.ids.sort().values), lambda world: world.array.fill(0.7), lambda world: world.optimizer.zero_grad(),
    lambda world: world.optimizer.zero_grad(set_to_none=False), lambda world: world.optimizer.param_groups[0].update(lr=1e-3),
    lambda world: setattr(world.parameters[2], "grad", mg.ones(world.rows, world.width)),
    lambda world: world.precisions.reverse(), lambda world: setattr(world, "clears", "start"),
    lambda world: setattr(world, "returns", "all"),
    lambda world: setattr(world, "array", np.full(world.width, 0.2, np.float32)),
    lambda world: setattr(world, "constants", world.constants[::-1][::-1]), lambda world: mg.set_num_threads(1),
    lambda world: mg.set_num_threads(2) if mg.get_num_threads() < 2 and THREADS > 1 else None,
]  # fmt: skip
HOOKS = [  # which end the comparison, as the compiled step is refused
    lambda world: world.parameters[2].register_hook(lambda gradient: gradient * 2),
    lambda world: world.layer[0].register_forward_hook(lambda module, args, output: output * 2),
    lambda world: world.layer[1].register_full_backward_hook(lambda module, given, arrived: None),
]  # fmt: skip
THREADS = mg.get_num_threads()


def flat(results) -> list:
    return [] if results is None else [x.detach().numpy().copy() for x in (results if isinstance(results, tuple) else (results,))]


def live(seed: int, calls: int = 12, turn: Any = None) -> str:
    """Run two worlds: 'same', or 'refused: why'. AssertionError if they differ."""
    draw = random.Random(seed + 10**6)
    with turn or contextlib.nullcontext():
        plain, compiled = World(seed), World(seed)
    step, is_alone = mg.compile(compiled.step), plain.draws  # threads draw from one generator, and a refusal sets it back
    for call in range(calls):
        rows = draw.choice([plain.rows, plain.rows, plain.rows, draw.randint(2, plain.rows)])
        values = np.random.default_rng(draw.randrange(10**6)).standard_normal((rows, plain.width), np.float32)
        as_laid_out = draw.choice([lambda a: a, lambda a: a, np.asfortranarray, lambda a: np.flip(np.flip(a, 1).copy(), 1)])
        x = mg.from_numpy(as_laid_out(values))
        seeded = mg.manual_seed if plain.draws else (lambda seed: None)
        with turn if turn and is_alone else contextlib.nullcontext():
            seeded(call)
            expected = plain.step(x)
            seeded(call)
            try:
                got = step(x)
            except RuntimeError as error:
                if not str(error).startswith("compile:"):
                    raise
                return f"refused: {error}"[:90]
        for world in (plain, compiled):
            if world.steps == "outside":
                world.optimizer.step()
            if world.clears == "outside":
                world.optimizer.zero_grad()
        for a, b in zip(flat(expected) + plain.state(), flat(got) + compiled.state(), strict=True):
            assert (a is None) == (b is None), f"seed {seed}, call {call}: one gradient is None"
            if a is not None:
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, call {call}")
        del expected, got
        for _ in range(draw.choice([0, 0, 1, 1, 2])):
            event = draw.choice(EVENTS if draw.random() < 0.98 else HOOKS)
            event(plain), event(compiled)
            is_alone |= event in HOOKS
        if draw.random() < 0.1:
            step.forget()
        if draw.random() < 0.1:
            step = mg.compile(compiled.step)  # the previous one is freed with its memory
    mg.set_num_threads(THREADS)
    return "same"


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--threads", type=int, default=3, help="worlds at once")
    options, lock = flags.parse_args(), threading.Lock()
    sys.exit(search(lambda seed: live(seed, turn=lock), options, options.threads))
