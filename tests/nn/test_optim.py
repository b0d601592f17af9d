import copy
import functools
import json
import math

import numpy as np
import pytest

import minigrad as mg
import nn
import stepping
from nn.optim import SGD, Adam, AdamW, Optimizer, clip_grad_norm_, clip_grad_value_
from stepping import set_gradients, steps_beside_pytorch, values

SHAPES = [(), (1,), (3, 4), (0, 2), (9000,), (2, 5, 3)]  # a 0-d, an empty one, and one of two blocks


def sgd_reference(p, g, state, t, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
                  maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        state["b"] = g if t == 1 else momentum * state["b"] + (1 - dampening) * g
        g = g + momentum * state["b"] if nesterov else state["b"]
    return p - lr * g


def adam_reference(p, g, state, t, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False,
                   amsgrad=False, maximize=False):
    g = -g if maximize else g
    if decoupled:
        p = (1 - lr * weight_decay) * p
    else:
        g = g + weight_decay * p
    m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        v = state["largest"] = np.maximum(state.get("largest", 0), v)
    return p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw_reference(p, g, state, t, lr, weight_decay=1e-2, **options):
    return adam_reference(p, g, state, t, lr, weight_decay=weight_decay, decoupled=True, **options)


CASES = [
    (SGD, sgd_reference, dict(lr=0.1)),
    (SGD, sgd_reference, dict(lr=0.1, momentum=0.9, weight_decay=0.1)),
    (SGD, sgd_reference, dict(lr=0.1, momentum=0.9, dampening=0.5)),
    (SGD, sgd_reference, dict(lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True)),
    (SGD, sgd_reference, dict(lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True)),
    (Adam, adam_reference, dict(lr=0.1)),
    (Adam, adam_reference, dict(lr=0.1, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1)),
    (Adam, adam_reference, dict(lr=0.1, betas=(0.5, 0.5), weight_decay=0.1, amsgrad=True, maximize=True)),
    (AdamW, adamw_reference, dict(lr=0.1)),
    (AdamW, adamw_reference, dict(lr=0.1, betas=(0.9, 0.5), amsgrad=True)),
    (AdamW, adamw_reference, dict(lr=0.1, weight_decay=0.5, maximize=True)),
    (AdamW, adamw_reference, dict(lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)),
    (AdamW, adamw_reference, dict(lr=0.1, betas=(0.0, 0.0), eps=1e-2, weight_decay=0.0)),
]
case = pytest.mark.parametrize("optimizer, reference, options", CASES, ids=[f"{c.__name__}-{o}" for c, _, o in CASES])


make_parameters = functools.partial(stepping.make_parameters, shapes=SHAPES)


@case
def test_ten_steps_are_those_of_the_formula(optimizer, reference, options):
    parameters = make_parameters()
    expected, states = values(parameters), [{} for _ in parameters]
    optimizer = optimizer(parameters, **options)
    for t in range(1, 11):
        set_gradients(parameters, seed=t)
        gradients = [parameter.grad.data.copy() for parameter in parameters]
        expected = [reference(p, g, state, t, **options) for p, g, state in zip(expected, gradients, states)]
        optimizer.step()
        for parameter, gradient in zip(parameters, gradients):
            np.testing.assert_array_equal(parameter.grad.data, gradient)
    for parameter, value in zip(parameters, expected):
        np.testing.assert_allclose(parameter.data, value, rtol=1e-12, atol=1e-12)


@case
def test_a_parameter_frozen_after_backward_takes_this_step_and_no_other(optimizer, reference, options):
    """As in PyTorch: what counts is the gradient, which is there until it is cleared."""
    free, frozen = make_parameters(), make_parameters()
    steps = [optimizer(parameters, **options) for parameters in (free, frozen)]
    for parameters in (free, frozen):
        set_gradients(parameters, seed=0)
    for parameter in frozen:
        parameter.requires_grad_(False).requires_grad_(False)  # twice, as by a module and its parent
        assert parameter.grad is not None
    for each in steps:
        each.step()
    after = values(frozen)
    for a, b in zip(values(free), after):
        np.testing.assert_array_equal(a, b)
    steps[1].zero_grad()
    assert all(parameter.grad is None for parameter in frozen)
    steps[1].step()
    for a, b in zip(after, values(frozen)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("optimizer", [Adam, AdamW])
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"maximize": True, "weight_decay": 0.1}])
def test_the_fused_step_is_the_plain_one(optimizer, dtype, tolerance, options):
    """`step` runs a kernel over all parameters at once, and `Optimizer.step` calls `update` for each."""
    fused, plain = make_parameters(dtype=dtype), make_parameters(dtype=dtype)
    steps = optimizer(fused, 0.1, **options), optimizer(plain, 0.1, **options)
    for t in range(5):
        set_gradients(fused, seed=t)
        set_gradients(plain, seed=t)
        steps[0].step()
        Optimizer.step(steps[1])
    for a, b in zip(fused, plain):
        np.testing.assert_allclose(a.data, b.data, rtol=tolerance, atol=tolerance)
        for name, value in steps[0].state.get(a, {}).items():
            np.testing.assert_allclose(steps[1].state[b][name], value, rtol=tolerance, atol=tolerance)
        assert b.dtype == dtype


