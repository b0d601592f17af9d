"""Muon, and optimisers that step as one."""
import copy
import json

import numpy as np
import pytest

import minigrad as mg
import nn
from nn.optim import SGD, AdamW, Joined, Muon, Optimizer
from stepping import make_parameters, set_gradients, steps_beside_pytorch, values

SHAPES = [(4, 4), (3, 7), (9, 2), (1, 5), (6, 1), (0, 3), (70, 66)]
COEFFICIENTS = 3.4445, -4.7750, 2.0315
OPTIONS = [
    dict(lr=0.1),
    dict(lr=0.1, weight_decay=0.5, momentum=0.5, nesterov=False),
    dict(lr=0.1, momentum=0.0, ns_steps=1, ns_coefficients=(1.5, -0.5, 0.1)),
    dict(lr=0.1, adjust_lr_fn="match_rms_adamw", eps=30.0),
    dict(lr=0.1, adjust_lr_fn="original", ns_steps=0),
    dict(lr=0.1, adjust_lr_fn="match_rms_adamw", weight_decay=0.0, ns_steps=2),
]
DTYPES = [(np.float32, 2e-5), (np.float64, 1e-11)]  # tolerances relative to the steps' size


def reference(p, g, m, lr, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=COEFFICIENTS, eps=1e-7, ns_steps=5,
              adjust_lr_fn=None):
    """(p, m) after a step: by the singular values, which the iteration maps one by one."""
    m = momentum * m + (1 - momentum) * g
    u, s, v = np.linalg.svd((1 - momentum) * g + momentum * m if nesterov else m, full_matrices=False)
    s = s / max(np.sqrt((s * s).sum()), eps)
    polynomials = [ns_coefficients] * ns_steps if np.ndim(ns_coefficients) == 1 else ns_coefficients
    for a, b, c in polynomials:
        s = a * s + b * s**3 + c * s**5
    rows, columns = p.shape
    scale = 0.2 * max(rows, columns) ** 0.5 if adjust_lr_fn == "match_rms_adamw" else max(1, rows / columns) ** 0.5
    return p - lr * weight_decay * p - lr * scale * (u * s) @ v, m


