"""Changes between the calls of a compiled step are followed or refused, never ignored. And gradients own their memory.

Matrices are smaller and larger than 32 kB, above which a captured step reuses memory.
"""
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minigrad as mg
import nn
import nn.functional as F
from minigrad.fast.compiling.capture import Capture
from minigrad.fast.compiling.places import same

SIDES = [8, 128]
both_sides = pytest.mark.parametrize("side", SIDES)


class Study:
    """A training step, and everything about it that can change."""

    def __init__(self, side: int):
        mg.manual_seed(0)
        self.layer = nn.Sequential(nn.Linear(side, side), nn.LayerNorm(side), nn.Dropout(0.5), nn.GELU())
        self.scale, self.constant = nn.Parameter(mg.randn(side, side)), mg.randn(side)
        self.x, self.ids, self.array = mg.randn(side, side), mg.randint(0, side, (side,)), np.ones(side, np.float32)
        self.threshold, self.order = mg.zeros(side), mg.randperm(side)  # only functions read these, not ops
        self.optimizer = nn.optim.AdamW([*self.layer.parameters(), self.scale], lr=1e-2)
        self.scheduler = nn.optim.LambdaLR(self.optimizer, lambda epoch: 1 / (1 + epoch))

    def step(self, x):
        self.optimizer.zero_grad()
        y = self.layer(x * self.scale)[self.ids] + self.constant * self.array + mg.randn(x.shape[-1], dtype=x.dtype)
        y = mg.where(self.constant > self.threshold, y, y.sort(-1).values)[self.order].gather(0, self.ids[None])
        (y * y).mean().backward()
        self.optimizer.step()
        self.scheduler.step()
        return y

    def state(self):
        tensors = [*self.layer.parameters(), self.scale]
        gradients = [x.grad for x in tensors if x.grad is not None]
        return [x.detach().numpy().copy() for x in tensors + gradients]


def assigned(owner, name, value):
    """A change that sets an attribute; owner and value are functions of the study."""
    return lambda study: setattr(owner(study), name, value(study))


def doubled(*given):
    """A hook of any kind: its last argument, doubled."""
    return given[-1] * 2 if isinstance(given[-1], mg.Tensor) else None


def to_double(study):
    study.layer.double()
    for name in ("x", "constant"):
        setattr(study, name, getattr(study, name).double())
    study.array = study.array.astype(np.float64)
    study.scale.data, study.scale.requires_grad = study.scale.data, False
    study.scale = nn.Parameter(study.scale.detach().double())
    study.optimizer = nn.optim.SGD([*study.layer.parameters(), study.scale])


def itself(study):
    return study