@case
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_ten_steps_are_pytorchs(optimizer, reference, options, dtype, tolerance):
    pytest.importorskip("torch")
    steps_beside_pytorch(optimizer, make_parameters(dtype=dtype), tolerance, **options)


@case
def test_groups_missing_gradients_and_changed_rates(optimizer, reference, options):
    parameters = make_parameters(shapes=[(3,)] * 4)
    optimizer = optimizer([{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.01}], **options)
    expected, states, counts = values(parameters), [{} for _ in parameters], [0] * 4
    for t in range(1, 7):
        optimizer.param_groups[0]["lr"] = 0.1 / t
        set_gradients(parameters, seed=t)
        if t % 2:
            parameters[1].grad = None
        for i, parameter in enumerate(parameters):
            if parameter.grad is not None:
                counts[i] += 1
                lr = 0.1 / t if i < 2 else 0.01
                expected[i] = reference(expected[i], parameter.grad.data, states[i], counts[i], **{**options, "lr": lr})
        optimizer.step()
    np.testing.assert_allclose(values(parameters), expected, atol=1e-12)
    optimizer.zero_grad()
    before = values(parameters)
    optimizer.step()
    np.testing.assert_array_equal(values(parameters), before)


@case
def test_state_round_trips_bit_for_bit_through_json_and_arrays(optimizer, reference, options):
    parameters = make_parameters()
    first = optimizer([{"params": parameters[:3]}, {"params": parameters[3:], "weight_decay": 0.3}], **options)
    for t in range(3):
        set_gradients(parameters, seed=t)
        first.step()
    saved = copy.deepcopy(first.state_dict())
    arrays = {(number, name): entries.pop(name) for number, entries in saved["state"].items()
              for name in list(entries) if isinstance(entries[name], np.ndarray)}
    restored = json.loads(json.dumps(saved))
    for (number, name), array in arrays.items():
        restored["state"][str(number)][name] = array

    copies = [nn.Parameter(value) for value in values(parameters)]
    second = optimizer([{"params": copies[:3]}, {"params": copies[3:]}], **{**options, "lr": 0.7})
    second.load_state_dict(restored)
    own, loaded = ([group | {"params": 0} for group in each.param_groups] for each in (first, second))
    assert loaded == own
    for t in range(3):
        for optimizer, group in ((first, parameters), (second, copies)):
            set_gradients(group, seed=10 + t)
            optimizer.step()
    for a, b in zip(parameters, copies):
        np.testing.assert_array_equal(a.data, b.data)


@case
def test_a_loaded_state_has_the_dtype_of_the_parameters(optimizer, reference, options):
    [wide], [p] = make_parameters(shapes=[(5,)]), make_parameters(dtype=np.float32, shapes=[(5,)])
    first, second = optimizer([wide], **options), optimizer([p], **options)
    set_gradients([wide], seed=0)
    first.step()
    second.load_state_dict(first.state_dict())
    set_gradients([p], seed=1)
    second.step()
    assert {value.dtype for value in second.state.get(p, {}).values() if np.ndim(value)} <= {p.dtype}


