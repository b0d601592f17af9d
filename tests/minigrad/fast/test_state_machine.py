"""One machine for the engine and compiled steps: two worlds live the same life, one with the plain and one with the compiled
step. After each call results, gradients, parameters, optimizers and what somebody holds have the same bits, or the step is
refused with nothing changed, or an error names the constant that has changed.

A world is a small network with all that a step may touch, drawn from a seed: what it computes, how often it calls backward,
where gradients are cleared, which optimizer steps, in which precisions. Sizes are below and above 32 kB, from which on a
captured step reuses memory. Longer: python -m pytest --long tests/minigrad/fast/test_state_machine.py
"""
import contextlib
import copy
import functools
import gc
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, reject, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import minigrad as mg
import nn
import nn.functional as F
from nn.position import rotate, rotation



class InMemoryOrder(mg.Function):
    """NumPy sums in memory order, so bits depend on the strides. What is kept for backward sometimes has no gradient."""

    @staticmethod
    def forward(ctx, x):
        if (x.numpy() > 2).any():
            ctx.is_large = True
        ctx.save_for_backward(x)
        return mg.from_numpy(np.asarray(np.add.reduce(x.numpy(), axis=None))), x * 2

    @staticmethod
    def backward(ctx, dsum, dtwice):
        (x,) = ctx.saved_tensors
        return x * 0 + (2 * dsum if hasattr(ctx, "is_large") else dsum) + 2 * dtwice


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
    lambda x: InMemoryOrder.apply(x)[1] * InMemoryOrder.apply(x.T * 2)[0] * 1e-2,
    lambda x: mg.grad((y := x.detach().requires_grad_()).sigmoid().square().sum(), y)[0] + x,
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
THREADS = mg.get_num_threads()
SHIFT = 0.5  # a global of the step


def joined(parameters: list) -> nn.optim.Joined:
    matrices, others = [p for p in parameters if p.ndim == 2], [p for p in parameters if p.ndim != 2]
    return nn.optim.Joined([nn.optim.Muon(matrices, lr=1e-2), nn.optim.AdamW(others, lr=1e-2)], max_grad_norm=1.0)


class Net(nn.Module):
    def __init__(self, width: int, p: float):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.Dropout(p))
        self.gain, self.gains = 1.0, [1.0]
        self.register_buffer("offset", mg.zeros(width))

    def forward(self, x):
        return self.layers(x) * self.gain * self.gains[0] + self.offset


