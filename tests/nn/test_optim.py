"""Optimizers against their formulas, one parameter at a time, and against PyTorch's; their state; and clipping."""
import copy
import functools
import json
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn.optim import SGD, Adam, AdamW, Joined, Muon, Optimizer, clip_grad_norm_
from stepping import make_parameters, set_gradients, steps_beside_pytorch, values

SHAPES = [(), (1,), (3, 4), (0, 2), (9000,), (2, 5, 3)]  # 0-d, empty, and two blocks of a kernel
MATRICES = [(4, 4), (3, 7), (9, 2), (1, 5), (6, 1), (70, 66)]
COEFFICIENTS = 3.4445, -4.7750, 2.0315


def sgd(p, g, state, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        state["b"] = momentum * state["b"] + (1 - dampening) * g if "b" in state else g
        g = g + momentum * state["b"] if nesterov else state["b"]
    return p - lr * g


def adam(p, g, state, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False, amsgrad=False, maximize=False):
    g = -g if maximize else g
    if decoupled:
        p = (1 - lr * weight_decay) * p
    else:
        g = g + weight_decay * p
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        v = state["largest"] = np.maximum(state.get("largest", 0), v)
    return p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, state, lr, weight_decay=1e-2, **options):
    return adam(p, g, state, lr, weight_decay=weight_decay, decoupled=True, **options)


def muon(p, g, state, lr, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=COEFFICIENTS, eps=1e-7,
         ns_steps=5, adjust_lr_fn=None):
    """On the singular values, which the iteration maps one by one."""
    m = state["m"] = momentum * state.get("m", 0) + (1 - momentum) * g
    u, s, v = np.linalg.svd((1 - momentum) * g + momentum * m if nesterov else m, full_matrices=False)
    s = s / max(np.sqrt((s * s).sum()), eps)
    for a, b, c in [ns_coefficients] * ns_steps if np.ndim(ns_coefficients) == 1 else ns_coefficients:
        s = a * s + b * s**3 + c * s**5
    rows, columns = p.shape
    scale = 0.2 * max(rows, columns) ** 0.5 if adjust_lr_fn == "match_rms_adamw" else max(1, rows / columns) ** 0.5
    return p - lr * weight_decay * p - lr * scale * (u * s) @ v


FORMULAS = {SGD: sgd, Adam: adam, AdamW: adamw, Muon: muon}
CASES = [
    (SGD, {}),
    (SGD, dict(momentum=0.9, weight_decay=0.1)),
    (SGD, dict(momentum=0.9, dampening=0.5)),
    (SGD, dict(momentum=0.9, weight_decay=0.1, nesterov=True)),
    (SGD, dict(momentum=0.9, weight_decay=0.1, maximize=True)),
    (Adam, {}),
    (Adam, dict(betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1)),
    (Adam, dict(betas=(0.5, 0.5), weight_decay=0.1, amsgrad=True, maximize=True)),
    (AdamW, {}),
    (AdamW, dict(betas=(0.9, 0.5), amsgrad=True)),
    (AdamW, dict(weight_decay=0.5, maximize=True)),
    (AdamW, dict(betas=(0.9, 0.99), weight_decay=0.5)),
    (AdamW, dict(betas=(0.0, 0.0), eps=1e-2, weight_decay=0.0)),
    (Muon, {}),
    (Muon, dict(weight_decay=0.5, momentum=0.5, nesterov=False)),
    (Muon, dict(momentum=0.0, ns_steps=1, ns_coefficients=(1.5, -0.5, 0.1))),
    (Muon, dict(adjust_lr_fn="match_rms_adamw", eps=30.0)),
    (Muon, dict(adjust_lr_fn="original", ns_steps=0)),
    (Muon, dict(adjust_lr_fn="match_rms_adamw", weight_decay=0.0, ns_steps=2)),
    (Muon, dict(ns_steps=2, ns_coefficients=((3.0, -4.0, 2.0), (1.5, -0.5, 0)))),
]
case = pytest.mark.parametrize("optimizer, options", [(c, {"lr": 0.1, **o}) for c, o in CASES],
                               ids=[f"{c.__name__}-{o}" for c, o in CASES])
each_optimizer = pytest.mark.parametrize("optimizer", [functools.partial(SGD, momentum=0.9), AdamW, Muon],
                                         ids=["SGD", "AdamW", "Muon"])
dtypes = pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-5), (np.float64, 1e-11)])