@pytest.mark.parametrize("optimizer", [Adam, AdamW])
def test_amsgrad_of_one_group_among_several(optimizer):
    """Each group by itself, and the state of each is what it needs."""
    together, apart = (make_parameters(shapes=[(3,), (9000,), (4,)]) for _ in range(2))
    options = [{}, {"amsgrad": True, "maximize": True}, {}]
    optimizers = [optimizer([{"params": p, **o} for p, o in zip(together, options)], lr=0.1, betas=(0.9, 0.5)),
                  *(optimizer([p], lr=0.1, betas=(0.9, 0.5), **o) for p, o in zip(apart, options))]
    for t in range(5):
        for group in (together, apart):
            set_gradients(group, seed=t)
        for each in optimizers:
            each.step()
    for a, b in zip(together, apart):
        np.testing.assert_array_equal(a.data, b.data)
    state = optimizers[0].state_dict()["state"]
    assert [("max_exp_avg_sq" in state[i], len(state[i])) for i in range(3)] == [(False, 3), (True, 4), (False, 3)]
    assert (state[1]["max_exp_avg_sq"] >= state[1]["exp_avg_sq"]).all()
    assert (state[1]["max_exp_avg_sq"] > state[1]["exp_avg_sq"]).any()


def test_amsgrad_switched_on_and_off_between_steps():
    [p] = make_parameters(shapes=[(5,)])
    optimizer = Adam([p], lr=0.1, betas=(0.9, 0.5))
    expected, state = p.data.copy(), {}
    for t, amsgrad in enumerate((False, True, True, True, False), start=1):
        optimizer.param_groups[0]["amsgrad"] = amsgrad
        set_gradients([p], seed=t)
        expected = adam_reference(expected, p.grad.data, state, t, 0.1, (0.9, 0.5), amsgrad=amsgrad)
        optimizer.step()
        np.testing.assert_allclose(p.data, expected, rtol=1e-12)
        assert ("max_exp_avg_sq" in optimizer.state[p]) == amsgrad


def test_a_state_of_before_amsgrad_and_maximize_loads():
    """Options that a saved state does not know keep the optimizer's own values."""
    [p] = make_parameters(shapes=[(5,)])
    optimizer = AdamW([p], maximize=True)
    set_gradients([p], seed=0)
    optimizer.step()
    old = copy.deepcopy(optimizer.state_dict())
    for name in ("amsgrad", "maximize"):
        del old["param_groups"][0][name]
    optimizer.load_state_dict(old)
    assert optimizer.param_groups[0]["maximize"] is True and optimizer.param_groups[0]["amsgrad"] is False
    with pytest.raises(ValueError, match="holds step, exp_avg, exp_avg_sq; expected step, exp_avg, exp_avg_sq, max_exp"):
        AdamW([p], amsgrad=True).load_state_dict(old)


def test_a_state_with_amsgrad_brings_the_option_along():
    [p] = make_parameters(shapes=[(5,)])
    set_gradients([p], seed=0)
    first, second = AdamW([p], amsgrad=True), AdamW([p])
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["amsgrad"] is True
    np.testing.assert_array_equal(second.state[p]["max_exp_avg_sq"], first.state[p]["max_exp_avg_sq"])


def test_nan_stays_nan_with_amsgrad():
    p = nn.Parameter(np.ones(3))
    optimizer = AdamW([p], lr=0.1, amsgrad=True)
    for gradient in ([1.0, np.nan, 2.0], [1.0, 1.0, 1.0]):
        p.grad = mg.tensor(np.array(gradient))
        optimizer.step()
    for array in (p.data, optimizer.state[p]["max_exp_avg_sq"]):
        np.testing.assert_array_equal(np.isnan(array), [False, True, False])