class World:
    """Everything that a step reads and changes."""

    def __init__(self, seed: int):
        draw = random.Random(seed)
        mg.manual_seed(seed)
        self.rows, self.width = draw.choice([(3, 8), (3, 8), (5, 16), (5, 16), (96, 96), (70, 130)])
        self.net = Net(self.width, draw.choice([0.0, 0.25]))
        self.parameters = [nn.Parameter(mg.randn(self.rows, self.width) * 0.5) for _ in range(3)]
        everything = [*self.parameters, *self.net.parameters()]
        self.constants = [mg.randn(self.rows, self.width), mg.randn(self.width)]
        self.ids = mg.randint(0, self.rows, (self.rows,))
        self.array = np.full(self.width, 1.5, np.float32)
        make = draw.choice([
            lambda p: nn.optim.AdamW(p, lr=1e-2, max_grad_norm=1.0), lambda p: nn.optim.Adam(p, lr=1e-3), joined,
        ])  # fmt: skip
        self.optimizers = [make(everything), nn.optim.SGD(everything, lr=1e-2, momentum=0.9)]
        self.optimizer = self.optimizers[0]
        self.scheduler = nn.optim.lr_scheduler.StepLR(self.optimizers[1], 2)
        drawing = DRAWING * draw.choice([0, 0, 1])
        self.formulas = [self._draw_formula(draw, drawing) for _ in range(draw.choice([1, 1, 2, 3]))]
        self.clears = draw.choice(["start", "end", "between", "outside", "never", "by hand"])
        self.steps = draw.choice(["inside", "outside", "never"])
        self.returns = draw.choice(["loss", "all", "nothing"])
        self.precisions = [draw.random() < 0.3 for _ in range(2)]  # is the loss computed under autocast, does the optimizer step so?
        self.scale, self.config, self.mischief = 1.0, {"power": 2, "scales": [1.0]}, None
        self.calls, self.kept = 0, []  # references that somebody keeps

    def _draw_formula(self, draw: random.Random, drawing: list) -> list[tuple]:
        """Statements (function, operands as indices of earlier values)."""
        given, formula = 2 + 3 + 2, []  # the input, the net of it, parameters, constants
        for known in range(given, given + draw.randint(2, 7)):
            if draw.random() < 0.6:
                formula.append((draw.choice(UNARY + drawing), [draw.choice([known - 1, draw.randrange(known)])]))
            else:
                formula.append((draw.choice(BINARY), [known - 1, draw.randrange(known)]))
        return formula

    def loss(self, x: mg.Tensor, formula: list[tuple]) -> mg.Tensor:
        values = [x, self.net(x)[self.ids % x.shape[0]], *self.parameters, *self.constants]
        values = [v if v.ndim == 2 else v.expand(x.shape[0], self.width) for v in values]
        values = [v[: x.shape[0]] for v in values]
        for function, operands in formula:
            values.append(function(*[values[i] for i in operands]))
        y = values[-1] * self.array * self.scale + self.parameters[1][: x.shape[0]] * SHIFT
        return (abs(y) ** self.config["power"]).mean() * self.config["scales"][0] + y.sum() * 1e-3

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
            if mg.is_grad_enabled():
                losses[-1].backward()
            if self.clears == "between":
                self.optimizer.zero_grad()
        if self.steps == "inside":
            with mg.autocast("cpu", enabled=self.precisions[1]):
                self.optimizer.step()
            self.scheduler.step()
        if self.clears == "end":
            self.optimizer.zero_grad()
        if self.mischief:
            MISCHIEF[self.mischief](self, losses[0])
        if self.mischief == "returns a number":
            return 1.0
        return {"loss": losses[0], "all": (*losses, losses[0] * x), "nothing": None}[self.returns]

    def state(self) -> list:
        """All that a call may change, as arrays and text."""
        tensors = [*self.parameters, *self.net.parameters(), *self.net.buffers()]
        gradients = [x.node.grad if x.node is not None else None for x in tensors]  # not by `grad`, which makes a Tensor of it
        state = [repr(optimizer.param_groups and [{**group, "params": None} for group in optimizer.param_groups]) for optimizer in self.optimizers]
        moments = [value for optimizer in self.optimizers for own in optimizer.state.values() for value in own.values()]
        arrays = (*tensors, *gradients, *moments, *self.kept)
        return [None if x is None else np.array(x.array if isinstance(x, mg.Tensor) else x) for x in arrays] + [
            *state, self.scheduler.last_epoch, self.calls, self.config["power"], self.net.training, repr(mg.random.get_state())]  # fmt: skip

    def take(self, other: "World") -> None:
        """The other's numbers."""
        for mine, its in zip([*self.parameters, *self.net.parameters()], [*other.parameters, *other.net.parameters()]):
            mine.data[...] = its.array
            mine.grad = None if its.grad is None else its.grad.clone()
        for mine, its in zip(self.optimizers, other.optimizers):
            mine.load_state_dict(copy.deepcopy(its.state_dict()))
        self.scheduler.load_state_dict(other.scheduler.state_dict())


def write(world, name, value):
    setattr(world, name, value)


MISCHIEF = {  # what is refused, with nothing changed, after the step has done all else
    "reads a value": lambda world, loss: loss.item(),
    "decides": lambda world, loss: bool(loss > 0),
    "writes in place": lambda world, loss: world.constants[1].add_(1.0),
    "counts": lambda world, loss: write(world, "calls", world.calls + 1),
    "changes a dict": lambda world, loss: world.config.update(power=world.config["power"] + 1),
    "keeps a tensor": lambda world, loss: world.kept.append(loss),
    "changes a mode": lambda world, loss: world.net.eval() if world.net.training else world.net.train(),
    "reads a gradient": lambda world, loss: world.parameters[0].grad,
    "sets a rate": lambda world, loss: world.optimizer.param_groups[0].update(lr=0.3),
    "draws": lambda world, loss: mg.random.generator().random(),
    "returns a number": lambda world, loss: None,
    "leaves a mode": lambda world, loss: mg.set_grad_enabled(False),
}


def replace_bias(world):
    world.net.layers[0].bias = nn.Parameter(mg.ones(world.width))


def hold_gradients(world, part=lambda array: array):
    world.kept += [part(p.grad.array) for p in world.parameters if p.grad is not None][:2]


def scale_gradients(world):
    for p in world.parameters:
        if p.grad is not None:
            p.grad *= 0.5


def load_states(world):
    for optimizer in world.optimizers:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def fill_memory(world):
    gc.collect()
    for n in range(20):
        np.full(world.rows * world.width + n, np.nan, np.float32)


