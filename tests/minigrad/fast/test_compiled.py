"""Compiled steps: a replay gives the bits of the step itself, or an error says why not."""
import contextlib
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
import nn
import nn.functional as F
from cases import CASES, rows_of_each_op
from layouts import EXPANDED, LAYOUTS, enlarge, mapped
from minigrad.fast.compiling.capture import Capture
from minigrad.per_thread import this_thread
from minigrad.replays import notice
from minigrad.runner import EAGER
from minigrad.tensor import apply
from models import PRESETS, CausalTransformer
from naive import Constant


def permuted(array, seed):
    """The same numbers in another order, so that functions stay defined."""
    return np.random.default_rng(seed).permutation(array.reshape(-1)).reshape(array.shape)


def leaves_of(case, dtype):
    arrays = [x.astype(dtype) if isinstance(x, np.ndarray) else x for x in case.inputs]
    return [mg.tensor(x, requires_grad=True) if isinstance(x, np.ndarray) and not isinstance(x, Constant) else x
            for x in arrays]


def results_of(step, leaves):
    """The output and all gradients, which are then cleared."""
    tensors = [x for x in leaves if isinstance(x, mg.Tensor)]
    out = step()
    results = [out.numpy().copy()] + [None if x.grad is None else x.grad.numpy().copy() for x in tensors]
    for x in tensors:
        x.grad = None
    return results


@rows_of_each_op()
def test_replay_has_the_bits_of_the_op(case):
    for dtype in (np.float32, np.float64):
        leaves = leaves_of(case, dtype)

        def step(leaves=leaves):
            out = apply(case.op, *leaves, **case.options)
            upstream = np.random.default_rng(3).standard_normal(out.shape)
            (out * 1.5).backward(mg.tensor(upstream, dtype=out.dtype))
            return out.detach()

        compiled = mg.compile(step)
        for call in range(1, 7):
            for original, leaf in zip(case.inputs, leaves):
                if isinstance(leaf, mg.Tensor):
                    leaf.data[...] = permuted(original, call).astype(dtype)
            got = results_of(compiled, leaves)
            if call in (1, 5, 6):  # captured, and replayed twice; Python runs the calls in between
                for a, b in zip(got, results_of(step, leaves), strict=True):
                    np.testing.assert_array_equal(a, b)


WITHOUT_GRADIENT = {
    **{name: lambda x, name=name: getattr(x, name)() for name in ("any", "all", "argmax", "argmin")},
    "comparisons": lambda x: mg.where((x > 0) & ~(x > 2), x, -1.0),
}


def test_ops_without_a_gradient_are_replayed():
    x = mg.randn(3, 4)
    for name, function in WITHOUT_GRADIENT.items():
        compiled = mg.compile(lambda function=function: function(x))
        for seed in range(3):
            x.data[...] = np.random.default_rng(seed).integers(-1, 4, (3, 4)) * (seed > 0)
            np.testing.assert_array_equal(compiled().array, function(x).array, name)


COPIED = [(LAYOUTS | EXPANDED)[name] for name in (  # by some op or kernel
    "column by column", "rows with gaps", "read-only", "unaligned", "one row for all"
)]  # fmt: skip