def test_a_state_that_does_not_fit_changes_nothing():
    parameters = make_parameters(shapes=[(2,), (3,)])
    optimizer = AdamW(parameters)
    set_gradients(parameters, seed=0)
    optimizer.step()
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
    step = optimizer.state_dict()["state"][0]["step"]
    assert step == 1 and type(step) is int and optimizer.param_groups[0]["lr"] == 1e-3


def test_parameters_added_later_copied_or_replaced():
    parameters = make_parameters(shapes=[(3,), (4,)])
    optimizer, whole = AdamW(parameters[:1]), AdamW(twins := make_parameters(shapes=[(3,), (4,)]))
    for t in range(3):
        set_gradients(parameters, seed=t)
        set_gradients(twins, seed=t)
        if t == 1:
            optimizer.add_param_group({"params": parameters[1]})
            parameters[0].data = parameters[0].data.copy()
            other_parameters, other = copy.deepcopy((parameters, optimizer))
        if t == 0:
            twins[1].grad = None
        optimizer.step()
        whole.step()
    np.testing.assert_array_equal(np.concatenate(values(parameters)), np.concatenate(values(twins)))
    for t in (1, 2):
        set_gradients(other_parameters, seed=t)
        other.step()
    np.testing.assert_array_equal(np.concatenate(values(other_parameters)), np.concatenate(values(parameters)))


@case
def test_a_loaded_or_copied_state_is_its_own(optimizer, reference, options):
    """Also where the optimizer has made steps of its own before."""
    firsts, seconds = make_parameters(shapes=[(3,)]), make_parameters(seed=1, shapes=[(3,)])
    first, second = optimizer(firsts, **options), optimizer(seconds, **options)
    for t, (each, parameters) in enumerate(((first, firsts), (second, seconds), (second, seconds))):
        set_gradients(parameters, seed=t)
        each.step()
    seconds[0].data[...] = firsts[0].data
    second.load_state_dict(first.state_dict())
    thirds, third = copy.deepcopy((firsts, first))
    for each, parameters in ((first, firsts), (second, seconds), (third, thirds)):
        set_gradients(parameters, seed=5)
        each.step()
    np.testing.assert_array_equal(values(seconds), values(firsts))
    np.testing.assert_array_equal(values(thirds), values(firsts))
    for name, value in first.state_dict()["state"].get(0, {}).items():
        np.testing.assert_array_equal(third.state_dict()["state"][0][name], value)


@case
def test_what_becomes_of_a_gradient_afterwards_does_not_matter(optimizer, reference, options):
    kept, spoilt = (make_parameters(shapes=[(3,)]) for _ in range(2))
    optimizers = optimizer(kept, **options), optimizer(spoilt, **options)
    for t in range(3):
        for each, parameters in zip(optimizers, (kept, spoilt)):
            set_gradients(parameters, seed=t)
            each.step()
        spoilt[0].grad.data[...] = 7.0
    np.testing.assert_array_equal(values(kept), values(spoilt))


@case
def test_defaults_are_pytorchs(optimizer, reference, options):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.optim, optimizer.__name__)([torch.nn.Parameter(torch.ones(1))]).defaults
    ours = optimizer(make_parameters(shapes=[(1,)])).defaults
    assert ours == {name: theirs[name] for name in ours}


@case
def test_graphs_of_before_a_step_are_refused(optimizer, reference, options):
    (p,) = make_parameters(shapes=[(3,)])
    loss = (p * p).sum()
    set_gradients([p], seed=0)
    optimizer([p], **options).step()
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


def test_graphs_of_before_a_clipping_are_refused():
    (p,) = make_parameters(shapes=[(3,)])
    set_gradients([p], seed=0)
    loss = (p.grad * p).sum()
    clip_grad_norm_([p], 1e-3)
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


def test_gradients_are_forgotten_or_zero():
    parameters = make_parameters(shapes=[(3,), (2,)])
    optimizer = SGD(parameters)
    set_gradients(parameters, seed=0)
    arrays = [parameter.grad.array for parameter in parameters]
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad.array is array and not array.any() for p, array in zip(parameters, arrays))
    optimizer.zero_grad()
    assert all(p.grad is None for p in parameters)