CHANGES = {
    "nothing": lambda study: None,
    "p": assigned(lambda study: study.layer[2], "p", lambda study: 0.1),
    "eps": assigned(lambda study: study.layer[1], "eps", lambda study: 0.5),
    "approximate": assigned(lambda study: study.layer[3], "approximate", lambda study: "tanh"),
    "eval": lambda study: study.layer.eval(),
    "eval of one": lambda study: study.layer[2].eval(),
    "lr": lambda study: study.optimizer.param_groups[0].update(lr=0.5),
    "max_grad_norm": assigned(lambda study: study.optimizer, "max_grad_norm", lambda study: 1e-3),
    "optimizer": assigned(itself, "optimizer", lambda study: nn.optim.SGD([study.scale], lr=1.0)),
    "state of the optimizer": lambda study: study.optimizer.load_state_dict(study.optimizer.state_dict()),
    "frozen parameter": lambda study: study.layer[0].weight.requires_grad_(False),
    "frozen and thawed": lambda study: study.scale.requires_grad_(False).requires_grad_(),
    "constant that learns": lambda study: study.constant.requires_grad_(),
    "swapped parameter": assigned(lambda study: study.layer[0], "weight", lambda study: nn.Parameter(study.x)),
    "swapped tensor": assigned(lambda study: study.layer[0], "bias", lambda study: None),
    "swapped module": lambda study: study.layer.__setitem__(3, nn.Tanh()),
    "deleted module": lambda study: study.layer.__delitem__(3),
    "inserted module": lambda study: study.layer.insert(3, nn.Tanh()),
    "values of a parameter": lambda study: study.scale.data.fill(2.0),
    "array of a parameter": assigned(lambda study: study.scale, "data", lambda study: -study.scale.data),
    "values of a constant": lambda study: np.negative(study.constant.data, out=study.constant.data),
    "array of a constant": assigned(lambda study: study.constant, "data", lambda study: -study.constant.data),
    "values of a threshold": lambda study: study.threshold.data.fill(0.5),
    "array of a threshold": assigned(lambda study: study.threshold, "data", lambda study: -study.constant.data),
    "values of an index": lambda study: study.order.data.sort(),
    "array of an index": assigned(lambda study: study.order, "data", lambda study: np.sort(study.order.data)),
    "values of ids": lambda study: study.ids.data.sort(),
    "array of ids": assigned(lambda study: study.ids, "data", lambda study: np.sort(study.ids.data)),
    "values of an array": lambda study: study.array.fill(3.0),
    "dtype": to_double,
    "gradient": assigned(lambda study: study.scale, "grad", lambda study: mg.ones(study.scale.shape)),
    "retain_grad of a leaf": lambda study: study.scale.retain_grad(),
    "strides": assigned(itself, "x", lambda study: study.x.T),
    "another shape": assigned(itself, "x", lambda study: study.x[:1]),
    "seed": lambda study: mg.manual_seed(5),
    "state of the generator": lambda study: mg.random.set_state(np.random.PCG64(9).state),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_capturing_is_followed(name):
    for side in SIDES:
        histories = []
        for wrap in (itself, mg.compile):
            study = Study(side)
            step = wrap(study.step)
            history = [step(study.x).detach().numpy() for _ in range(2)]
            CHANGES[name](study)
            histories.append(history + [step(study.x).detach().numpy() for _ in range(3)] + study.state())
        for plain, compiled in zip(*histories, strict=True):
            assert plain.dtype == compiled.dtype
            np.testing.assert_array_equal(plain, compiled)


@pytest.mark.parametrize("register", [
    lambda study: study.scale.register_hook(doubled), lambda study: study.layer[0].register_forward_hook(doubled),
    lambda study: study.layer[0].register_forward_pre_hook(doubled),
    lambda study: study.layer[0].register_full_backward_hook(doubled),
], ids=["of a parameter", "forward", "before forward", "backward"])
def test_a_hook_is_refused_until_it_is_removed(register):
    study = Study(8)
    step = mg.compile(study.step)
    for _ in range(2):
        step(study.x)
        handle = register(study)
        with pytest.raises(RuntimeError, match="compile: .* hook"):
            step(study.x)
        handle.remove()
    step(study.x)


def test_each_grad_mode_has_a_captured_step(captures):
    w = mg.ones(4, requires_grad=True)

    @mg.compile
    def step(x):
        loss = (w * x).sum()
        if mg.is_grad_enabled():
            loss.backward()
        return loss

    x = mg.ones(4)
    for _ in range(2):
        step(x)
        with mg.no_grad():
            step(x)
    assert len(captures) == 2 and w.grad.tolist() == [2.0] * 4


def test_a_step_that_keeps_a_tensor_is_refused():
    kept = []

    @mg.compile
    def step(x):
        kept.append(x * 2)
        return kept[0] + 1  # the second time, one of the first captured step

    with pytest.raises(RuntimeError, match="this step changes kept .*test_compiled_changes.py:"):
        step(mg.ones(2))
    assert kept == []


def test_tensors_of_a_captured_step_cannot_be_used_outside():
    with Capture() as step:
        made = mg.ones(2) * 2
    with pytest.raises(RuntimeError, match="made while a step was captured"):
        made + 1
    with pytest.raises(RuntimeError, match="made while a step was captured"), Capture():
        made + 1
    assert step.calls


def test_derivatives_and_functions_inside_a_step_are_replayed():
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x, x * 2

        @staticmethod
        def backward(ctx, dcube, dtwice):
            (x,) = ctx.saved_tensors
            return 3 * x * x * dcube + 2 * dtwice

    w = mg.randn(100, 100, requires_grad=True)

    def step(x):
        cube, twice = Cube.apply(w * x)
        (gradient,) = mg.grad((cube * twice).sum(), w)
        return gradient + F.one_hot((x > 0).to(mg.int64), 2).sum(-1)

    compiled = mg.compile(step)
    for seed in range(3):
        x = mg.from_numpy(np.random.default_rng(seed).standard_normal((100, 100), np.float32))
        np.testing.assert_array_equal(compiled(x).numpy(), step(x).numpy())


def test_inputs_and_results_inside_a_step_have_their_strides():
    """NumPy sums in memory order, so bits depend on the strides."""
    p = mg.from_numpy(np.random.default_rng(0).standard_normal((70, 65), np.float32))

    class AlongMemory(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return mg.from_numpy(np.asarray(np.add.reduce(np.asarray(x.data), axis=None)))

    def step(x):
        values = mg.einsum("ij,kj->ik", p, x), x, x.cumsum(1), x.T * 2
        return mg.stack([AlongMemory.apply(value) for value in values])

    compiled, bits = mg.compile(step), set()
    values = np.random.default_rng(1).standard_normal((70, 65), np.float32)
    for layout in (np.ascontiguousarray, np.asfortranarray, lambda a: np.flip(np.flip(a, 1).copy(), 1), np.asfortranarray):
        x = mg.from_numpy(layout(values))
        for _ in range(2):
            np.testing.assert_array_equal(compiled(x).numpy(), step(x).numpy())
        bits.add(step(x).numpy().tobytes())
    assert len(bits) > 1  # else this test proves nothing


# ---- gradients own their memory ----


class Keeper(nn.optim.Optimizer):
    """Keeps all gradients that it gets."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.kept = []

    def update(self, p, g, state, group):
        self.kept.append(g)


CLEARED = {"first": True, "zeros first": False, "after forward": True, "last": True, "outside": None, "never": None}


@both_sides
@pytest.mark.parametrize("cleared", CLEARED)
def test_a_gradient_that_somebody_holds_is_never_overwritten(side, cleared):
    """Gradients reuse the memory of activations. An optimizer, a hook, the user and views hold them; they are read only after
    some calls; a plain backward, and another step of the same parameters, add to them."""

    def gradients(compile):
        mg.manual_seed(0)
        model = nn.Sequential(nn.Linear(side, side), nn.GELU(), nn.LayerNorm(side), nn.Linear(side, side))
        one, other = mg.randn(side, side, requires_grad=True), mg.randn(side, side, requires_grad=True)
        parameters = [*model.parameters(), one, other]
        keeper, held = Keeper(parameters), []
        model[0].bias.register_post_accumulate_grad_hook(lambda p: held.append(p.grad))

        def clear(when):
            if when == cleared:
                keeper.zero_grad(set_to_none=CLEARED[when] is not False)

        def step(x):
            clear("first"), clear("zeros first")
            loss = (model(x) + one + other).square().mean()  # one gradient for both
            clear("after forward")
            loss.backward()
            clear("last")
            return loss

        def loss_of_weights(x):
            sum((p * x[0]).square().sum() for p in parameters).backward()

        step, again = compile(step), compile(loss_of_weights)
        for k in range(9):
            step(mg.randn(side, side))
            if k in (0, 4):
                keeper.step()
            if k in (4, 7):
                (loss_of_weights if k == 4 else again)(mg.randn(side, side))
            if k % 3 == 1:
                held += [p.grad for p in parameters if p.grad is not None]
                held += [x.data[:1] for x in held[-2:]]
            if k % 2 and cleared == "outside":
                keeper.zero_grad()
        return [np.array(x if isinstance(x, np.ndarray) else x.numpy()) for x in keeper.kept + held]

    expected, got = gradients(lambda step: step), gradients(mg.compile)
    assert len(expected) == len(got) > 2
    for a, b in zip(expected, got):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@both_sides
def test_threads_have_captured_steps_of_their_own(side):
    """Ten threads replay one compiled step at once, each with its own parameters."""
    here = threading.local()

    @mg.compile
    def step(x):
        here.w.grad = None
        ((x @ here.w) ** 2).sum().backward()

    def work(seed):
        here.w = mg.full((side, side), float(seed), requires_grad=True)
        for k in range(20):
            step(mg.full((side, side), float(k)))
            assert np.all(here.w.grad.numpy() == 2.0 * side * side * k * k * seed), (seed, k)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(10)))


def test_zeros_are_the_same_if_their_signs_are():
    assert same(0.0, float("0.0")) and not same(0.0, -0.0) and not same(math.nan, float("nan"))