def parameters_of(optimizer, dtype=np.float64, seed=0):
    return make_parameters(MATRICES if optimizer in (Muon, muon_and_adamw) else SHAPES, dtype, seed)


def muon_and_adamw(groups, **options):
    return Joined([Muon(groups[:1], **options), AdamW(groups[1:], **options)])


def step(optimizer, parameters, seed, *more):
    """A step with random gradients, the same for all pairs (optimizer, parameters) in `more`."""
    for each, own in ((optimizer, parameters), *more):
        set_gradients(own, seed)
        each.step()


def assert_equal(parameters, others):
    for p, q in zip(parameters, others, strict=True):
        np.testing.assert_array_equal(p.array, q.array)


@dtypes
@case
def test_steps_are_those_of_the_formula(optimizer, options, dtype, tolerance):
    """`step` may run a kernel over all parameters at once, and `step_one_by_one` calls `update` for each."""
    formula = FORMULAS[optimizer]
    parameters, others = parameters_of(optimizer, dtype), parameters_of(optimizer, dtype)
    expected, states = values(parameters), [{} for _ in parameters]
    steps = optimizer(parameters, **options), optimizer(others, **options)
    for t in range(4):
        step(steps[0], parameters, seed=t)
        set_gradients(others, seed=t)
        steps[1].step_one_by_one(1.0)
        for i, (p, q) in enumerate(zip(parameters, others)):
            np.testing.assert_array_equal(p.grad.array, q.grad.array)  # a step leaves them alone
            expected[i] = formula(expected[i].astype(float), p.grad.array.astype(float), states[i], **options)
    for p, q, value in zip(parameters, others, expected):
        assert p.dtype == q.dtype == dtype
        for found in (p, q):
            np.testing.assert_allclose(found.array, value, rtol=tolerance, atol=tolerance)
        for name, entry in steps[0].state.get(p, {}).items():
            np.testing.assert_allclose(entry, steps[1].state[q][name], rtol=tolerance, atol=tolerance)
        if optimizer is Muon:
            momentum = steps[0].state[p]["momentum_buffer"]
            np.testing.assert_allclose(momentum, states.pop(0)["m"], rtol=tolerance, atol=tolerance)