@rows_of_each_op()
def test_replay_reads_arrays_as_they_lie(case):
    """For each layout, all inputs and the upstream gradient, or one of them: which depends on the row. (Only up to rounding: a
    captured step keeps results in C order, NumPy's have the order of the inputs, and the order of a sum may differ.)"""
    arrays = [x.astype(np.float32) if isinstance(x, np.ndarray) else x for x in case.inputs]
    arrays.append(np.asarray(apply(case.op, *arrays, **case.options).array) + 1)
    places = [i for i, x in enumerate(arrays) if isinstance(x, np.ndarray)]
    for number, layout in enumerate(COPIED, CASES.index(case)):
        chosen = [places[number // 2 % len(places)]] if number % 2 else places
        laid_out = [mapped(layout if i in chosen else np.array, np.asarray(x) if i in places else x)
                    for i, x in enumerate(arrays)]
        *leaves, upstream = [mg.from_numpy(x) if i in places else x for i, x in enumerate(laid_out)]
        for x, original in zip(leaves, case.inputs):
            if isinstance(x, mg.Tensor):
                x.requires_grad_(not isinstance(original, Constant))

        def step(leaves=leaves, upstream=upstream):
            out = apply(case.op, *leaves, **case.options)
            out.backward(upstream)
            return out.detach()

        compiled, wanted = mg.compile(step), [x for x in leaves if isinstance(x, mg.Tensor) and x.requires_grad]
        for calls_before in (0, 3):  # captured; replayed, after the calls that Python runs
            for _ in range(calls_before):
                results_of(compiled, wanted)
            got, expected = results_of(compiled, wanted), results_of(step, wanted)
            for a, b in zip(got, expected, strict=True):
                largest = np.max(np.abs(b), initial=1, where=np.isfinite(b))  # enlarged numbers may have no arcsin
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * largest, err_msg=f"layout {number}: {chosen}")
            for i in places:
                enlarge(laid_out[i])


def transformer_step(compiled, dropout=0.0):
    """A complete training step of a small transformer, and the model."""
    mg.manual_seed(0)
    config = PRESETS["micro"].config
    model = CausalTransformer(type(config)(layers=2, heads=2, width=32, context=32, dropout=dropout))
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2, max_grad_norm=1.0)

    def step(tokens, targets):
        optimizer.zero_grad()
        loss = model(tokens, targets)[1]
        loss.backward()
        optimizer.step()
        return loss

    return (mg.compile(step) if compiled else step), model


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_training_is_the_same_to_the_bit(dropout, thread_counts):
    def history(compiled):
        step, model = transformer_step(compiled, dropout)
        mg.manual_seed(1)  # for dropout
        batches = np.random.default_rng(0).integers(96, size=(5, 2, 4, 32))
        losses = [step(*map(mg.tensor, batch)).item() for batch in batches]
        return np.concatenate([losses, *[p.array.ravel() for p in model.parameters()]]).tobytes()

    assert len({history(compiled) for _ in thread_counts() for compiled in (False, True)}) == 1


TABLE = mg.tensor(np.random.default_rng(0).normal(size=(3, 3)), requires_grad=True)


def doubling():
    """A compiled x -> 2 w x, and w."""
    w = mg.tensor([1.0, 2.0], requires_grad=True)

    @mg.compile
    def step(x):
        out = (2.0 * w * x).sum()
        out.backward()
        return out

    return step, w


def test_python_runs_when_something_changes_and_ever_more_rarely(captures):
    step, w = doubling()
    x, runs = mg.tensor([3.0, 4.0]), []
    for call in range(1, 34):
        before = len(captures)
        step(x)
        runs += [call] * (len(captures) - before)
    assert runs == [1, 2, 3, 4, 8, 16, 32]

    def runs_again(change):
        change()
        before = len(captures)
        step(x)
        return len(captures) - before

    def scale():
        with mg.no_grad():
            w.mul_(2.0)

    assert not runs_again(lambda: step(mg.ones(5, 2)))  # another shape; the first is kept
    assert not runs_again(scale) and step(x).item() == 2 * (2 * 3 + 4 * 4)  # values are not part of a captured step
    assert runs_again(lambda: setattr(w, "data", np.array([1.0, 1.0], np.float32))) and step(x).item() == 14.0
    assert runs_again(lambda: nn.Linear(1, 1).eval())  # some module has changed its mode
    assert runs_again(step.forget)


DRAWN = {
    "rand": lambda x: x + mg.rand(100),
    "randn": lambda x: x + mg.randn_like(x),
    "randint": lambda x: x + mg.randint(0, 1000, (100,)),
    "randperm": lambda x: x + mg.randperm(100),
    "multinomial": lambda x: (x + 1).multinomial(50),
}


def test_a_replay_draws_new_numbers():
    """The same as the step itself would, from the same generator."""
    for name, step in DRAWN.items():
        found = []
        for function in (mg.compile(step), step):
            mg.manual_seed(0)
            found.append([function(mg.ones(100)).tolist() for _ in range(3)])
        assert found[0] == found[1] and found[0][1] != found[0][2], name


@pytest.mark.parametrize("function, good, bad, error, words", [
    (lambda x: x.multinomial(1), [0.0, 1.0], [1.0, -1.0], ValueError, "multinomial"),
    (lambda ids: F.embedding(ids, TABLE.detach()), [1, 2], [1, 3], IndexError, "index 3 is out of range"),
])
def test_bad_values_are_refused_in_a_replay(function, good, bad, error, words):
    step = mg.compile(function)
    for _ in range(6):
        step(mg.tensor(good))
    with pytest.raises(error, match=words):
        step(mg.tensor(bad))