@pytest.mark.parametrize("step", [Muon.step, Optimizer.step], ids=["step", "update"])
@pytest.mark.parametrize("options", [*OPTIONS, dict(lr=0.1, ns_steps=2, ns_coefficients=((3.0, -4.0, 2.0), (1.5, -0.5, 0)))])
@pytest.mark.parametrize("dtype, tolerance", DTYPES)
def test_ten_steps_are_those_of_the_formula(step, options, dtype, tolerance):
    """`step` works on all matrices at once, and `Optimizer.step` calls `update` for each."""
    parameters = [p for p in make_parameters(SHAPES, dtype) if p.numel()]
    expected, moments = values(parameters), [np.zeros(p.shape) for p in parameters]
    optimizer = Muon(parameters, **options)
    for t in range(10):
        set_gradients(parameters, seed=t)
        for i, p in enumerate(parameters):
            expected[i], moments[i] = reference(expected[i].astype(float), p.grad.data.astype(float), moments[i], **options)
        step(optimizer)
    for p, value, m in zip(parameters, expected, moments):
        np.testing.assert_allclose(p.data, value, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(optimizer.state[p]["momentum_buffer"], m, rtol=tolerance, atol=tolerance)
        assert p.dtype == dtype


@pytest.mark.parametrize("options", [{}, *OPTIONS])
@pytest.mark.parametrize("dtype, tolerance", DTYPES)
def test_ten_steps_are_pytorchs(options, dtype, tolerance, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # it rounds what it orthogonalises
    parameters = [p for p in make_parameters(SHAPES, dtype) if p.numel()]
    ours, theirs = (each.param_groups[0] for each in steps_beside_pytorch(Muon, parameters, tolerance, **options))
    assert {name: ours[name] for name in theirs if name != "params"} == {
        name: value for name, value in theirs.items() if name != "params"}


def cut(matrix, down, across):
    return [block.copy() for rows in np.split(matrix, down) for block in np.split(rows, across, axis=1)]


@pytest.mark.parametrize("step", [Muon.step, Optimizer.step], ids=["step", "update"])
@pytest.mark.parametrize("blocks", [(3, 1), (1, 2), (3, 2)])
def test_blocks_are_orthogonalised_apart(step, blocks):
    whole = make_parameters([(12, 10)])
    parts = [nn.Parameter(part) for part in cut(whole[0].data, *blocks)]
    options = dict(lr=0.1, adjust_lr_fn="match_rms_adamw")
    first = Muon([{"params": whole, "blocks": 3 if blocks == (3, 1) else blocks}], **options)
    second = Muon(parts, **options)
    for t in range(3):
        set_gradients(whole, seed=t)
        for part, gradient in zip(parts, cut(whole[0].grad.data, *blocks)):
            part.grad = mg.Tensor(gradient)
        step(first)
        second.step()
    for part, block in zip(parts, cut(whole[0].data, *blocks)):
        np.testing.assert_allclose(part.data, block, rtol=1e-11)


def test_blocks_changed_between_steps():
    parameters, others = make_parameters([(4, 4)]), make_parameters([(4, 4)])
    optimizers = Muon(parameters, lr=0.1), Muon(others, lr=0.1)
    for t, blocks in enumerate((1, 2, (2, 2))):
        for group, optimizer, step in zip((parameters, others), optimizers, (Muon.step, Optimizer.step)):
            set_gradients(group, seed=t)
            optimizer.param_groups[0]["blocks"] = blocks
            step(optimizer)
    np.testing.assert_allclose(parameters[0].data, others[0].data, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_the_size_of_gradients_does_not_count(size):
    """Also where their squares would leave the range of float32; but below eps, the step shrinks with them."""
    parameters = make_parameters([(5, 8), (8, 5)], np.float32)
    before = values(parameters)
    optimizer = Muon(parameters, lr=0.1, weight_decay=0.0, eps=0.0)
    set_gradients(parameters, seed=0)
    for p in parameters:
        p.grad = mg.Tensor(p.grad.data * np.float32(size))
    expected = [reference(p.astype(float), q.grad.data / np.float64(size), 0.0, lr=0.1, weight_decay=0.0)[0]
                for p, q in zip(before, parameters)]
    optimizer.step()
    for p, value in zip(parameters, expected):
        np.testing.assert_allclose(p.data, value, atol=2e-5)


def test_no_gradient_zero_gradients_and_nan():
    parameters = make_parameters([(3, 3)] * 3)
    before = values(parameters)
    optimizer = Muon(parameters, lr=0.1, weight_decay=0.5)
    parameters[1].grad, parameters[2].grad = mg.zeros(3, 3, dtype=mg.float64), mg.full((3, 3), np.nan, dtype=mg.float64)
    optimizer.step()
    np.testing.assert_array_equal(parameters[0].data, before[0])
    np.testing.assert_allclose(parameters[1].data, 0.95 * before[1], rtol=1e-15)
    assert np.isnan(parameters[2].data).all() and (optimizer.state[parameters[0]]["momentum_buffer"] == 0).all()


def test_odd_layouts():
    """Parameters that a kernel cannot take as they are."""
    plain, odd = make_parameters([(6, 4)]), make_parameters([(6, 4)])
    odd[0].data = np.asfortranarray(odd[0].data)
    optimizers = Muon(plain, lr=0.1, blocks=2), Muon(odd, lr=0.1, blocks=2)
    for t in range(2):
        for parameters, optimizer in zip((plain, odd), optimizers):
            set_gradients(parameters, seed=t)
            optimizer.step()
    np.testing.assert_array_equal(plain[0].data, odd[0].data)


@pytest.mark.skipif(mg.get_num_threads() < 2, reason="needs two threads")
@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads(threads):
    before = mg.get_num_threads()
    shapes = [(96, 64), (64, 96), (33, 33), (64, 64), (64, 200)]
    parameters, others = make_parameters(shapes, np.float32), make_parameters(shapes, np.float32)
    for group in (parameters, others):
        optimizer = Muon(group, lr=0.1)
        try:
            mg.set_num_threads(threads if group is others else before)
            for t in range(2):
                set_gradients(group, seed=t)
                optimizer.step()
        finally:
            mg.set_num_threads(before)
    for a, b in zip(parameters, others):
        np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.parametrize("options", [dict(ns_coefficients=((3.0, -4.0, 2.0), (1.5, -0.5, 0.0)), ns_steps=2, blocks=(3, 2)),
                                     dict(adjust_lr_fn="match_rms_adamw")])
def test_state_round_trips_bit_for_bit_through_json_and_arrays(options):
    parameters = make_parameters([(3, 4), (6, 2)])
    first = Muon(parameters, lr=0.1, **options)
    for t in range(3):
        set_gradients(parameters, seed=t)
        first.step()
    saved = first.state_dict()
    restored = json.loads(json.dumps(saved | {"state": {}}))
    restored["state"] = {str(number): dict(entries) for number, entries in saved["state"].items()}
    copies = [nn.Parameter(value) for value in values(parameters)]
    second = Muon(copies, lr=0.7)
    set_gradients(copies, seed=9)
    second.load_state_dict(restored)
    for group, optimizer in ((parameters, first), (copies, second)):
        for t in range(3, 5):
            set_gradients(group, seed=t)
            optimizer.step()
    for p, q in zip(parameters, copies):
        np.testing.assert_array_equal(p.data, q.data)


@pytest.mark.parametrize("shape, options, says", [
    ((3,), {}, "Muon only supports 2D parameters whereas we found a parameter with size: \\(3,\\)"),
    ((3, 2, 2), {}, "Muon only supports 2D parameters"),
    ((4, 3), dict(blocks=3), "blocks must divide the rows and columns of a matrix, got blocks=3 and a matrix of \\(4, 3\\)"),
    ((4, 3), dict(blocks=0), "blocks must be a whole number from 1, or two of them, got 0"),
    ((4, 3), dict(blocks=(2, 2)), "blocks must divide the rows and columns"),
    ((4, 3), dict(blocks=1.0), "blocks must be a whole number"),
    ((4, 3), dict(blocks=(1, 1, 1)), "blocks must be a whole number"),
    ((4, 3), dict(lr=-1.0), "lr must be"),
    ((4, 3), dict(momentum=-1.0), "momentum must be"),
    ((4, 3), dict(weight_decay=-1.0), "weight_decay must be"),
    ((4, 3), dict(nesterov=1), "nesterov must be True or False"),
    ((4, 3), dict(adjust_lr_fn="none"), "adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got 'none'"),
    ((4, 3), dict(ns_steps=100), "ns_steps must be a whole number from 0 to 99"),
    ((4, 3), dict(ns_steps=2.0), "ns_steps must be"),
    ((4, 3), dict(ns_coefficients=(1.0, 2.0)), "ns_coefficients must be three finite numbers"),
    ((4, 3), dict(ns_coefficients=(1.0, 2.0, np.nan)), "ns_coefficients must be three finite numbers"),
    ((4, 3), dict(ns_coefficients=((1, 2, 3), (1, 2))), "ns_coefficients must be three finite numbers"),
    ((4, 3), dict(ns_coefficients=(COEFFICIENTS,) * 4), "or 5 of them, for ns_steps=5, got 4"),
    ((4, 3), dict(max_grad_norm=0.0), "max_grad_norm must be positive"),
])
def test_bad_options(shape, options, says):
    with pytest.raises(ValueError, match=says):
        Muon(make_parameters([shape]), **options)


def test_a_bad_group_is_not_kept():
    optimizer = Muon(make_parameters([(2, 2)]))
    with pytest.raises(ValueError, match="only supports 2D"):
        optimizer.add_param_group({"params": make_parameters([(3,)])})
    assert len(optimizer.param_groups) == 1


def joined(max_grad_norm=None):
    matrices, others = make_parameters([(4, 4), (6, 3)]), make_parameters([(3,), (2, 2)], seed=1)
    muon, adamw = Muon([{"params": matrices[:1]}, {"params": matrices[1:], "blocks": 2}], lr=0.1), AdamW(others, lr=0.01)
    return matrices + others, Joined([muon, adamw], max_grad_norm)


def test_joined_optimizers_step_as_each_by_itself():
    together, optimizer = joined(max_grad_norm=2.0)
    apart, parts = joined()
    for t in range(3):
        for parameters in (together, apart):
            set_gradients(parameters, seed=t)
        gradients = [p.grad.data.copy() for p in together]
        optimizer.step()
        length = nn.optim.clip_grad_norm_(apart, 2.0)
        for each in parts.optimizers:
            each.step()
        assert optimizer.grad_norm == pytest.approx(length, rel=1e-12) and length > 2
        for p, gradient in zip(together, gradients):
            np.testing.assert_array_equal(p.grad.data, gradient)
    for p, q in zip(together, apart):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-12)
    optimizer.zero_grad()
    assert all(p.grad is None for p in together)


def test_joined_state_round_trips():
    firsts, first = joined()
    seconds, second = joined()
    for t in range(3):
        set_gradients(firsts, seed=t)
        first.step()
    set_gradients(seconds, seed=7)
    second.step()
    first.param_groups[1]["lr"] = first.param_groups[2]["lr"] = 0.05
    state = copy.deepcopy(first.state_dict())
    assert list(state["state"]) == [0, 1, 2, 3] and [len(group["params"]) for group in state["param_groups"]] == [1, 1, 2]
    assert [set(entries) for entries in state["state"].values()] == 2 * [{"momentum_buffer"}] + 2 * [
        {"step", "exp_avg", "exp_avg_sq"}]
    broken = copy.deepcopy(state)
    del broken["state"][3]["step"]
    with pytest.raises(ValueError, match="state of parameter 3 holds exp_avg, exp_avg_sq; expected step"):
        second.load_state_dict(broken)
    second.load_state_dict(state)
    thirds, third = copy.deepcopy((firsts, first))
    for p, q in zip(firsts, seconds):
        q.data[...] = p.data
    for parameters, optimizer in ((firsts, first), (seconds, second), (thirds, third)):
        set_gradients(parameters, seed=8)
        optimizer.step()
    for p, q, r in zip(firsts, seconds, thirds):
        np.testing.assert_array_equal(p.data, q.data)
        np.testing.assert_array_equal(p.data, r.data)


def test_a_schedule_of_joined_optimizers():
    _, optimizer = joined()
    nn.optim.StepLR(optimizer, step_size=1, gamma=0.5).step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.05, 0.005]


def test_what_cannot_be_joined():
    (p,) = make_parameters([(2, 2)])
    for arguments, error, says in (
            (([SGD([p])],), TypeError, "can only join Adam, AdamW and Muon, got SGD"),
            ((Muon([p]),), TypeError, "expected a list of optimizers, got Muon"),
            (([],), ValueError, "expected at least one optimizer"),
            (([Muon([p]), AdamW([p])],), ValueError, "a parameter was given to two optimizers"),
            (([AdamW([p], max_grad_norm=1.0)],), ValueError, "give max_grad_norm to Joined, not to AdamW"),
            (([AdamW([p])], -1.0), ValueError, "Joined: max_grad_norm must be positive")):
        with pytest.raises(error, match=says):
            Joined(*arguments)
    with pytest.raises(TypeError, match="add the group to one of the optimizers"):
        Joined([AdamW([p])]).add_param_group({"params": make_parameters([(1,)])})