def test_a_gradient_of_another_shape():
    (p,) = make_parameters(shapes=[(3,)])
    set_gradients([p], seed=0)
    p.grad.array = np.ones(4)
    with pytest.raises(ValueError, match=r"gradient of shape \(4,\) and dtype float64 for a parameter of shape \(3,\)"):
        AdamW([p]).step()


def test_repr():
    text = repr(SGD(make_parameters(shapes=[(3,), (2,)]), lr=0.5))
    assert text == ("SGD(\n  2 parameters: lr=0.5, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, "
                    "maximize=False\n)")


def test_odd_arrays_are_updated_like_plain_ones():
    unaligned = np.frombuffer(bytearray(49), np.float64, offset=1)
    arrays = [np.arange(12.0).reshape(3, 4).T, np.arange(12.0)[::2], unaligned]
    odd, plain = ([nn.Parameter(mg.from_numpy(array)) for array in group] for group in (arrays, [array.copy() for array in arrays]))
    optimizers = AdamW(odd, lr=0.1), AdamW(plain, lr=0.1)
    for t in range(3):
        set_gradients(plain, seed=t)
        for array, parameter in zip(arrays, plain):  # written to between steps
            array += t
            parameter.data += t
        for a, b in zip(odd, plain):
            a.grad = mg.from_numpy(np.repeat(b.grad.data, 2, axis=-1)[..., ::2])
        for optimizer in optimizers:
            optimizer.step()
    for parameter, array, expected in zip(odd, arrays, plain):
        assert parameter.array is array
        np.testing.assert_array_equal(array, expected.data)


@pytest.mark.parametrize("dtypes", [(np.float32,), (np.float32, np.float64)])
def test_clipping_on_the_way_is_clipping_before(dtypes):
    ours, theirs = ([nn.Parameter(p.data.astype(dtypes[i % len(dtypes)])) for i, p in enumerate(make_parameters())]
                    for _ in range(2))
    fused, plain = AdamW(ours, lr=0.1, max_grad_norm=0.5), AdamW(theirs, lr=0.1)
    for t in range(3):
        set_gradients(ours, seed=t)
        set_gradients(theirs, seed=t)
        expected = math.sqrt(sum((p.grad.data.astype(float) ** 2).sum() for p in ours))
        norm = clip_grad_norm_(theirs, 0.5)
        fused.step()
        plain.step()
        assert norm == pytest.approx(expected, rel=1e-12) and fused.grad_norm == norm
        assert clip_grad_norm_(theirs, math.inf) == pytest.approx(0.5, rel=1e-5)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-5, atol=1e-6)


def test_clip_is_pytorchs():
    torch = pytest.importorskip("torch")
    for max_norm, spoil in ((1.0, None), (1e6, None), (1.0, np.nan), (1.0, np.inf)):
        ours = make_parameters() + [nn.Parameter(np.ones(3))]
        set_gradients(ours[:-1], seed=0)
        if spoil is not None:
            ours[4].grad.data[5] = spoil
        theirs = [torch.nn.Parameter(torch.tensor(p.data)) for p in ours]
        for a, b in zip(ours, theirs):
            b.grad = None if a.grad is None else torch.tensor(a.grad.data)
        norm = clip_grad_norm_(iter(ours), max_norm)
        expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm).item()
        np.testing.assert_allclose(norm, expected, rtol=1e-12)
        for a, b in zip(ours[:-1], theirs):
            np.testing.assert_allclose(a.grad.data, b.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("norm_type", [1, 2, 3.5, math.inf, "inf", 0.5])
@pytest.mark.parametrize("max_norm", [0.1, 1e9])
def test_norms_of_any_order(norm_type, max_norm):
    parameters = [nn.Parameter(p.data.astype([np.float32, np.float64][i % 2])) for i, p in enumerate(make_parameters())]
    set_gradients(parameters[:-1], seed=0)
    everything = np.concatenate([p.grad.data.ravel().astype(float) for p in parameters[:-1]])
    p = float(norm_type)
    norm = abs(everything).max() if p == math.inf else (abs(everything) ** p).sum() ** (1 / p)
    assert nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=norm_type) == pytest.approx(norm, rel=1e-12)
    clipped = np.concatenate([p.grad.data.ravel().astype(float) for p in parameters[:-1]])
    np.testing.assert_allclose(clipped, everything * min(1, max_norm / (norm + 1e-6)), rtol=1e-6)