EVENTS = [  # followed
    hold_gradients, functools.partial(hold_gradients, part=lambda array: array[0]), fill_memory, scale_gradients, replace_bias, load_states,
    lambda world: world.kept.clear(), lambda world: world.net.eval(), lambda world: world.net.train(),
    lambda world: write(world.net.layers[1], "eps", 1e-2), lambda world: write(world.net, "gain", world.net.gain + 0.5),
    lambda world: write(world.net.layers[2], "p", 0.5), lambda world: world.net.offset.data.fill_(0.25),
    lambda world: write(world.net.layers, "extra", nn.Tanh()),
    lambda world: world.parameters[0].requires_grad_(False), lambda world: world.parameters[0].requires_grad_(True),
    lambda world: world.parameters[1].data.fill_(0.3), lambda world: write(world.parameters[2], "data", -world.parameters[2].data),
    lambda world: write(world.constants[0], "data", -world.constants[0].data), lambda world: world.constants[1].mul_(0.5),
    lambda world: world.ids.data.copy_(world.ids.sort().values), lambda world: world.array.fill(0.7),
    lambda world: write(world, "array", np.full(world.width, 0.2, np.float32)), lambda world: write(world, "scale", world.scale * 0.5),
    lambda world: write(world, "optimizer", world.optimizers[1]), lambda world: write(world, "optimizer", world.optimizers[0]),
    lambda world: world.optimizer.zero_grad(), lambda world: world.optimizer.zero_grad(set_to_none=False), lambda world: world.scheduler.step(),
    lambda world: world.optimizer.param_groups[0].update(lr=1e-3), lambda world: world.optimizer.step(),
    lambda world: write(world.parameters[2], "grad", mg.ones(world.rows, world.width)) if world.parameters[2].requires_grad else None,
    lambda world: write(world, "precisions", world.precisions[::-1]), lambda world: write(world, "clears", "start"),
    lambda world: write(world, "steps", "inside"), lambda world: write(world, "returns", "all"),
    lambda world: mg.set_num_threads(1), lambda world: mg.set_num_threads(THREADS),
]  # fmt: skip
CONSTANTS = [  # named when Python runs again: (change, name)
    (lambda world: world.config.update(power=world.config["power"] % 3 + 1), "self.config['power']"),
    (lambda world: write(world, "config", world.config) or world.config["scales"].__setitem__(0, world.config["scales"][0] * 2), "self.config['scales'][0]"),
    (lambda world: world.net.gains.__setitem__(0, world.net.gains[0] + 0.5), "self.net.gains[0]"),
    (lambda world: world.net.__dict__.update(gain=world.net.gain * 0.5), "self.net.gain"),
]  # fmt: skip
MODES = [mg.textbook, mg.no_grad, functools.partial(mg.autocast, "cpu")]
HOOKS = [  # refused until they are removed
    lambda world: world.parameters[1].register_hook(lambda gradient: gradient * 2),
    lambda world: world.net.register_forward_hook(lambda module, args, output: output * 2),
    lambda world: world.net.layers[1].register_full_backward_hook(lambda module, given, arrived: None),
]


def flat(results) -> list:
    results = results if isinstance(results, tuple) else [] if results is None else [results]
    return [x.detach().numpy().copy() for x in results]


def differing(expected: list, got: list) -> list:
    """The pairs of arrays, numbers and texts that are not the same, to the bit."""
    pairs = list(zip(expected, got, strict=True))
    return [(a, b) for a, b in pairs if (a is not b and a != b if not isinstance(a, np.ndarray) or a.dtype == object
                                         else a.dtype != b.dtype or a.tobytes() != b.tobytes())]