W = mg.tensor([1.0, 2.0], requires_grad=True)


SCALE = mg.tensor(2.0)
OPTIMIZER = nn.optim.AdamW([mg.ones(2, requires_grad=True)], max_grad_norm=1.0)
SCHEDULER = nn.optim.lr_scheduler.StepLR(OPTIMIZER, 1, 0.5)
HOOKED = nn.Identity()
HOOKED.register_forward_hook(lambda *_: None)
REPEATS = mg.tensor([2, 1])


def with_hook(x):
    y = W * x
    y.register_hook(lambda gradient: gradient * 2)
    y.sum().backward()


def writing(x):
    y = x * 2
    y += 1
    return y


def leaves_another_mode(x):
    mg.set_grad_enabled(False)
    return x * 2


def with_graph_from_outside(x, made=mg.ones(2, requires_grad=True) * 2.0):
    (made * x).sum().backward(retain_graph=True)


def under_an_observer(x):
    with mg.count_flops():
        return x * 2


def enters_the_textbook(x):
    with mg.textbook():
        return x * 2


def catching(x, function):
    with contextlib.suppress(IndexError, ValueError):
        function()
    return x * 2


REFUSED = {
    "item": (lambda x: x * x.sum().item(), "reads the values"),
    "if": (lambda x: x if (x > 0).all() else -x, "reads the values"),
    "float": (lambda x: x * float(x.sum()), "reads the values"),
    "numpy": (lambda x: mg.tensor(np.asarray(x)), "reads the values"),
    "numpy()": (lambda x: mg.tensor(x.numpy() + 1), "reads the values"),
    "a parameter's value": (lambda x: x * W.sum(0).detach() * W[0].item(), "reads the values"),
    "a parameter's item": (lambda x: x * SCALE.item(), "reads the values"),
    "a parameter's array": (lambda x: x * mg.tensor(np.asarray(SCALE.data)), "reads the values"),
    "a parameter's text": (lambda x: x * len(f"{W}"), "reads the values"),
    "a parameter's other data": (lambda x: setattr(W, "data", np.ones(W.shape, np.float32)) or x, "writes to a tensor in place"),
    "list": (lambda x: mg.tensor(x.tolist()), "reads the values"),
    "index": (lambda x: x[(x > 0)], "reads the values"),
    "nonzero": (lambda x: x.nonzero(), "reads the values"),
    "a parameter's nonzero": (lambda x: SCALE.nonzero(), "reads the values"),
    "repeat_interleave": (lambda x: x.repeat_interleave(x.long()), "reads the values"),
    "repeats from outside": (lambda x: x.repeat_interleave(REPEATS), "reads the values"),
    "in place": (writing, "in place"),
    "hook": (with_hook, "hook"),
    "without advice": (lambda x: notice("hums") or x, "this step hums, which a replay would not do; do that outside, or don't compile this step"),
    "gradient": (lambda x: (W * x).sum().backward() or W.grad, "reads a gradient"),
    "create_graph": (lambda x: (W * x).sum().backward(create_graph=True), "create_graph"),
    "on the tape": (lambda x: W * x, "calls no backward"),
    "a mode left behind": (leaves_another_mode, "changes the grad mode"),
    "a graph from outside": (with_graph_from_outside, "Mul, which made a tensor .* outside this step"),
    "an observer inside": (under_an_observer, "observes operations"),
    "the textbook": (enters_the_textbook, r"enters or leaves textbook\(\).*do that outside"),
    "an error of a kernel": (lambda x: catching(x, lambda: F.embedding(mg.tensor([3]), TABLE)), "catches an error .IndexError"),
    "an error in NumPy": (lambda x: catching(x, lambda: mg.tensor([-1.0]).multinomial(1)), "catches an error .ValueError"),
    "an error of an opaque call": (lambda x: catching(x, lambda: mg.manual_seed(-1)), "catches an error .ValueError"),
    "a seed": (lambda x: x * mg.manual_seed(3).initial_seed(), "looks at the generator's state"),
    "a draw in Python": (lambda x: x * mg.random.generator().random(), "draws from the generator in Python"),
    "a mask as index": (lambda x, mask=mg.tensor([True, False]): x[mask], "reads the values"),
    "a number as index": (lambda x, i=mg.tensor(1): x[i], "reads the values"),
    "options of an optimizer": (lambda x: x * OPTIMIZER.param_groups[0]["lr"], "reads the options of an optimizer"),
    "norm of the gradients": (lambda x: OPTIMIZER.step() or x * OPTIMIZER.grad_norm, "reads the norm of"),
    "state of an optimizer": (lambda x: x * len(OPTIMIZER.state_dict()), "reads the state of an optimizer"),
    "rates": (lambda x: SCHEDULER.step() or x * SCHEDULER.get_last_lr()[0], "reads learning rates"),
    "state of a scheduler": (lambda x: x * SCHEDULER.state_dict()["last_epoch"], "reads the state of a scheduler"),
    "hook of a module": (lambda x: HOOKED(x), "calls Identity, which has hooks"),
    "equality": (lambda x: x if x.equal(mg.ones(2)) else x * 2, "reads the values"),
}