@dtypes
@case
def test_ten_steps_are_pytorchs(optimizer, options, dtype, tolerance, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # to which Muon rounds what it orthogonalises
    if np.ndim(options.get("ns_coefficients", 0)) < 2:
        parameters = make_parameters(MATRICES[:-1] if optimizer is Muon else SHAPES, dtype)  # PyTorch is slow with the last
        steps_beside_pytorch(optimizer, parameters, tolerance, **options)


@case
def test_a_parameter_frozen_after_backward_takes_this_step_and_no_other(optimizer, options):
    """As in PyTorch: what counts is the gradient, until it is cleared."""
    free, frozen = parameters_of(optimizer), parameters_of(optimizer)
    steps = [optimizer(parameters, **options) for parameters in (free, frozen)]
    for parameters in (free, frozen):
        set_gradients(parameters, seed=0)
    for parameter in frozen:
        parameter.requires_grad_(False).requires_grad_(False)  # twice, as by a module and its parent
        assert parameter.grad is not None
    for each in steps:
        each.step()
    assert_equal(free, frozen)
    steps[1].zero_grad()
    assert all(parameter.grad is None for parameter in frozen)
    steps[1].step()
    assert_equal(free, frozen)


@case
def test_groups_missing_gradients_and_changed_rates(optimizer, options):
    parameters = make_parameters([(3, 2)] * 4)
    stepping = optimizer([{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.01}], **options)
    expected, states = values(parameters), [{} for _ in parameters]
    for t in range(1, 7):
        stepping.param_groups[0]["lr"] = 0.1 / t
        set_gradients(parameters, seed=t)
        if t % 2:
            parameters[1].grad = None
        for i, parameter in enumerate(parameters):
            if parameter.grad is not None:
                lr = 0.1 / t if i < 2 else 0.01
                expected[i] = FORMULAS[optimizer](expected[i], parameter.grad.array, states[i], **{**options, "lr": lr})
        stepping.step()
    np.testing.assert_allclose(values(parameters), expected, atol=1e-11)
    stepping.zero_grad()
    before = values(parameters)
    stepping.step()
    np.testing.assert_array_equal(values(parameters), before)


def in_json(state):
    """The state, with all but its arrays passed through JSON."""
    arrays = {(str(number), name): array for number, entries in state["state"].items() for name, array in entries.items()
              if isinstance(array, np.ndarray)}
    plain = {number: {name: value for name, value in entries.items() if (str(number), name) not in arrays}
             for number, entries in state["state"].items()}
    restored = json.loads(json.dumps({**state, "state": plain}))
    for (number, name), array in arrays.items():
        restored["state"][number][name] = array
    return restored


@pytest.mark.parametrize("optimizer, options", [*CASES, (muon_and_adamw, {})], ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_loaded_or_copied_state_continues_bit_for_bit_and_shares_nothing(optimizer, options):
    """It brings the groups' options with it, and replaces all that the optimizer had before."""
    firsts, seconds = parameters_of(optimizer), parameters_of(optimizer, seed=1)
    first = optimizer([{"params": firsts[:3]}, {"params": firsts[3:], "weight_decay": 0.3}], **{"lr": 0.1, **options})
    second = optimizer([{"params": seconds[:3]}, {"params": seconds[3:]}], lr=0.7)
    for t in range(3):
        step(first, firsts, seed=t)
    step(second, seconds, seed=9)
    second.load_state_dict(in_json(copy.deepcopy(first.state_dict())))
    thirds, third = copy.deepcopy((firsts, first))
    for p, q in zip(firsts, seconds):
        q.data[...] = p.array
    for t in range(5, 8):
        step(first, firsts, t, (second, seconds), (third, thirds))
    assert len({json.dumps([group | {"params": 0} for group in each.param_groups]) for each in (first, second, third)}) == 1
    for parameters, each in ((seconds, second), (thirds, third)):
        assert_equal(firsts, parameters)
        for number, entries in first.state_dict()["state"].items():
            for name, value in entries.items():
                np.testing.assert_array_equal(each.state_dict()["state"][number][name], value)


@each_optimizer
def test_a_loaded_state_has_the_dtype_of_the_parameters(optimizer):
    [wide], [p] = make_parameters([(5, 2)]), make_parameters([(5, 2)], np.float32)
    first, second = optimizer([wide]), optimizer([p])
    step(first, [wide], seed=0)
    second.load_state_dict(first.state_dict())
    step(second, [p], seed=1)
    assert {value.dtype for value in second.state[p].values() if np.ndim(value)} == {p.dtype}


@pytest.mark.parametrize("optimizer", [Adam, AdamW])
def test_amsgrad_of_one_group_among_several(optimizer):
    """Each group steps as if alone, and has only the state that it needs."""
    together, apart = (make_parameters([(3,), (9000,), (4,)]) for _ in range(2))
    options = [{}, {"amsgrad": True, "maximize": True}, {}]
    optimizers = [optimizer([{"params": p, **o} for p, o in zip(together, options)], lr=0.1, betas=(0.9, 0.5)),
                  *(optimizer([p], lr=0.1, betas=(0.9, 0.5), **o) for p, o in zip(apart, options))]
    for t in range(5):
        set_gradients(apart, seed=t)
        set_gradients(together, seed=t)
        for each in optimizers:
            each.step()
    assert_equal(together, apart)
    state = optimizers[0].state_dict()["state"]
    assert [("max_exp_avg_sq" in state[i], len(state[i])) for i in range(3)] == [(False, 3), (True, 4), (False, 3)]
    largest, last = state[1]["max_exp_avg_sq"], state[1]["exp_avg_sq"]
    assert (largest >= last).all() and (largest > last).any()


def test_a_state_from_before_amsgrad_and_maximize_loads():
    """Options missing in a saved state keep the optimizer's values."""
    [p] = make_parameters([(5,)])
    optimizer = AdamW([p], maximize=True)
    step(optimizer, [p], seed=0)
    old = copy.deepcopy(optimizer.state_dict())
    for name in ("amsgrad", "maximize"):
        del old["param_groups"][0][name]
    optimizer.load_state_dict(old)
    assert optimizer.param_groups[0]["maximize"] is True and optimizer.param_groups[0]["amsgrad"] is False
    with pytest.raises(ValueError, match="holds step, exp_avg, exp_avg_sq; expected step, exp_avg, exp_avg_sq, max_exp"):
        AdamW([p], amsgrad=True).load_state_dict(old)


def test_a_state_that_does_not_fit_changes_nothing():
    parameters = make_parameters([(2,), (3,)])
    optimizer = AdamW(parameters)
    step(optimizer, parameters, seed=0)
    good = optimizer.state_dict()
    other_shape, other_names, unknown = (copy.deepcopy(good) for _ in range(3))
    other_shape["state"][1]["exp_avg"] = np.zeros(4)
    other_names["state"][0].pop("step")
    unknown["state"][5] = unknown["state"][0]
    for bad, words in ((other_shape, "has shapes"), (other_names, "expected step, exp_avg"), (unknown, "parameter 5"),
                       ({**good, "param_groups": []}, "groups of sizes"),
                       ({**good, "param_groups": [{**good["param_groups"][0], "lr": -1}]}, "lr must be")):
        with pytest.raises(ValueError, match=words):
            optimizer.load_state_dict(bad)
    count = optimizer.state_dict()["state"][0]["step"]
    assert count == 1 and type(count) is int and optimizer.param_groups[0]["lr"] == 1e-3


def take_state(optimizer, parameter, name, value):
    optimizer.state[parameter][name] = value


EDITS = {  # of an optimizer with two groups, the parameters a, b and c, d; e is in none
    "forget one": lambda o, a, b, c, d, e: o.state.pop(a),
    "forget all": lambda o, *_: o.state.clear(),
    "a new state": lambda o, a, b, c, d, e: setattr(o, "state", {b: o.state[b]}),
    "exchanged states": lambda o, a, b, c, d, e: o.state.update({a: o.state[b], b: o.state[a]}),
    "another moment": lambda o, a, b, c, d, e: take_state(o, c, [*o.state[c]][-1], np.ones((4, 4))),
    "a count of steps": lambda o, a, b, c, d, e: "step" in o.state[c] and take_state(o, c, "step", np.array(0)),
    "a parameter in another's place": lambda o, a, b, c, d, e: o.param_groups[0]["params"].__setitem__(0, e),
    "one more parameter": lambda o, a, b, c, d, e: o.param_groups[1]["params"].append(e),
    "one parameter less": lambda o, a, b, c, d, e: o.param_groups[0]["params"].remove(a),
    "another list": lambda o, a, b, c, d, e: o.param_groups[0].update(params=[b, e]),
    "to the other group": lambda o, *_: o.param_groups[1]["params"].insert(0, o.param_groups[0]["params"].pop()),
    "exchanged groups": lambda o, *_: o.param_groups.reverse(),
    "one group less": lambda o, *_: o.param_groups.pop(),
    "groups replaced": lambda o, *_: o.param_groups.__setitem__(0, {**o.param_groups[0], "lr": 0.5}),
    "one more group": lambda o, a, b, c, d, e: o.add_param_group({"params": e}),
    "another array": lambda o, a, b, c, d, e: setattr(a, "data", a.array.copy()),
    "amsgrad on or off": lambda o, *_: o.param_groups[0].update(amsgrad=not o.param_groups[0].get("amsgrad")),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("optimizer", [AdamW, functools.partial(Adam, amsgrad=True), Muon], ids=["AdamW", "amsgrad", "Muon"])
def test_states_and_groups_may_be_edited_between_steps(optimizer, edit):
    def stepped(step):
        parameters = make_parameters([(4, 4)] * 5)
        steps = optimizer([{"params": parameters[:2]}, {"params": parameters[2:4], "lr": 0.2}], lr=0.1)
        for t in range(4):
            if t == 2:
                EDITS[edit](steps, *parameters)
            set_gradients(parameters, seed=t)
            step(steps)
        return parameters

    expected = stepped(lambda steps: steps.step_one_by_one(1.0))
    for p, q in zip(stepped(lambda steps: steps.step()), expected, strict=True):
        np.testing.assert_allclose(p.array, q.array, rtol=1e-10, atol=1e-10)


@each_optimizer
def test_a_step_keeps_no_gradient_and_older_graphs_are_refused(optimizer):
    kept, spoilt = (make_parameters([(3, 2)]) for _ in range(2))
    optimizers, loss = (optimizer(kept), optimizer(spoilt)), (kept[0] * kept[0]).sum()
    for t in range(3):
        for each, parameters in zip(optimizers, (kept, spoilt)):
            step(each, parameters, seed=t)
        spoilt[0].grad.data[...] = 7.0
    assert_equal(kept, spoilt)
    of_gradient = (kept[0].grad * kept[0]).sum()
    clip_grad_norm_(kept, 1e-3)
    for graph in (loss, of_gradient):
        with pytest.raises(RuntimeError, match="modified"):
            graph.backward()


def test_zero_grad_drops_or_clears_gradients():
    parameters = make_parameters([(3,), (2,)])
    optimizer = SGD(parameters)
    set_gradients(parameters, seed=0)
    arrays = [parameter.grad.array for parameter in parameters]
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad.array is array and not array.any() for p, array in zip(parameters, arrays))
    optimizer.zero_grad()
    assert all(p.grad is None for p in parameters)


def test_gradients_of_another_shape_or_dtype():
    [p] = make_parameters([(3,)])
    set_gradients([p], seed=0)
    p.grad.array = np.ones(4)
    with pytest.raises(ValueError, match=r"gradient of shape \(4,\) and dtype float64 for a parameter of shape \(3,\)"):
        AdamW([p]).step()
    layer = nn.Linear(2, 2)
    optimizer = AdamW(layer.parameters())
    layer(mg.ones(1, 2)).sum().backward()
    optimizer.step()
    layer.double()
    with pytest.raises(RuntimeError, match="make the optimizer after model.to"):
        optimizer.step()


def test_repr():
    assert repr(SGD(make_parameters([(3,), (2,)]), lr=0.5)) == (
        "SGD(\n  2 parameters: lr=0.5, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False\n)")


@each_optimizer
def test_odd_arrays_are_updated_like_plain_ones(optimizer):
    unaligned = np.frombuffer(bytearray(49), np.float64, offset=1).reshape(2, 3)
    arrays = [np.arange(12.0).reshape(3, 4).T, np.arange(12.0).reshape(2, 6)[:, ::2], unaligned]
    odd, plain = ([nn.Parameter(mg.from_numpy(array)) for array in group] for group in (arrays, [array.copy() for array in arrays]))
    optimizers = optimizer(odd, lr=0.1), optimizer(plain, lr=0.1)
    for t in range(3):
        set_gradients(plain, seed=t)
        for array, parameter in zip(arrays, plain):  # written to between steps
            array += t
            parameter.data += t
        for a, b in zip(odd, plain):
            a.grad = mg.from_numpy(np.repeat(b.grad.array, 2, axis=-1)[..., ::2])
        for each in optimizers:
            each.step()
    assert all(parameter.array is array for parameter, array in zip(odd, arrays))
    assert_equal(odd, plain)


@each_optimizer
def test_the_number_of_threads_changes_no_bit(optimizer):
    results, threads = [], mg.get_num_threads()
    try:
        for count in {1, threads}:
            mg.set_num_threads(count)
            parameters = make_parameters([(100, 300), (33, 33), (64, 200), (300, 100)], np.float32)
            stepping = optimizer(parameters)
            for t in range(3):
                step(stepping, parameters, seed=t)
            results.append([clip_grad_norm_(parameters, 1.0), *values(parameters)])
    finally:
        mg.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("optimizer, options", [(Adam, {}), (AdamW, dict(amsgrad=True)), (Muon, {})])
def test_one_large_gradient(optimizer, options):
    """Its square overflows, 1 - beta2 times the square does not."""
    parameters, others = (make_parameters([(1, 2)], np.float32) for _ in range(2))
    steps = optimizer(parameters, **options), optimizer(others, **options)
    for size in (1.0, 2e19, 1.0):
        for p in (*parameters, *others):
            p.grad = mg.tensor([[size, -size]])
        steps[0].step()
        steps[1].step_one_by_one(1.0)
    for name, entry in steps[1].state[others[0]].items():
        np.testing.assert_allclose(steps[0].state[parameters[0]][name], entry, rtol=1e-5, err_msg=name)
        assert np.isfinite(entry).all()


@pytest.mark.parametrize("dtype, amsgrad", [(np.float32, False), (np.float64, False), (np.float64, True)])
def test_vanishing_moments_become_zero_and_nan_stays_nan(dtype, amsgrad):
    dead, live, broken = parameters = make_parameters([(5,)] * 3, dtype)
    optimizer = AdamW(parameters, betas=(1e-3, 1e-3), weight_decay=0.0, amsgrad=amsgrad)
    set_gradients(parameters, seed=0)
    broken.grad.data[2] = np.nan
    for _ in range(120):
        optimizer.step()
        dead.grad.data[...] = 0
        broken.grad.data[2] = 1.0
    assert not optimizer.state[dead]["exp_avg"].any() and not optimizer.state[dead]["exp_avg_sq"].any()
    assert optimizer.state[live]["exp_avg"].all() and np.isfinite(dead.array).all()
    for array in (broken.array, optimizer.state[broken]["max_exp_avg_sq" if amsgrad else "exp_avg_sq"]):
        np.testing.assert_array_equal(np.isnan(array), [False, False, True, False, False])


def test_a_gradient_array_may_change_go_and_come_back():
    p, up, down = nn.Parameter(mg.tensor([1.0])), mg.tensor([-1.0]), mg.tensor([1.0])  # kept, as in compiled steps
    optimizer = AdamW([p], lr=0.1, betas=(0.0, 0.0), weight_decay=0.0)
    for gradient, expected in ((up, 1.1), (down, 1.0), (up, 1.1), (None, 1.1), (up, 1.2)):
        p.grad = gradient
        optimizer.step()
        assert p.item() == pytest.approx(expected)


# ---- clipping ----

def mixed(dtypes=(np.float32, np.float64)):
    """Parameters of both dtypes in turn, the last without a gradient."""
    parameters = [nn.Parameter(p.array.astype(dtypes[i % 2])) for i, p in enumerate(make_parameters(SHAPES))]
    set_gradients(parameters[:-1], seed=0)
    return parameters


def gradients(parameters):
    return np.concatenate([p.grad.array.ravel().astype(float) for p in parameters if p.grad is not None])


def adamw_twice(parameters, lr, max_grad_norm):
    return Joined([AdamW(parameters[:2], lr), AdamW(parameters[2:], lr)], max_grad_norm)


@pytest.mark.parametrize("optimizer", [AdamW, adamw_twice])
def test_clipping_on_the_way_is_clipping_before(optimizer):
    ours, theirs = mixed(), mixed()
    fused, plain = optimizer(ours, lr=0.1, max_grad_norm=0.5), AdamW(theirs, lr=0.1)
    for t in range(3):
        set_gradients(ours, seed=t)
        set_gradients(theirs, seed=t)
        before = gradients(ours)
        norm = clip_grad_norm_(theirs, 0.5).item()
        fused.step()
        plain.step()
        assert norm == pytest.approx(math.sqrt((before**2).sum()), rel=1e-12) == fused.grad_norm
        np.testing.assert_array_equal(gradients(ours), before)
        assert clip_grad_norm_(theirs, math.inf).item() == pytest.approx(0.5, rel=1e-5)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.array, b.array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm_type", [1, 2, 3.5, math.inf, "inf", 0.5])
def test_norms_of_any_order(norm_type):
    p = float(norm_type)
    for max_norm, dtype, rtol in ((0.1, np.float64, 1e-12), (1e9, np.float64, 1e-12), (0.1, np.float32, 1e-6)):
        parameters = mixed((dtype, np.float64))
        before = gradients(parameters)
        norm = abs(before).max() if p == math.inf else (abs(before) ** p).sum() ** (1 / p)
        found = nn.utils.clip_grad_norm_(iter(parameters), max_norm, norm_type=norm_type)
        assert found.dtype == np.float64 and found.item() == pytest.approx(norm, rel=1e-12)
        np.testing.assert_allclose(gradients(parameters), before * min(1, max_norm / (norm + 1e-6)), rtol=rtol)


def test_a_norm_neither_overflows_nor_loses_a_nan():
    big, small = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(1))
    big.grad, small.grad = mg.tensor(np.array([3e200, 4e200])), mg.tensor(np.array([0.0]))
    assert clip_grad_norm_([big, small], math.inf, norm_type=3).item() == pytest.approx(91 ** (1 / 3) * 1e200)
    assert clip_grad_norm_([small], 1.0, norm_type=3) == clip_grad_norm_([], 1.0, norm_type=math.inf) == 0
    for norm_type in (1, 2, math.inf):
        for pair in ([4.0, math.nan], [math.nan, 4.0]):
            for parameter, value in zip((big, small), pair):
                parameter.grad = mg.full(parameter.shape, value, dtype=mg.float64)
            assert math.isnan(clip_grad_norm_([big, small], math.inf, norm_type))


@pytest.mark.parametrize("norm_type", [1, 2, math.inf])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_error_if_nonfinite_leaves_gradients_alone(bad, norm_type):
    p = nn.Parameter(np.zeros(2))
    p.grad = mg.tensor(np.array([bad, 1.0]))
    with pytest.raises(RuntimeError, match="total norm of order .* non-finite"):
        clip_grad_norm_([p], 0.5, norm_type, error_if_nonfinite=True)
    np.testing.assert_array_equal(p.grad.array, [bad, 1.0])
    assert not math.isfinite(clip_grad_norm_([p], 0.5, norm_type))  # no error unless asked for
    np.testing.assert_array_equal(p.grad.array, [math.nan, 0.0 if bad == math.inf else math.nan])
    p.grad = mg.tensor(np.array([3.0, 4.0]))
    assert clip_grad_norm_([p], 0.5, error_if_nonfinite=True) == 5


# ---- Muon ----

def cut(matrix, blocks):
    return [block for rows in np.split(matrix, blocks[0]) for block in np.split(rows, blocks[1], axis=1)]


@pytest.mark.parametrize("blocks", [1, 3, (1, 2), (3, 2)])
def test_blocks_are_orthogonalised_separately(blocks):
    """Also after a change between steps."""
    for take_step in (Muon.step, Optimizer.step):
        [whole] = make_parameters([(12, 10)])
        down, across = blocks if np.ndim(blocks) else (blocks, 1)
        parts = [nn.Parameter(part.copy()) for part in cut(whole.array, (down, across))]
        options = dict(lr=0.1, adjust_lr_fn="match_rms_adamw", momentum=0.0)
        first, second = Muon([{"params": whole, "blocks": 2}], **options), Muon(parts, **options)
        set_gradients([whole], seed=9)
        take_step(first)
        first.param_groups[0]["blocks"] = blocks
        for part, block in zip(parts, cut(whole.array, (down, across))):
            part.data[...] = block
        for t in range(3):
            set_gradients([whole], seed=t)
            for part, gradient in zip(parts, cut(whole.grad.array, (down, across))):
                part.grad = mg.tensor(gradient.copy())
            take_step(first)
            second.step()
        for part, block in zip(parts, cut(whole.array, (down, across))):
            np.testing.assert_allclose(part.array, block, rtol=1e-11)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_muon_ignores_the_size_of_gradients(size):
    """Even if their squares leave the range of float32. (Below eps, the step shrinks with them.)"""
    parameters = make_parameters([(5, 8), (8, 5)], np.float32)
    before = values(parameters)
    set_gradients(parameters, seed=0)
    for p in parameters:
        p.grad = mg.tensor(p.grad.array * np.float32(size))
    expected = [muon(p.astype(float), q.grad.array / np.float64(size), {}, lr=0.1, weight_decay=0.0)
                for p, q in zip(before, parameters)]
    Muon(parameters, lr=0.1, weight_decay=0.0, eps=0.0).step()
    for p, value in zip(parameters, expected):
        np.testing.assert_allclose(p.array, value, atol=2e-5)


POLAR_EXPRESS = [  # arXiv:2505.16932, for five steps: they raise small singular values more
    (8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250), (3.2856, -2.4153, 0.4853),
    (2.3007, -1.6690, 0.4188)]


@pytest.mark.parametrize("coefficients, large, small, bound", [
    (COEFFICIENTS, 1, 0.045, 0.06), (POLAR_EXPRESS, 1, 0.1, 0.12), (POLAR_EXPRESS, 6, 0.06, 0.08)])
@pytest.mark.parametrize("shape", [(64, 32), (40, 40), (100, 300)])
def test_muon_under_autocast(coefficients, large, small, bound, shape, kernels):
    """Its products are rounded. With more of them before x is multiplied, some of these singular values would explode."""
    generator, size = np.random.default_rng(0), min(shape)
    left, right = (np.linalg.qr(generator.standard_normal((side, size)))[0] for side in shape)
    gradient = (left * [*[1] * large, *[small] * (size - large)] @ right.T).astype(np.float32)
    options = dict(lr=0.1, ns_coefficients=coefficients)
    expected = muon(np.zeros(shape), gradient.astype(float), {}, **options)

    def stepped(dtype=np.float32):
        p = nn.Parameter(mg.zeros(*shape, dtype=dtype))
        p.grad = mg.tensor(gradient.astype(dtype))
        Muon([p], **options).step()
        return p.array

    plain, plain64 = stepped(), stepped(np.float64)
    with mg.autocast("cpu"):
        low = stepped()
        np.testing.assert_array_equal(stepped(np.float64), plain64)
        with mg.textbook():
            np.testing.assert_array_equal(stepped(), plain)
    assert 1e-3 < np.linalg.norm(low - expected) / np.linalg.norm(expected) < bound


def test_matrices_under_autocast_are_stepped_separately(kernels):
    """The bits of each block do not depend on the others or on where it lies."""
    wholes = make_parameters([(96, 140), (140, 96), (66, 70)], np.float32)

    def blocks_of(tensors):
        return [block.copy() for tensor in tensors for block in cut(tensor.array, (2, 2))]

    parts = [nn.Parameter(block) for block in blocks_of(wholes)]
    together, alone = Muon(wholes, blocks=(2, 2), weight_decay=0.5), [Muon([part], weight_decay=0.5) for part in parts]
    for t in range(2):
        set_gradients(wholes, seed=t)
        for part, gradient in zip(parts, blocks_of(whole.grad for whole in wholes), strict=True):
            part.grad = mg.tensor(gradient)
        with mg.autocast("cpu"):
            for optimizer in alone:
                optimizer.step()
            together.step()
    for part, block in zip(parts, blocks_of(wholes), strict=True):
        np.testing.assert_array_equal(part.array, block)


def test_muon_without_gradients_and_with_zero_or_nan():
    parameters = make_parameters([(3, 3)] * 3)
    before = values(parameters)
    optimizer = Muon(parameters, lr=0.1, weight_decay=0.5)
    parameters[1].grad, parameters[2].grad = mg.zeros(3, 3, dtype=mg.float64), mg.full((3, 3), np.nan, dtype=mg.float64)
    optimizer.step()
    np.testing.assert_array_equal(parameters[0].array, before[0])
    np.testing.assert_allclose(parameters[1].array, 0.95 * before[1], rtol=1e-15)
    assert np.isnan(parameters[2].array).all() and (optimizer.state[parameters[0]]["momentum_buffer"] == 0).all()


# ---- joined optimizers ----

def joined(max_grad_norm=None):
    matrices, others = make_parameters([(4, 4), (6, 3)]), make_parameters([(3,), (2, 2)], seed=1)
    muon, adamw = Muon([{"params": matrices[:1]}, {"params": matrices[1:], "blocks": 2}], lr=0.1), AdamW(others, lr=0.01)
    return matrices + others, Joined([muon, adamw], max_grad_norm)


def test_joined_optimizers_step_as_if_alone():
    together, optimizer = joined(max_grad_norm=2.0)
    apart, parts = joined()
    for t in range(3):
        set_gradients(apart, seed=t)
        step(optimizer, together, seed=t)
        length = clip_grad_norm_(apart, 2.0).item()
        for each in parts.optimizers:
            each.step()
        assert optimizer.grad_norm == pytest.approx(length, rel=1e-12) and length > 2
    for p, q in zip(together, apart):
        np.testing.assert_allclose(p.array, q.array, rtol=1e-12)
    optimizer.zero_grad()
    assert all(p.grad is None for p in together)
    state = parts.state_dict()
    del state["state"][3]["step"]
    with pytest.raises(ValueError, match="state of parameter 3 holds exp_avg, exp_avg_sq; expected step"):
        optimizer.load_state_dict(state)
    nn.optim.StepLR(parts, step_size=1, gamma=0.5).step()
    assert [group["lr"] for group in parts.param_groups] == pytest.approx([0.05, 0.05, 0.005])


@pytest.mark.parametrize("optimizer, group", [(Muon, {}), (SGD, { "nesterov": True})])
def test_a_bad_group_is_not_kept(optimizer, group):
    optimizer = optimizer(make_parameters([(4, 3)]))
    with pytest.raises(ValueError):
        optimizer.add_param_group({"params": make_parameters([(2,)]), **group})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, Muon])
def test_parameters_in_which_nothing_is_computed_are_skipped(kind):
    """Such as masks."""
    results = []
    given = mg.tensor([[True, False]]), mg.tensor([[1, 0]])
    for masks in ([], [nn.Parameter(tensor, requires_grad=False) for tensor in given]):
        weight = nn.Parameter(mg.tensor([[2.0, 3.0]]))
        optimizer = kind([*masks, weight], lr=0.1)
        for _ in range(2):
            weight.grad = mg.tensor([[0.5, -1.0]])
            optimizer.step()
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        results.append(weight.tolist())
        assert all(mask.tolist() == [[1, 0]] for mask in masks)
    assert results[0] == results[1] != [[2.0, 3.0]]
