"""Writing in place: the right gradient if possible, otherwise an error, and never a silently wrong gradient."""
import contextlib
import copy
import functools
import math
import pickle
import weakref

import numpy as np
import pytest

import minigrad as mg
import nn
from cases import CASES
from minigrad.arrays import versions
from minigrad.ops.matmul import Linear
from minigrad.ops.kinds import View
from minigrad.ops.operands import call


def leaf(*values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


MODIFIED = "modified by an inplace operation"


def test_without_a_graph_the_memory_is_written():
    x = mg.ones(2)
    array = x.array
    x += 1.0
    x *= mg.tensor([2.0, 3.0])
    x[0] = -1.0
    x.sub_(1.0, alpha=2).div_(2)
    assert x.array is array and x.tolist() == [-1.5, 2.0]
    assert x.zero_().fill_(3).copy_(mg.tensor([1, 2])).tolist() == [1.0, 2.0]


def test_data_is_a_tensor_off_the_tape_that_shares_memory():
    mg.manual_seed(0)
    x = leaf(1, 2, 3)
    assert type(x.data) is mg.Tensor and not x.data.requires_grad and x.data.data_ptr() == x.data_ptr()
    x.data.sub_(mg.tensor([1.0, 2.0, 3.0]), alpha=2)
    assert x.tolist() == [-1.0, -2.0, -3.0] and x.requires_grad and x.is_leaf
    x.data[1:2].fill_(5)
    x.data[0] = np.float32(7.0)
    assert x.tolist() == [7.0, 5.0, -3.0]
    x.data.normal_(100, 1).clamp_(50, 150)
    assert (x.data > 50).all() and x.data.softmax(-1).sum().item() == pytest.approx(1.0)


def test_a_diagonal_is_a_view_and_a_flipped_tensor_a_copy():
    x = mg.zeros(2, 3, 3)
    x.diagonal(1, 1, 2)[0] = mg.tensor([1.0, 2.0])
    x[1].diagonal().add_(5.0)
    x.flip(0, 2).fill_(7.0)
    assert x.tolist() == [[[0, 1, 0], [0, 0, 2], [0, 0, 0]], [[5, 0, 0], [0, 5, 0], [0, 0, 5]]]
    with pytest.raises(RuntimeError, match="cannot be written to"):
        mg.zeros(1, 1).expand(2, 2).diagonal().zero_()
    y = leaf(1.0, 2.0, 3.0, 4.0).reshape(2, 2) * 1.0
    out = y * y
    y.detach().diagonal().zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        out.backward(mg.ones(2, 2))


def test_on_the_tape_in_place_methods_are_differentiated():
    x, w = leaf(1.0, 2.0, 3.0), leaf(5.0, 6.0, 7.0)
    y = x * 2.0
    y += w
    y *= y.detach() * 0 + 3.0
    y /= 2.0
    y[1] = w[0] * w[0]
    y.backward(mg.tensor([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(y.array, [1.5 * 7, 25, 1.5 * 13])
    np.testing.assert_allclose(x.grad.array, [3, 0, 300])
    np.testing.assert_allclose(w.grad.array, [1.5 + 100, 0, 150])


def saving_its_input(y):
    return y, y * y


def saving_its_output(y):
    out = y.exp()
    return out, out


def saving_views(y):
    return y, y.reshape(2, 1) * y.reshape(1, 2)


WRITES = {
    "add_": lambda x: x.add_(1.0),
    "mul_": lambda x: x.mul_(2.0),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(mg.zeros(2)),
    "[0] =": lambda x: x.__setitem__(0, 5.0),
    "[[0]] =": lambda x: x.__setitem__([0], 5.0),
    "view().fill_": lambda x: x.view(2, 1).fill_(0.0),
    "detach().add_": lambda x: x.detach().add_(1.0),
    "data[0] =": lambda x: x.data.__setitem__(0, 7.0),
    "data[:1][0] =": lambda x: x.data[:1].__setitem__(0, 7.0),
    "data +=": lambda x: setattr(x, "data", x.data.__iadd__(1.0)),
    "data[...] = array": lambda x: x.data.__setitem__(..., np.float32([7.0, 8.0])),
    "data.mul_": lambda x: x.data.mul_(7.0),
    "data.uniform_": lambda x: x.data.uniform_(7.0, 8.0),
    "data[:1].zero_": lambda x: x.data[:1].zero_(),
    "detach()[0] =": lambda x: x.detach().__setitem__(0, 7.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("use", [saving_its_input, saving_its_output, saving_views])
def test_writing_to_a_saved_array_is_an_error(use, write):
    saved, out = use(leaf(2.0, 1.0) * 1.0)
    before = saved.tolist()
    with mg.no_grad():
        write(saved)
    assert saved.tolist() != before
    with pytest.raises(RuntimeError, match=MODIFIED):
        out.backward(mg.ones(out.shape))
    later = saved.detach().requires_grad_()
    (later * later).backward(mg.ones(2))
    np.testing.assert_allclose(later.grad.array, 2 * saved.array)


def shaped(*shape):
    return mg.tensor(0.5 + np.arange(float(np.prod(shape))).reshape(shape) % 7)


SQUARE = [(3, 3), (3, 3)]
FREE_OF_ITSELF = {(0, 0), (1, 1)}
LINEAR_OPS = {  # the shapes of the inputs, and all (i, j) where the gradient of input i does not need the value of input j
    "a * b": (lambda a, b: a * b, SQUARE, FREE_OF_ITSELF),
    "a / b": (lambda a, b: a / b, SQUARE, {(0, 0)}),
    "a % b": (lambda a, b: a % b, SQUARE, {(0, 0), (0, 1)}),
    "matrices": (lambda a, b: a @ b, SQUARE, FREE_OF_ITSELF),
    "stacks": (lambda a, b: a @ b, [(2, 3, 3), (3, 3)], FREE_OF_ITSELF),
    "vectors": (lambda a, b: a @ b, [(3,), (3,)], FREE_OF_ITSELF),
    "einsum": (lambda a, b: mg.einsum("ij,kj->ki", a, b), SQUARE, FREE_OF_ITSELF),
    "einsum of three": (lambda a, b, c: mg.einsum("ij,kj,k->ki", a, b, c), [*SQUARE, (3,)], FREE_OF_ITSELF | {(2, 2)}),
    "linear": (functools.partial(call, Linear), [(2, 3, 3), (4, 3), (4,)], FREE_OF_ITSELF | {(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)}),
}


@pytest.mark.parametrize("function, shapes, free", LINEAR_OPS.values(), ids=LINEAR_OPS)
def test_an_operand_is_saved_only_if_the_gradient_of_another_needs_it(function, shapes, free):
    """So it may change, and its memory is freed. First and second derivatives are the same as without the change."""
    for wanted in range(len(shapes)):
        for written in range(len(shapes)):
            found = []
            for is_written in (False, True):
                leaf = shaped(*shapes[wanted]).requires_grad_()
                inputs = [shaped(*shape) for shape in shapes]
                inputs[wanted] = leaf * 1.0
                out = function(*inputs)
                if is_written:
                    inputs[written].detach().fill_(math.nan)
                if is_written and (wanted, written) not in free:
                    with pytest.raises(RuntimeError, match=MODIFIED):
                        mg.grad(out, leaf, shaped(*out.shape))
                    break
                upstream = shaped(*out.shape).requires_grad_()
                (first,) = mg.grad(out, leaf, upstream, create_graph=True)
                found.append([first, *mg.grad(first, upstream, shaped(*first.shape))])
            for expected, got in zip(found[0], found[-1]):
                np.testing.assert_array_equal(got.detach().array, expected.detach().array, f"{wanted} {written}")


def test_a_chain_of_products_with_constants_keeps_nothing():
    gone, y = [], leaf(1.0, 2.0)
    for step in (lambda y: y * 2.0, lambda y: y / 3.0, lambda y: y * mg.ones(2), lambda y: y @ mg.ones(2, 2).double(), mg.neg):
        y = step(y)
        gone.append(weakref.ref(y.array))
    assert [reference() is None for reference in gone] == [True] * 4 + [False]


VIEWS = {  # of a leaf of shape (2, 2, 2), each of shape (2, 2)
    "x[0]": lambda x: x[0], "x[:, 1]": lambda x: x[:, 1], "x[..., ::2][..., 0]": lambda x: x[..., ::2][..., 0], "select": lambda x: x.select(1, 0),
    "a row of x": lambda x: next(iter(x)), "unbind": lambda x: x.unbind(2)[1], "chunk": lambda x: x.chunk(2)[1][0], "split": lambda x: x.split(1, 1)[0].squeeze(1),
    "view": lambda x: x.view(4, 2)[1:3], "reshape": lambda x: x.reshape(2, 4)[:, :2], "view_as": lambda x: x[0].view_as(mg.ones(2, 2)),
    "flatten": lambda x: x.flatten()[4:].unflatten(0, (2, 2)), "T": lambda x: x[0].T, "permute": lambda x: x.permute(2, 0, 1)[1],
    "transpose": lambda x: x.transpose(0, 2)[0], "movedim": lambda x: x.movedim(0, -1)[1], "unsqueeze": lambda x: x.unsqueeze(0)[0, 1],
    "diagonal": lambda x: x.diagonal(0, 1, 2), "einsum": lambda x: mg.einsum("ijk->kij", x)[0],
    "a Function": lambda x: Same.apply(x[0]),
}


class Same(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, dout):
        return dout


WITH_ARGUMENTS = {
    **dict.fromkeys(["add_", "sub_", "mul_", "div_", "fill_", "clamp_"], (2.0,)),
    "copy_": (mg.ones(2, 2),), "addcmul_": (mg.ones(2, 2),) * 2, "addcdiv_": (mg.ones(2, 2),) * 2,
    "masked_fill_": (mg.ones(2, 2) > 0, 3.0), "index_add_": (0, mg.tensor([0]), mg.ones(1, 2)), "scatter_": (0, mg.tensor([[0]]), 3.0),
    "scatter_add_": (0, mg.tensor([[0]]), mg.ones(1, 1)), "__iadd__": (1.0,), "__imul__": (2.0,), "__setitem__": (0, 5.0),
}
METHODS_IN_PLACE = {name for name in dir(mg.Tensor) if name.endswith("_") and not name.startswith("_")} - {"requires_grad_"}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_leaves_and_their_views_are_written_to_under_no_grad_only(view):
    for name in METHODS_IN_PLACE | WITH_ARGUMENTS.keys():
        x = mg.tensor(np.linspace(0.3, 0.7, 8).reshape(2, 2, 2), dtype=mg.float32, requires_grad=True)

        def write(tensor, name=name):
            return getattr(tensor, name)(*WITH_ARGUMENTS.get(name, ()))

        for tensor in (view(x), x[0].detach().requires_grad_()):
            before = x.tolist()
            with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad is being used in an in-place operation"):
                write(tensor)
            assert x.tolist() == before, name
        with mg.no_grad():
            write(view(x))
        write(view(x).detach())
        write(view(x * 1.0))
        assert x.requires_grad and x.is_leaf
        (x * x).backward(mg.ones(2, 2, 2))
        np.testing.assert_allclose(x.grad.array, 2 * x.array)


def test_every_op_whose_output_is_a_view_says_so():
    for case in CASES:
        arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
        out = mg.Tensor.apply_op(case.op, *(mg.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arrays), **case.options)
        if any(np.may_share_memory(out.array, x) for x in arrays if isinstance(x, np.ndarray)):
            assert issubclass(case.op, View), case


@pytest.mark.parametrize("index, value", [
    ([0, 0], lambda: leaf(7.0, 8.0)), ([0, 3], lambda: leaf(7.0, 8.0)), (slice(2), lambda: leaf(7.0, 8.0, 9.0)),
    (np.array([True, False, True]), lambda: leaf(7.0, 8.0, 9.0)),
])  # fmt: skip
def test_nothing_is_written_where_setting_items_is_refused(index, value):
    y = leaf(1.0, 2.0, 3.0) * 1.0
    out = y * y
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        y[index] = value()
    assert y.tolist() == [1, 2, 3]
    out.backward(mg.ones(3))  # nor is anything noted as written


@pytest.mark.parametrize("observer", [contextlib.nullcontext, mg.detect_anomaly])
def test_items_are_set_to_items_of_the_same_memory(observer):
    x = leaf(1.0, 2.0, 3.0)
    with observer():
        y = x * 1.0
        y[1:] = y[:-1]
        y[[2, 0]] = y[:2] + y[:2]
        y.backward(mg.tensor([1.0, 10.0, 100.0]))
    assert y.tolist() == [2, 1, 2]
    assert x.grad.tolist() == [2 * 100 + 10 + 2 * 1, 0, 0]


@pytest.mark.parametrize("share", [mg.from_numpy, mg.from_dlpack])
def test_anomaly_detection_sees_changes_that_the_tape_cannot_see(share):
    x, array = leaf(1.0, 2.0), np.ones(2)
    with mg.detect_anomaly():
        out = x * share(array)
        array[0] = 7.0
        with pytest.raises(RuntimeError, match="an array that Mul saved has changed since"):
            out.backward(mg.ones(2))


def test_assigning_another_array_to_data_leaves_graphs_as_they_were():
    x = leaf(2.0, 1.0)
    out = x * x
    x.data = np.array([5, 6])
    assert x.dtype == mg.float64 and x.tolist() == [5, 6]
    out.backward(mg.ones(2))
    np.testing.assert_allclose(x.grad.array, [4, 2])
    with pytest.raises(ValueError, match=r"on the tape with shape \(2,\), got \(3,\)"):
        x.data = np.ones(3)
    constant = mg.ones(2)
    constant.data = mg.zeros(3)
    assert constant.shape == (3,)


@pytest.mark.parametrize("as_numpy", [np.asarray, mg.Tensor.numpy, np.from_dlpack])
def test_numpy_reads_the_memory_and_cannot_write_to_it(as_numpy):
    x = leaf(2.0, 1.0)
    out = x * x
    array = as_numpy(x.detach())
    assert type(array) is np.ndarray and np.may_share_memory(array, x.array)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7.0
    out.backward(mg.ones(2))


ids, mask = (lambda: mg.tensor([0, 1])), (lambda: mg.tensor([True, False]))


@pytest.mark.parametrize("use, picked", [
    (lambda x, i: x[i], ids), (lambda x, i: x[i.numpy()], ids), (lambda x, i: x.gather(0, i), ids),
    (lambda x, i: x.index_select(0, i), ids), (lambda x, i: mg.zeros(2).scatter_add(0, i, x), ids),
    (lambda x, i: nn.functional.embedding(i, x.unsqueeze(1)), ids), (lambda x, m: x[m], mask),
    (lambda x, m: mg.where(m, x, 0.0), mask), (lambda x, m: x.masked_fill(m, 0.0), mask),
    (lambda x, m: set_item(x * 1.0, m, 2.0), mask), (lambda x, m: x * m.float().numpy(), mask),
])  # fmt: skip
def test_indices_and_masks_may_change_afterwards(use, picked):
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    changed, kept = picked(), picked()
    out, expected = use(x, changed), use(y, kept)
    changed[0], changed[1] = kept[1], kept[0]
    if changed.dtype == bool:
        changed.fill_(True)
    upstream = mg.tensor(np.arange(1.0, 1 + out.numel()).reshape(out.shape))
    out.backward(upstream)
    expected.backward(upstream)
    np.testing.assert_array_equal(x.grad.array, y.grad.array)


def set_item(x, index, value):
    x[index] = value
    return x


@pytest.mark.parametrize("write", [
    lambda x: nn.optim.clip_grad_norm_([x], 1.0), lambda x: nn.optim.SGD([x], lr=0.1).zero_grad(set_to_none=False),
])  # fmt: skip
def test_gradients_on_the_tape_that_are_written_to_are_refused(write):
    x = leaf(3.0, 4.0)
    (x**3).sum().backward(create_graph=True)
    z = (x.grad**2).sum()
    write(x)
    with pytest.raises(RuntimeError, match=MODIFIED):
        mg.grad(z, x)


def test_the_data_of_a_parameter_takes_a_step_against_its_gradient():
    p = leaf(1.0, 2.0)
    (p * p).sum().backward()
    p.data -= 0.25 * p.grad
    p.data += p.grad.array
    assert p.tolist() == [2.5, 5.0] and p.requires_grad
    array = np.ones(2)
    array += p.grad
    assert array.tolist() == [3, 5]
    with pytest.raises(TypeError, match="a tensor that requires a gradient"):
        array += p


def test_detached_values_are_constants_whatever_was_written_before():
    w = leaf(1.0, 2.0)
    x = w * 2.0
    x.mul_(2.0)
    (x * x.detach()).backward(mg.ones(2))
    np.testing.assert_allclose(w.grad.array, 4 * 4 * w.array)
    out = mg.zeros(3, 2, dtype=mg.float64)
    for t in range(3):
        out[t] = w * t
    for constant in (out.detach()[-1], out.detach().T[:, 1], out.detach().reshape(6)[:2]):
        (w * constant).backward(mg.ones(2))
    for _ in range(20):  # the memory of temporary views is reused
        h = mg.zeros(3, 2, dtype=mg.float64)
        view = h[0]
        view.copy_(w * 2.0)
        del view
        h.detach()[1] * w


def test_a_write_off_the_tape_leaves_places_on_it_as_they_are():
    w = leaf(1.0, 2.0)
    (w * 1.0).mul_(2.0)
    x = w * 2.0
    x.data[0] = 0.0
    with mg.no_grad():
        x[1] = 5.0
    (x + 1.0).backward(mg.ones(2))
    assert x.tolist() == [0, 5] and w.grad.tolist() == [2, 2]


def test_rows_that_are_filled_one_by_one_do_not_invalidate_each_other():
    w, buffer, total = leaf(1.0, 2.0), mg.zeros(100, 2, dtype=mg.float64), 0.0
    for t in range(3):
        buffer.data[t] = t + 1
        total = total + (buffer[t] * w).sum()
    buffer.data[7, 1] = 9.0
    total.backward()
    assert w.grad.tolist() == [6, 6]
    first = (buffer[0] * w).sum()
    for t in range(100):
        buffer[t] = 0.0
    with pytest.raises(RuntimeError, match=MODIFIED):
        first.backward()


def test_memory_that_is_gone_is_forgotten():
    x = mg.from_numpy(np.ones(2)).add_(1.0)
    key = id(versions.owner(x.array))
    assert key in versions._writes
    del x
    assert key not in versions._writes


def test_integers_and_ranges_together_pick_and_write():
    x = mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x[1, range(2)].tolist() == [4, 5]
    x[0, range(1, 3)] = 0.0
    assert x[0].tolist() == [1, 0, 0]


def test_the_tensor_that_was_written_through_is_right():
    x = leaf(1.0, 2.0)
    y = x * 1.0
    y[:1]
    y *= 2.0
    (y[:1] * 3.0).backward(mg.ones(1))
    np.testing.assert_allclose(x.grad.array, [6, 0])
    constant, w = mg.zeros(2, 3, dtype=mg.float64), leaf(1.0, 2.0, 3.0)
    row = constant[0]
    row.copy_(w)
    (row * w).backward(mg.ones(3))
    np.testing.assert_allclose(w.grad.array, 2 * w.array)


@pytest.mark.parametrize("overwrite", [
    lambda h: h.zero_(), lambda h: h.fill_(3.0), lambda h: h.copy_(mg.ones(2)), lambda h: h.copy_(mg.ones(2, dtype=mg.int64)),
])  # fmt: skip
def test_an_overwritten_value_stays_on_the_tape(overwrite):
    w = leaf(1.0, 2.0)
    h = w * 1.0
    before = h - 1.0
    overwrite(h)
    assert h.requires_grad
    (h + w).backward(mg.tensor([1.0, 10.0]), retain_graph=True)
    np.testing.assert_array_equal(w.grad.array, [1, 10])  # nothing through h
    before.backward(mg.tensor([1.0, 10.0]))
    np.testing.assert_array_equal(w.grad.array, [2, 20])


@pytest.mark.parametrize("copied", [
    lambda x: x.reshape(()).gather(0, mg.tensor(0)), lambda x: x.reshape(()).max(0).values,
    lambda x: x.reshape(()).sort().values, lambda x: x.repeat(1), lambda x: x.repeat(3),
    lambda x: x.reshape(1, 1).diag(), lambda x: mg.cat([x]), lambda x: x.flip(0),
])  # fmt: skip
def test_copies_are_copies_even_of_a_single_element(copied):
    x = mg.tensor([5.0])
    out = copied(x)
    x.zero_()
    assert (out.numpy() == 5).all()
    out.fill_(7.0)
    assert x.item() == 0 and (out.numpy() == 7).all()


PROGRAMS = [  # r depends on a; z is a constant, and b like a: all of shape (4, 3, 2)
    "r[1:] += b[1:]", "r[1] *= 2.0; r[1] += b[0]", "r[1, 2] += b[0, 0]", "r[1, 2, 0] -= b[0, 0, 0]", "r[:1] += b[:1]", "r[...] += b",
    "r[1:] += b[:3]; r[2:] += b[:2]; r[1] *= b[0]", "r[:, 0] += b[:, 1]; r[:, 1] /= b[:, 0]", "r[..., 0] += b.sum(-1)",
    "r[::2] *= b[::2]; r[1::2] += b[1::2]", "r[:, None, 0] += b[:, None, 1]", "r[1:] += r[:-1] * 1.0", "r[1:] **= 2.0",
    "r[[0, 1]] += b[[1, 2]]", "r[0] += b[0]; r = r * b; r[0, 1:] += r[1, 1:] * 1.0", "r[r > 2.0] = 0.0", "r[1, :, [1, 0]] *= b[0]",
    "z[1:] += b[1:]; r = r + z; z[0] += r[0]; r = z", "for t in range(4): z[t] += b[t]; r = r + z[t]", "z += b; r = r * z", "z += 0.5; z *= b; r = r * z", "z += 0.5; z.mul_(other=b); r = r * z",
    "z += 0.5; z.addcmul_(r, b); r = r * z",
    "top, rest = r[:2], r[2:]; rest += b[2:]; top[0] += b[0]; r = top.repeat(2, 1, 1)", "r[3, [1, 2]] = b[0, :2]; z[0, [1, 1, 0]] = 2.0",
    "row = r[1:]; row += b[1:]; r[1:] = row", "row = r.view(-1)[6:12]; row += b[0].reshape(-1); r[1] = row.view(3, 2)",
    "row = r[1:]; row += b[1:]; r[2:] = row[1:]", "row, first = r[1:], r[:1]; row += b[1:]; first += b[:1]; r[1:] = row",
    "row, other = r[1:], r[1:]; row += b[1:]; r[1:] = other", "row = r[1:]; row += b[1:]; r += 1.0",
    "row, part = r[:3], r[0:3:2]; part += b[:2]; r[:3] = row", "row, part = r[:3], r[0:3:2]; row += b[:3]; r[0:3:2] = part",
    "row = r[:2]; row += b[:2]; r[::2] = row",
    # through views of any kind, of a constant, too; and what was taken before sees the write
    "row = z[0]; row += b[0]; r = r * z", "row, other = z[0], z[0:1]; row.copy_(b[0]); r = r * other", "row = z[:1]; z += b; r = r * row",
    "row = r[0]; row *= b[0]; r = r * row", "row = r[:1]; r *= b; r = r * row", "row = z[0]; z += b; r = r + row * 2.0",
    "view = z.reshape(12, 2).T; view.add_(b.reshape(12, 2).T); r = r * z", "view = r.permute(2, 0, 1)[1]; r *= b; r = r * view.unsqueeze(-1)",
    "flat = r.reshape(-1); r[1] = b[0]; flat[3:9] *= flat[:6] * 2.0; r = r + flat.view(4, 3, 2)",
    "top = r[:2]; row = top[1]; top *= b[:2]; row += r[0]; r = r * row * top[0]", "view = z[0, 0, :1].expand(2); z[0, 0] += b[0, 0]; r = r * view",
    "corners = r[:, :2].diagonal(0, 1, 2); r /= b; corners *= b[:, 0]; r = r * corners[:, None]", "row = r[0]; r.zero_(); r = r + row + b",
    "r = r.transpose(0, 2); row = r[1]; r *= b.transpose(0, 2); row *= 3.0; r = r.transpose(0, 2)", "row = r[1, 1]; row.zero_(); r = r * b",
    "total = z.sum(); part = total.reshape(1); part += b[0, 0, :1]; r = r * total", "z = z[:, :1, :1]; row = z[1]; row += b[0, :1, :1]; r = r * z",
    "z = z[1:, ::2].permute(2, 0, 1); row = z[:, 1]; z += b[0, 0, 0]; r = r * (row * 2.0).sum()",
    "view = z.detach()[1]; view += b[0]; r = r * view", "z = z.detach(); row = z[1]; row += b[0]; r = r * z",
]
NOT_IN_PYTORCH = ["row = r[1:]; row += b[1:]; r[:3] = row", "row = z[0]; z += b; row *= r[1]; r = r * z[0]"]
CONSTANTS = [  # what detach() gave, whatever is written to its memory
    "constant = z.detach(); z += b; r = r * constant", "z.detach()[0] += b[0]; r = r + z", "constant = r.detach(); r *= b; r = r * constant",
    "r.data.mul_(b); r = r * 2.0", "r.data[1] = b[0]; r = r * 2.0",
]


def run(library, code, a, b):
    scope = {"r": a * 1.5, "b": b, "z": library.zeros(4, 3, 2, dtype=library.float64)}
    exec(code, scope)
    return scope["r"]


@pytest.mark.parametrize("code", [*PROGRAMS, *CONSTANTS])
def test_writes_in_place_are_pytorchs(code):
    torch = pytest.importorskip("torch")
    results = []
    for library in (torch, mg):
        drawn = np.random.default_rng(0)
        a, b = (library.tensor(drawn.uniform(1, 2, (4, 3, 2)), requires_grad=True) for _ in range(2))
        out = run(library, code, a, b)
        (out * library.tensor(drawn.normal(size=(4, 3, 2)))).sum().backward()
        results.append([out.detach().numpy(), a.grad.numpy(), *([] if b.grad is None else [b.grad.numpy()])])
    for wanted, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("code", PROGRAMS + NOT_IN_PYTORCH)
def test_writes_in_place_are_differentiated(code):
    mg.manual_seed(0)
    a, b = (mg.rand(4, 3, 2, dtype=mg.float64).add_(1.0).requires_grad_() for _ in range(2))
    assert mg.gradcheck(lambda a, b: run(mg, code, a, b) * (b * 0.0 + 1.0), (a, b))


@pytest.mark.parametrize("code", PROGRAMS)
def test_writes_in_place_are_watched(code):
    inputs = tuple(mg.rand(4, 3, 2, dtype=mg.float64).add_(1.0).requires_grad_() for _ in range(2))
    found = []
    for observer in (contextlib.nullcontext, mg.detect_anomaly):
        with observer():
            found.append(mg.grad((run(mg, code, *inputs) * inputs[1]).sum(), inputs))
    traced = {tensor.name: tensor.gradient for tensor in mg.trace(lambda a, b: (run(mg, code, a, b) * b).sum(), *inputs).tensors}
    for name, wanted, got in zip("ab", *found):
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())
        np.testing.assert_array_equal(traced[name], wanted.numpy())


@pytest.mark.parametrize("use", [
    lambda view, base: view * 2.0, lambda view, base: view.add_(base[0]), lambda view, base: view.requires_grad,
])
def test_views_taken_under_no_grad_are_refused_after_a_write(use):
    """They would be neither constants nor right."""
    base = leaf(1.0, 2.0) * 1.0
    with mg.no_grad():
        view, constant = base[:1], base[:1].detach()
    (view * base).backward(mg.ones(2))  # a constant, before
    base.mul_(2.0)
    with pytest.raises(RuntimeError, match=r"taken under no_grad\(\), and it or its base is written to on the tape; take it again"):
        use(view, base)
    assert (constant * 2.0).tolist() == [4.0]
    with mg.no_grad():
        assert (view * 2.0).tolist() == [4.0]  # values alone are right
    with pytest.raises(RuntimeError, match="taken under no_grad"), mg.no_grad():
        view = base[1:]
        with mg.enable_grad():
            view.mul_(base[:1])
    assert base.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("data", [lambda base: mg.ones(4), lambda base: base.detach()[::2], lambda base: base.detach()[:1], lambda base: base.detach()[2:]])
def test_a_view_of_memory_that_its_base_has_no_longer_is_refused(data):
    base = mg.zeros(4)
    row = base[1:2]
    base.data = data(base)
    with pytest.raises(RuntimeError, match="has other memory since; take the view again"):
        row.add_(leaf(1.0).float())
    assert row.tolist() == [0.0] and not base.requires_grad


def test_a_view_that_is_given_other_memory_is_no_view():
    base = mg.zeros(2)
    row = base[:1]
    row.data = mg.ones(1)
    row += leaf(3.0).float()
    assert row.tolist() == [4.0] and base.tolist() == [0.0, 0.0] and not base.requires_grad


@pytest.mark.parametrize("shape, strides, offset", [((3, 2), (-16, -8), 40), ((3, 1, 2), (8, 24, 24), 0), ((2, 2), (8, 24), 0)])
def test_a_base_may_have_any_strides(shape, strides, offset):
    memory = np.ndarray(shape, np.float64, np.zeros(6).data, offset, strides)
    base, w = mg.from_numpy(memory), leaf(2.0, 3.0)
    row = base[0]
    row += w
    weights = np.arange(1.0, 1 + base.numel()).reshape(shape)
    (base * mg.tensor(weights)).sum().backward()
    assert memory[0].ravel().tolist() == [2, 3] and memory.sum() == 5 and w.grad.tolist() == weights[0].ravel().tolist()


def test_a_view_follows_its_base_under_no_grad_too():
    w, base = leaf(3.0), mg.zeros(2, dtype=mg.float64)
    row, other = base[:1], base[1:]
    base += w
    with mg.no_grad():
        assert not row.is_leaf and row.requires_grad
        other.backward(mg.ones(1))
    (row * 2.0).backward(mg.ones(1))
    assert w.grad.tolist() == [3.0]


def test_a_view_of_a_leaf_stays_on_the_tape_while_the_leaf_is_frozen():
    w = leaf(3.0, 4.0)
    row = w[:1]
    w.requires_grad_(False)
    assert row.requires_grad
    (row * row).backward(mg.ones(1))
    assert w.grad.tolist() == [6.0, 0.0]


def test_a_view_that_learns_is_a_leaf_and_no_view():
    base = mg.zeros(2)
    row = base[:1].requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        row += 1.0
    base += leaf(1.0, 2.0).float()
    (row * 3.0).backward(mg.ones(1))
    assert row.is_leaf and row.grad.tolist() == [3.0]


@pytest.mark.parametrize("write", [lambda y, w: y.add_(w), lambda y, w: y[:1].add_(w), lambda y, w: y.__setitem__(0, w[0] + 4.0)])
def test_a_tensor_keeps_its_dtype_on_the_tape(write):
    x, w = leaf(1.0, 2.0).detach().float().requires_grad_(), leaf(3.0)
    y = x * 1.0
    write(y, w)
    assert y.dtype == y.grad_fn.dtype == mg.float32
    (y * y).backward(mg.ones(2))
    assert w.grad.dtype == mg.float64 and w.grad.item() in (8.0, 8.0 + 10.0, 14.0)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_view_are_no_views(copied):
    base, w = mg.zeros(2), leaf(3.0).float()
    row = copied(base[:1])
    row.add_(w)
    assert row.tolist() == [3.0] and base.tolist() == [0.0, 0.0] and not base.requires_grad


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^="])
def test_operators_in_place_write_to_the_tensor(operator):
    before = [True, False, True] if operator in ("&=", "|=", "^=") else [5.0, -3.0, 2.0]
    array = np.array(before)
    x, other = mg.tensor(array), mg.tensor(array[::-1])
    scope = {"x": x, "other": other, "array": array}
    exec(f"x {operator} other; array {operator} other.numpy()", scope)
    assert scope["x"] is x and x.tolist() == array.tolist()


def test_booleans_are_added_in_place_as_booleans():
    x = mg.tensor([True, False, False])
    assert x.add_(mg.tensor([False, True, False])).tolist() == [True, True, False] and x.dtype == mg.bool


@pytest.mark.parametrize("write", [
    lambda y: y.mul_(3.0), lambda y: y.zero_().add_(y.detach()), lambda y: y[:1].mul_(3.0), lambda y: y.__setitem__(0, 5.0), lambda y: y.add_(leaf(1.0, 2.0)),
])
def test_what_belongs_to_a_tensor_moves_along_with_a_write(write):
    x = leaf(1.0, 2.0)
    y = x * 2.0
    y.name = "y"
    y.retain_grad()
    (y * 1.0).backward(mg.ones(2), retain_graph=True)
    assert y.grad.tolist() == [1.0, 1.0]
    write(y)
    assert y.name == "y" and y.grad.tolist() == [1.0, 1.0]
    (y * y).backward(mg.ones(2))
    np.testing.assert_allclose(y.grad.array, 1 + 2 * y.detach().array)  # of the present value alone, as in PyTorch