def test_a_model_is_no_step():
    with pytest.raises(TypeError, match="expected a function, such as a training step, got a model .Linear."):
        mg.compile(nn.Linear(2, 3))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_replayed_is_refused(name):
    function, words = REFUSED[name]
    try:
        with pytest.raises(RuntimeError, match=words):
            mg.compile(function)(mg.tensor([1.0, 2.0]))
    finally:
        mg.set_grad_enabled(True)
    assert this_thread.runner is EAGER and not this_thread.is_textbook
    assert (mg.tensor([1.0]) + 1).item() == 2.0  # all is as before


def test_a_mistake_in_a_step_gives_the_same_error_as_without_compile():
    with pytest.raises(ValueError, match=r"add: shapes \(2,\) and \(5,\) do not broadcast"):
        mg.compile(lambda x: x + mg.zeros(5))(mg.zeros(2))


def test_inputs_of_two_layouts_are_captured_apart():
    step = mg.compile(lambda x: x + 1)
    for x in (mg.ones(3, 4), mg.ones(4, 3).T) * 6:
        assert step(x).stride() == x.stride()


def test_inputs_and_results_are_tensors():
    with pytest.raises(TypeError, match="takes Tensors, got float"):
        mg.compile(lambda x: x)(1.0)
    with pytest.raises(RuntimeError, match="returns int, .* return Tensors"):
        mg.compile(lambda x: 3)(mg.ones(2))
    with pytest.raises(RuntimeError, match="input of a compiled step requires a gradient"):
        mg.compile(lambda x: x)(W)


@pytest.mark.parametrize("op", [F.gelu, lambda x: F.linear(x, x)], ids=["arrays one by one", "arrays in tuples"])
def test_memory_is_reused_within_a_captured_step(op):
    def chain(x):
        for _ in range(30):
            x = op(x)
        return x

    with Capture() as step:
        chain(mg.randn(512, 512))
    assert step.pool.nbytes() <= 4 * 512 * 512 * 4


def test_memory_of_a_captured_step_is_not_freed():
    held, x = [], mg.randn(4096, 1024)
    with mg.no_grad(), Capture() as step:
        for rows in range(256, 4097, 256):  # ever larger sizes, and at the end more memory unused than used
            F.gelu(x[:rows] * 1.0)
            held.append(step.pool.nbytes())
    assert held == sorted(held) and held[-1] > 1 << 27


def test_replays_call_machine_code():
    """Not dispatchers, which would look it up each time."""
    layer, x = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.GELU()), mg.ones(2, 3)
    step = mg.compile(lambda x: layer(x).square().mean().backward())
    step(x)
    (captured,) = step._captured.values()
    functions = [function for function, _ in captured.calls]
    assert functions and not [function for function in functions if hasattr(function, "overloads")]


def test_the_first_textbook_of_a_process_may_be_entered_while_a_step_is_captured():
    """By another thread: it replaces the functions of the backend."""
    script = """
import threading
import minigrad as mg

def enter():
    with mg.textbook(): pass

@mg.compile
def step(x):
    values, indices = x.sort(1)
    thread = threading.Thread(target=enter)
    thread.start(), thread.join()
    return x.gather(1, indices)

for _ in range(5):
    assert step(mg.tensor([[2.0, 1.0]])).tolist() == [[1.0, 2.0]]
"""
    subprocess.run([sys.executable, "-c", script], check=True)