def test_norms_of_any_order_are_pytorchs():
    torch = pytest.importorskip("torch")
    for norm_type in (1, 2.0, 3.0, math.inf):
        ours = make_parameters()
        set_gradients(ours, seed=0)
        theirs = [torch.nn.Parameter(torch.tensor(p.data)) for p in ours]
        for a, b in zip(ours, theirs):
            b.grad = torch.tensor(a.grad.data)
        theirs = [p for p in theirs if p.numel()]  # PyTorch has no inf norm of nothing
        norm = clip_grad_norm_(ours, 0.5, norm_type)
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.5, norm_type).item(), rel=1e-12)
        for a, b in zip((p for p in ours if p.numel()), theirs, strict=True):
            np.testing.assert_allclose(a.grad.data, b.grad.numpy(), rtol=1e-12)


def test_a_norm_neither_overflows_nor_loses_a_nan():
    big, small = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(1))
    big.grad, small.grad = mg.tensor(np.array([3e200, 4e200])), mg.tensor(np.array([0.0]))
    assert clip_grad_norm_([big, small], math.inf, norm_type=3) == pytest.approx(91 ** (1 / 3) * 1e200)
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
    np.testing.assert_array_equal(p.grad.data, [bad, 1.0])
    assert not math.isfinite(clip_grad_norm_([p], 0.5, norm_type))  # no error unless asked for
    p.grad = mg.tensor(np.array([3.0, 4.0]))
    assert clip_grad_norm_([p], 0.5, error_if_nonfinite=True) == 5


def test_clip_grad_value():
    p, q, unused = make_parameters(shapes=[(3,), (), (2,)], dtype=np.float32)
    p.grad, q.grad = mg.tensor([-2.0, 0.25, math.nan]), mg.tensor(3.0)
    assert nn.utils.clip_grad_value_([p, q, unused], 0.5) is None
    np.testing.assert_array_equal(p.grad.data, np.array([-0.5, 0.25, np.nan], np.float32))
    assert q.grad.item() == 0.5 and unused.grad is None and p.grad.dtype == mg.float32
    clip_grad_value_(q, 0.125)  # one parameter
    assert q.grad.item() == 0.125


def test_the_number_of_threads_changes_no_bit():
    results = []
    threads = mg.get_num_threads()
    try:
        for count in {1, threads}:
            mg.set_num_threads(count)
            parameters = make_parameters(shapes=[(100, 300), (7,), (40000,)], dtype=np.float32)
            optimizer = AdamW(parameters, max_grad_norm=1.0)
            for t in range(3):
                set_gradients(parameters, seed=t)
                optimizer.step()
            results.append([optimizer.grad_norm, clip_grad_norm_(parameters, 1.0), *values(parameters)])
    finally:
        mg.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dead_moments_become_zero_and_nan_stays_nan(dtype):
    dead, live, broken = parameters = make_parameters(shapes=[(5,)] * 3, dtype=dtype)
    optimizer = AdamW(parameters, betas=(1e-3, 1e-3), weight_decay=0.0)
    set_gradients(parameters, seed=0)
    broken.grad.data[2] = np.nan
    for _ in range(120):
        optimizer.step()
        dead.grad.data[...] = 0
    assert not optimizer.state[dead]["exp_avg"].any() and not optimizer.state[dead]["exp_avg_sq"].any()
    assert optimizer.state[live]["exp_avg"].all() and np.isfinite(dead.data).all()
    np.testing.assert_array_equal(np.isnan(broken.data), [False, False, True, False, False])