class Machine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 10**6))
    def begin(self, seed):
        global SHIFT
        SHIFT = 0.5
        self.plain, self.compiled, self.is_hooked, self.number = World(seed), World(seed), False, 0
        self.step = mg.compile(self.compiled.step)

    def given(self, rows: int, layout: int) -> mg.Tensor:
        self.number += 1
        values = np.random.default_rng(self.number).standard_normal((rows, self.plain.width), np.float32)
        return mg.from_numpy([np.array, np.asfortranarray, lambda a: np.flip(np.flip(a, 1).copy(), 1)][layout](values))

    def call(self, step, x):
        mg.manual_seed(self.number)
        return flat(step(x))

    def both(self, x, other=None, run=lambda function, *given: function(*given)):
        """The same call in both worlds."""
        other = x if other is None else other
        try:
            expected = self.call(self.plain.step, x)
        except RuntimeError:  # a formula saved the gradient that the step adds to
            with pytest.raises(RuntimeError):
                self.call(self.step, other)
            reject()
        self.are_alike(expected, run(self.call, self.step, other))

    def are_alike(self, expected, got):
        """What a step outside the compiled one does next, and all bits."""
        for world in (self.plain, self.compiled):
            if world.steps == "outside":
                world.optimizer.step()
            if world.clears == "outside":
                world.optimizer.zero_grad()
        assert not differing(expected + self.plain.state(), got + self.compiled.state())

    def is_refused(self, words: str) -> None:
        """The next call is, and changes nothing."""
        x, before = self.given(self.plain.rows, 0), self.compiled.state()[:-1]
        mg.manual_seed(self.number)
        before += [repr(mg.random.get_state())]
        try:
            with pytest.raises((RuntimeError, TypeError), match=f"^compile: .*{words}"):
                self.step(x)
        finally:
            mg.set_grad_enabled(True)
        assert not differing(before, self.compiled.state())

    @rule(layouts=st.tuples(st.integers(0, 2), st.integers(0, 2)), times=st.sampled_from([1, 5]),
          mode=st.sampled_from([contextlib.nullcontext] * 3 + MODES))
    def calls(self, layouts, times, mode):
        for layout in [layouts[0]] * times + [layouts[1]]:
            with mode():
                self.both(self.given(self.plain.rows, layout))

    @rule(rows=st.integers(2, 3))
    def calls_with_another_shape(self, rows):
        self.both(self.given(rows, 0))

    @rule()
    def calls_in_a_thread(self):
        with ThreadPoolExecutor(1) as pool:
            self.both(self.given(self.plain.rows, 0), run=lambda function, *given: pool.submit(function, *given).result())

    @rule(gradient=st.booleans())
    def calls_with_a_parameter_as_input(self, gradient):
        """It has the bits of the plain step, or is refused before any effect."""
        for _ in range(5):
            self.both(self.given(self.plain.rows, 0))
        plain, own = [x.grad if gradient and x.grad is not None else x.detach()
                      for x in (self.plain.parameters[0], self.compiled.parameters[0])]
        before = self.compiled.state()
        try:
            got = self.call(self.step, own)
        except RuntimeError as error:
            assert str(error).startswith("compile: an input of shape") or "hook" in str(error)
            assert not differing(before[:-1], self.compiled.state()[:-1])
        else:
            self.are_alike(self.call(self.plain.step, plain), got)

    @rule(events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=2), calls=st.sampled_from([0, 5]))
    def changes(self, events, calls):
        """After five calls the next one is a replay, if it can be."""
        for _ in range(calls):
            self.both(self.given(self.plain.rows, 0))
        for event in events:
            event(self.plain), event(self.compiled)
        self.both(self.given(self.plain.rows, 0))

    @rule()
    def a_global_changes(self):
        global SHIFT
        SHIFT = SHIFT % 1.5 + 0.25

    @precondition(lambda self: not self.is_hooked)  # else hooks keep more in one world
    @rule(pair=st.sampled_from(CONSTANTS))
    def a_constant_changes(self, pair):
        """Some calls later it is named, with the call since which replays may have been wrong; Python made the last call."""
        change, name = pair
        self.plain.kept.clear(), self.compiled.kept.clear()  # gradients that `take` replaces
        self.both(self.given(self.plain.rows, 0))
        change(self.plain), change(self.compiled)
        since, x = self.step.calls + 1, self.given(self.plain.rows, 0)
        for _ in range(64):
            self.compiled.take(self.plain)
            try:
                self.call(self.step, x)
            except RuntimeError as error:
                assert str(error).startswith(f"compile: at call {self.step.calls} this step did something else") and f"{name} changed" in str(error)
                assert self.step.calls == since or f"replays since call {since} may" in str(error) or "replays since" in str(error)
                break
        else:
            raise AssertionError(f"{name} has changed, and nobody says so")
        self.call(self.plain.step, x)
        assert not differing(self.plain.state(), self.compiled.state())

    @rule(kind=st.sampled_from(list(MISCHIEF)))
    def does_what_is_refused(self, kind):
        self.compiled.mischief = kind
        self.is_refused("")
        self.compiled.mischief = None

    @rule(hook=st.sampled_from(HOOKS))
    def has_a_hook(self, hook):
        handles = hook(self.plain), hook(self.compiled)
        self.is_refused("hook")
        for handle in handles:
            handle.remove()

    @rule()
    def has_a_hook_after_accumulation(self):
        self.is_hooked = True
        for world in (self.plain, self.compiled):
            if world.parameters[1].requires_grad:
                world.parameters[1].register_post_accumulate_grad_hook(lambda p, world=world: world.kept.append(p.grad.array))

    @rule(anew=st.booleans())
    def is_captured_anew(self, anew):
        if anew:
            self.step = mg.compile(self.compiled.step, check=self.number % 2 == 0)  # the previous one is freed with its memory
        self.step.forget()

    def teardown(self):
        mg.set_num_threads(THREADS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("examples", [pytest.param(40, marks=pytest.mark.short), pytest.param(300, marks=pytest.mark.long)])
def test_compiled_steps_live_as_plain_ones(examples, kernels):
    run_state_machine_as_test(Machine, settings=settings(
        max_examples=examples, stateful_step_count=12, deadline=None, derandomize=examples < 100, suppress_health_check=list(HealthCheck),
        database=None, print_blob=False))  # fmt: skip
