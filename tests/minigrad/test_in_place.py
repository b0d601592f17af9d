"""Writing in place: right where it can be, otherwise an error, and never a silently wrong gradient."""
import numpy as np
import pytest

import minigrad as mg


def leaf(*values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


MODIFIED = "modified by an inplace operation"


def test_without_a_graph_the_memory_is_written():
    x = mg.ones(2)
    data = x.data
    x += 1.0
    x *= mg.tensor([2.0, 3.0])
    x[0] = -1.0
    x.sub_(1.0, alpha=2).div_(2)
    assert x.data is data and x.tolist() == [-1.5, 2.0]
    assert x.zero_().fill_(3).copy_(mg.tensor([1, 2])).tolist() == [1.0, 2.0]


def test_on_the_tape_in_place_methods_are_differentiated():
    x, w = leaf(1.0, 2.0, 3.0), leaf(5.0, 6.0, 7.0)
    y = x * 2.0
    y += w
    y *= y.detach() * 0 + 3.0
    y /= 2.0
    y[1] = w[0] * w[0]
    y.backward(mg.tensor([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(y.data, [1.5 * 7, 25, 1.5 * 13])
    np.testing.assert_allclose(x.grad.data, [3, 0, 300])
    np.testing.assert_allclose(w.grad.data, [1.5 + 100, 0, 150])


def test_overwriting_cuts_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2.0
    y.zero_()
    assert not y.requires_grad
    y.copy_(x)
    (y * x).backward(mg.ones(2))
    np.testing.assert_allclose(x.grad.data, [2, 4])


@pytest.mark.parametrize("write", [
    lambda t: t.add_(1.0), lambda t: t.mul_(2.0), lambda t: t.zero_(), lambda t: t.__setitem__(0, 1.0),
    lambda t: t.copy_(mg.zeros(2)), lambda t: t.view(2, 1).fill_(0.0), lambda t: t.detach().add_(1.0),
])  # fmt: skip
@pytest.mark.parametrize("use", [lambda y: y * y, lambda y: y.exp(), lambda y: y.reshape(2, 1) * y.reshape(1, 2)])
def test_a_saved_array_that_changes_is_an_error(use, write):
    x = leaf(1.0, 2.0)
    y = x * 1.0
    out = use(y)
    out = out if use(y.detach()).shape == (2, 2) else out * 1.0
    if out.ndim == 1 and np.allclose(out.data, np.exp([1, 2])):  # exp has saved its output
        exp = y.exp()
        with mg.no_grad():
            write(exp)
        with pytest.raises(RuntimeError, match=MODIFIED):
            exp.backward(mg.ones(2))
        return
    with mg.no_grad():
        write(y)
    with pytest.raises(RuntimeError, match=MODIFIED):
        out.backward(mg.ones(out.shape))


def test_a_change_after_a_use_that_saves_nothing_is_right():
    x = leaf(1.0, 2.0)
    y = x * 1.0
    out = y + 1.0
    y.mul_(5.0)
    (out + y).backward(mg.ones(2))
    np.testing.assert_allclose(x.grad.data, [6, 6])


def test_a_view_that_was_changed_through_another_is_refused():
    x = leaf(1.0, 2.0)
    y = x * 1.0
    first = y[:1]
    y *= 2.0
    with pytest.raises(RuntimeError, match="changed by an inplace operation on another tensor"):
        first * 3.0
    (y[:1] * 3.0).backward(mg.ones(1))
    np.testing.assert_allclose(x.grad.data, [6, 0])
    base = x * 1.0
    base[0].mul_(4.0)
    with pytest.raises(RuntimeError, match="changed by an inplace operation on another tensor"):
        base * 1.0


def test_leaves_are_written_to_under_no_grad_only():
    x = leaf(1.0, 2.0)
    for write in (lambda: x.add_(1.0), lambda: x.__setitem__(0, 1.0), lambda: x.zero_()):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            write()
    with mg.no_grad():
        x -= 0.5
        x[1] = 0.0
    assert x.tolist() == [0.5, 0.0] and x.is_leaf and x.requires_grad
    (x * x).backward(mg.ones(2))
    np.testing.assert_allclose(x.grad.data, [1, 0])


def test_an_optimiser_step_invalidates_the_graphs_before_it():
    import nn

    weight = nn.Parameter(mg.ones(2, 2))
    loss = (mg.ones(1, 2) @ weight * weight).sum()
    for optimizer in (nn.optim.SGD([weight], lr=0.1), nn.optim.AdamW([weight], lr=0.1)):
        weight.grad = mg.ones(2, 2)
        optimizer.step()
        with pytest.raises(RuntimeError, match=MODIFIED):
            loss.backward(retain_graph=True)
        loss = (mg.ones(1, 2) @ weight * weight).sum()
        loss.backward(retain_graph=True)


def test_wrong_shapes_and_dtypes_are_refused():
    with pytest.raises(ValueError, match="does not fit into a tensor of"):
        mg.ones(2).add_(mg.ones(3, 2))
    with pytest.raises(TypeError, match="can't be cast to int64"):
        mg.tensor([1]).add_(0.5)
    with pytest.raises(ValueError, match="an index occurs twice"):
        (leaf(1.0, 2.0) * 1.0)[[0, 0]] = mg.ones(2, requires_grad=True)


def test_anomaly_detection_sees_changes_behind_the_tapes_back():
    x = leaf(1.0, 2.0)
    with mg.detect_anomaly():
        y = x * 1.0
        out = y * y
        y.data[0] = 7.0
        with pytest.raises(RuntimeError, match="an array that Mul saved has changed"):
            out.backward(mg.ones(2))