P = make_parameters(shapes=[(2,)])


@pytest.mark.parametrize("misuse, error, words", [
    (lambda: SGD([]), ValueError, "empty parameter list"),
    (lambda: SGD(P[0]), TypeError, "iterable"),
    (lambda: SGD([1]), TypeError, "can only optimise Tensors"),
    (lambda: SGD(nn.Linear(2, 2).named_parameters()), TypeError, "not named_parameters"),
    (lambda: SGD([mg.arange(3)]), ValueError, "non-float"),
    (lambda: SGD([P[0] * 2]), ValueError, "non-leaf"),
    (lambda: AdamW(P + P), ValueError, "given twice"),
    (lambda: AdamW([{"params": P}, {"params": P}]), ValueError, "given twice"),
    (lambda: AdamW([{"parameters": P}]), TypeError, "'params'"),
    (lambda: AdamW(P, lr=-1.0), ValueError, "AdamW: lr must be a finite number >= 0, got -1.0"),
    (lambda: AdamW(P, lr=math.nan), ValueError, "lr must be"),
    (lambda: AdamW(P, lr="fast"), ValueError, "lr must be"),
    (lambda: AdamW([{"params": P, "lr": math.inf}]), ValueError, "lr must be"),
    (lambda: AdamW(P, betas=(0.9, 1.0)), ValueError, "betas must be two numbers from 0 to below 1"),
    (lambda: AdamW(P, betas=0.9), ValueError, "betas"),
    (lambda: AdamW(P, eps=-1e-8), ValueError, "eps"),
    (lambda: AdamW(P, weight_decay=-0.1), ValueError, "weight_decay"),
    (lambda: AdamW(P, max_grad_norm=0.0), ValueError, "max_grad_norm must be positive"),
    (lambda: SGD(P, momentum=math.nan), ValueError, "momentum"),
    (lambda: SGD(P, nesterov=True), ValueError, "Nesterov momentum requires"),
    (lambda: AdamW(P, amsgrad=1), ValueError, "amsgrad must be True or False, got 1"),
    (lambda: SGD(P, maximize="no"), ValueError, "maximize must be True or False"),
    (lambda: clip_grad_norm_(P, math.nan), ValueError, "max_norm must be positive"),
    (lambda: clip_grad_norm_(P, 1.0, norm_type=0), ValueError, "norm_type must be positive, got 0.0"),
    (lambda: clip_grad_value_(P, -1.0), ValueError, "clip_value must not be negative, got -1.0"),
    (lambda: Optimizer(P, {}).update(P[0].data, P[0].data, {}, {}), NotImplementedError, "Optimizer has no update"),
])
def test_misuse(misuse, error, words):
    with pytest.raises(error) as raised:
        misuse()
    assert words in str(raised.value)


def test_a_parameter_that_changed_its_dtype_is_an_error():
    layer = nn.Linear(2, 2)
    optimizer = AdamW(layer.parameters())
    layer(mg.ones(1, 2)).sum().backward()
    optimizer.step()
    layer.double()
    with pytest.raises(RuntimeError, match="make the optimizer after model.to"):
        optimizer.step()


def test_a_gradient_that_comes_back_after_a_pause_counts():
    p = nn.Parameter(mg.tensor([1.0]))
    optimizer = nn.optim.AdamW([p], lr=0.1)
    gradient = mg.tensor([1.0])  # one array throughout, as a compiled step has it
    for present in (True, False, True):
        before = p.item()
        p.grad = gradient if present else None
        optimizer.step()
        assert (p.item() != before) == present


def test_a_new_gradient_counts_while_the_one_before_is_held():
    p = nn.Parameter(mg.tensor([1.0]))
    optimizer = nn.optim.AdamW([p], lr=0.1, betas=(0.0, 0.0), weight_decay=0.0)
    up, down = mg.tensor([-1.0]), mg.tensor([1.0])
    for gradient, expected in ((up, 1.1), (down, 1.0), (up, 1.1)):
        p.grad = gradient
        optimizer.step()
        assert p.item() == pytest.approx(expected)
