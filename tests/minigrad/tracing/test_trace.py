"""`mg.trace` records what ran, under the names that a reader expects, and changes nothing."""
import json
import pathlib
import threading

import numpy as np
import pytest

import minigrad as mg
import nn
import nn.functional as F
from cases import CASES
from minigrad.random import key_of_batch
from minigrad.runner import EAGER, current
from minigrad.ops.kinds import Fused
from minigrad.tensor import apply
from notebook_page import Page
from sessions import replay
from study.page.attention import DEFAULT, attention

random = np.random.default_rng(0)
GAIN = mg.tensor([2.0, 3.0], dtype=mg.float64, requires_grad=True)  # a global, used in a traced function


def leaf(*shape):
    return mg.tensor(random.standard_normal(shape), requires_grad=True)


def attend(q, k, v, upstream):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    masked_scores = mg.where(mg.tensor(np.tri(len(q), len(k), dtype=bool)), scores, -np.inf)
    weights = masked_scores.softmax(-1)
    output = weights @ v
    loss = (output * upstream).sum()
    return loss * 1.0


def weighted(y):
    """A scalar in which each element of y has another weight."""
    return (y * mg.tensor(np.cos(np.arange(y.numel())).reshape(y.shape), dtype=y.dtype)).sum()


def check_sent(case, spelled_out):
    """Each gradient is the sum of what uses of the tensor sent, and that of a run without a trace."""
    inputs = [mg.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x for x in case.inputs]
    plain = [x.detach().clone().requires_grad_() if isinstance(x, mg.Tensor) and x.requires_grad else x for x in inputs]
    with mg.trace(spelled_out=spelled_out) as t:
        out = apply(case.op, *inputs, **case.options)
        loss = weighted(out)
        if loss.requires_grad:
            loss.backward()
    expected = apply(case.op, *plain, **case.options)
    assert np.allclose(out.array, expected.array, rtol=1e-9, atol=1e-12, equal_nan=True)
    if not loss.requires_grad:
        return
    weighted(expected).backward()
    for x, same in zip(inputs, plain):
        if x is not same and same.grad is not None:
            kept = t._of(x)
            assert np.allclose(kept.gradient, same.grad.array, rtol=1e-9, atol=1e-12, equal_nan=True)
            assert np.array_equal(kept.gradient, x.grad.array, equal_nan=True)
    for tensor in t.tensors:
        sent = [gradient for step in t.steps for value, gradient in zip(step.inputs, step.gradients)
                if value is tensor and gradient is not None]
        assert all(gradient.shape == tensor.shape for gradient in sent)
        if sent and tensor.gradient is not None:
            assert np.allclose(sum(sent), tensor.gradient, rtol=1e-12, atol=0, equal_nan=True)
    if spelled_out:
        assert not any(step.op == case.op.__name__ for step in t.steps if issubclass(case.op, Fused))


@pytest.mark.parametrize("spelled_out", [False, True])
def test_a_tensors_gradient_is_the_sum_of_what_its_uses_sent(spelled_out):
    """For each op and set of options, its first row of cases.py."""
    for case in {(case.op, *case.options): case for case in reversed(CASES)}.values():
        try:
            check_sent(case, spelled_out)
        except AssertionError as error:
            raise AssertionError(str(case)) from error


@pytest.mark.parametrize("leading", [(), (2,), (1, 1)], ids=str)
def test_fused_attention_spelled_out_shows_scores_mask_weights_output(leading):
    q, k, v = (leaf(*leading, 3, 2) for _ in range(3))

    def loss(q, k, v):
        return (F.scaled_dot_product_attention(q, k, v, is_causal=True) * q).sum()

    assert [step.op for step in mg.trace(loss, q, k, v).steps] == ["ScaledDotProductAttention", "Mul", "Sum"]
    t = mg.trace(loss, q, k, v, spelled_out=True)
    names = [tensor.name for tensor in t.tensors]
    assert [name for name in names if name in ("scores", "masked_scores", "weights", "output")] == [
        "scores", "masked_scores", "weights", "output"]
    assert "Reshape" not in [step.op for step in t.steps] and t["scores"].shape == (*leading, 3, 3)
    assert (t["masked_scores"].value[..., *np.triu_indices(3, 1)] == -np.inf).all()
    expected = F.attention_weights(q, k, is_causal=True)
    assert np.allclose(t["weights"].value, expected.array, atol=1e-15)
    assert np.allclose(t["weights"].value @ v.array, t["output"].value, atol=1e-15)


# ---------------------------------------------------------------------------------------------------------- names

def test_names_come_from_variables_arguments_globals_and_closures():
    shift = leaf(2)

    def inner(x):
        hidden = x * GAIN
        return hidden + shift

    def outer(x):
        first = inner(x)
        first = first * 2.0
        return weighted(first)

    names = [tensor.name for tensor in mg.trace(outer, leaf(3, 2)).tensors]
    assert names[:6] == ["x", "GAIN", "hidden", "shift", "first_1", "first"] and len(set(names)) == len(names)


def test_a_block_reads_variables_at_its_end_and_lists_name_nothing():
    x = leaf(3)
    with mg.trace() as t:
        last, other = x.exp(), x * 2.0
        rows = list(x)
        pair = tuple(x[:2])
        z = last * other
        z.name = "product"  # a given name goes first
    names = [step.output.name for step in t.steps]
    assert names[:2] == ["last", "other"] and {name.partition("_")[0] for name in names[2:-1]} == {"index"} and rows and pair
    assert names[-1] == "product" and t["x"].kind == "input" and t["other"].shape == last.shape == other.shape


def test_a_returned_tensor_keeps_its_name():
    def middle(x):
        table = x.unsqueeze(1) * x  # two steps; the second is the table
        for _ in range(2):
            x = x * 2.0
        if table.requires_grad:
            output = table * x
            return output

    t = mg.trace(middle, leaf(3), gradient=mg.ones(3, 3))
    assert [step.output.name for step in t.steps if step.op == "Mul"] == ["table", "x_2", "x_3", "output"]
    assert [name for name in (tensor.name for tensor in t.tensors) if name.startswith(("table", "output"))] == [
        "table", "output"]
    assert mg.trace(lambda x: x.exp(), leaf(3)).steps[-1].output.name == "exp"


ATTENTION = nn.MultiHeadAttention(4, 2)


def attended(tokens):
    output = ATTENTION(tokens[None])
    return output


def names(function, inputs: int) -> str:
    return ", ".join(tensor.name for tensor in mg.trace(function, *(mg.randn(4, 4) for _ in range(inputs))).tensors)


def powers(w, x):
    for _ in range(3):
        x = w @ x
    return x


def ops(function, *shapes) -> str:
    """Its steps, whose results and gradients are those without a trace."""
    leaves = [leaf(*shape) for shape in shapes]
    with mg.trace() as t:
        result = function(*leaves)
        weighted(result).backward()
    assert len({tensor.name for tensor in t.tensors}) == len(t.tensors)
    assert np.array_equal(t.steps[-3].output.value, result.array)
    assert all(np.array_equal(t._of(x).gradient, x.grad.array) for x in leaves)
    return ", ".join(step.op for step in t.steps[:-2])


@pytest.mark.parametrize("title", ["variables of the library name nothing", "reshapes that a product needs are part of its step"])
def test_names_and_steps(title):
    replay(pathlib.Path(__file__).with_name("traces.session"), title, names=globals() | {"DEFAULT": DEFAULT, "attention": attention})


def test_a_trace_entered_again_goes_on_and_starts_a_new_walk():
    w, x = leaf(2, 3), leaf(3)
    t = mg.trace()
    with t:
        y = w @ x
    with t:
        y.sum().backward(retain_graph=True)
        y.sum().backward()
    assert [step.op for step in t.steps] == ["MatMul", "Sum", "Sum"] and np.array_equal(2 * t["x"].gradient, x.grad.array)


def test_of_equal_names_an_input_keeps_it_then_the_outermost_variable():
    def inner(x):
        x = x * 2.0
        out = x.exp()
        return out

    def outer(x):
        out = inner(x)
        out = out * 3.0
        inner(out)
        return out.sum()

    x = leaf(2)
    t = mg.trace(outer, x)
    assert np.array_equal(t["x"].value, x.array) and np.array_equal(t["x_2"].value, 2 * x.array)
    assert np.allclose(t["out"].value, 3 * np.exp(2 * x.array)) and np.allclose(t["out_1"].value, np.exp(2 * x.array))

    def weigh(x):
        weights = x.softmax(-1)
        return F.scaled_dot_product_attention(weights, x, x).sum()

    t = mg.trace(weigh, leaf(3, 3), spelled_out=True)  # its definition has weights, too
    assert np.allclose(t["weights"].value, F.softmax(mg.tensor(t["x"].value), -1).array)


def test_parameters_are_called_by_their_path():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2, bias=False)))
    for t in (mg.trace(model, mg.randn(2, 3), gradient=mg.ones(2, 2)), mg.trace(lambda x: model(x).sum(), mg.randn(2, 3))):
        assert {"0.weight", "0.bias", "2.0.weight"} <= {tensor.name for tensor in t.tensors if tensor.node}
        assert t["2.0.weight"].gradient.shape == (2, 4)
    with mg.trace() as t:
        model(mg.randn(2, 3))
    assert t["2.0.weight"].gradient is None


# --------------------------------------------------------------------------- what else a program may do

def test_in_place_changes_are_recorded_before_and_after():
    x = leaf(3)
    with mg.trace() as t:
        y = x * 2.0
        y += 1.0
        y[0] = x[1]
        weighted(y).backward()
    changes = [tensor.value.tolist() for tensor in t.tensors if tensor.shape == (3,)]
    a, b, c = x.tolist()
    assert [2 * a, 2 * b, 2 * c] in changes and [2 * a + 1, 2 * b + 1, 2 * c + 1] in changes
    assert [b, 2 * b + 1, 2 * c + 1] in changes
    assert [tensor.name for tensor in t.tensors if tensor.kind == "input"] == ["x"]
    assert np.array_equal(t["x"].gradient, x.grad.array)


def test_changes_off_the_tape_are_recorded_anew():
    w = leaf(2)
    with mg.trace() as t:
        first = (w * 3.0).sum()
        with mg.no_grad():
            w *= 0.0
        second = (w * 3.0).sum()
    assert t["w"].value.any() and not t["w_2"].value.any() and first.item() != second.item() == 0.0


def test_gradients_of_two_losses_add_and_a_second_walk_starts_over():
    x = leaf(3)
    with mg.trace() as t:
        y = x * 2.0
        y.sum().backward(retain_graph=True)
        (x * 5.0).sum().backward()
    assert t["x"].gradient.tolist() == [7.0] * 3 and x.grad.tolist() == [7.0] * 3
    with mg.trace() as t:
        y = x * 2.0
        y.sum().backward(retain_graph=True)
        y.backward(mg.tensor([1.0, 0.0, -1.0]))
    assert t["x"].gradient.tolist() == [2.0, 0.0, -2.0]


def test_a_walk_that_meets_steps_of_an_earlier_one_keeps_its_own_gradients():
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with mg.trace() as t:
        a = x * 2.0
        first = a.sum()
        second = (a * x).sum()
        first.backward(retain_graph=True)
        x.grad = None
        second.backward(retain_graph=True)
    assert np.array_equal(t["x"].gradient, x.grad.array)
    assert [bool(step.gradients) for step in t.steps] == [True, False, True, True]


def test_grad_hooks_and_gradients_of_gradients():
    def twice(x):
        y = x * x
        y.register_hook(lambda gradient: gradient * 10.0)
        (g,) = mg.grad((y * x).sum(), [x], create_graph=True)
        (g * g).sum().backward()
        return x.grad.array

    x = leaf(3)
    with mg.trace() as t:
        gradient = twice(x)
        cubes = (x * x * x).sum()
        (slope,) = mg.grad(cubes, [x], create_graph=True)
        (curvature,) = mg.grad(slope.sum(), [x], retain_graph=True)
    assert np.allclose(t["g"].value, 21 * x.array**2)  # x^2 directly, and through y = x * x ten times x times 2x
    assert np.array_equal(gradient, twice(x.detach().clone().requires_grad_()))
    assert np.array_equal(t["x"].gradient, curvature.array)


def test_a_function_is_one_step():
    class Cube(mg.Function):
        """out = x^3:  dx = 3 x^2 dout"""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, dout):
            (x,) = ctx.saved_tensors
            return dout * 3.0 * x * x

    t = mg.trace(lambda x: weighted(Cube.apply(x)), leaf(3))
    assert [step.op for step in t.steps] == ["Cube", "Mul", "Sum"] and "= Cube(x)    out = x^3" in t.table()
    assert np.allclose(t["x"].gradient, 3 * t["x"].value ** 2 * np.cos(np.arange(3)))


def test_a_result_that_is_not_a_scalar_needs_a_gradient_for_backward():
    t = mg.trace(lambda x: x * 2.0, [[1.0, 2.0]])
    assert t["x"].gradient is None and t.result.tolist() == [[2.0, 4.0]] and "has not run" in t.table()
    t = mg.trace(lambda x: x * 2.0, [[1.0, 2.0]], gradient=[[1.0, -1.0]])
    assert t["x"].gradient.tolist() == [[2.0, -2.0]]


def test_it_records_only_its_thread_and_its_block():
    x, seen = leaf(2), []
    with mg.trace() as t:
        thread = threading.Thread(target=lambda: seen.append((x * 2.0, current() is EAGER)))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="already entered"), t:
            pass
        y = x * 3.0
    y.sum().backward()
    assert [step.op for step in t.steps] == ["Mul"] and t["x"].gradient is None and seen[0][1] and current() is EAGER


def test_an_error_leaves_the_trace_readable():
    x = leaf(2)
    with pytest.raises(ValueError):
        with mg.trace() as t:
            y = x * 2.0
            y @ mg.ones(3, 3, dtype=mg.float64)
    assert t["y"].value.tolist() == (2 * x.array).tolist() and current() is EAGER


def test_it_works_with_other_observers_and_compiled_steps(kernels):
    x = leaf(3)
    step = mg.compile(lambda: weighted(x * 2.0))
    with mg.trace() as t, mg.detect_anomaly(), mg.count_flops():
        loss = step()
        loss.backward()
    assert t["x"].gradient == pytest.approx(2 * np.cos(np.arange(3))) and t.steps

    def observed():
        with mg.trace():
            return x * 2.0

    with pytest.raises(RuntimeError, match="observes operations"):
        mg.compile(observed)()


def test_records_are_copies():
    x = leaf(3)
    with mg.trace() as t:
        y = x * 2.0
    before = t["y"].value.copy()
    with mg.no_grad():
        y.data[:] = 0.0
        x.data[:] = 0.0
    assert np.array_equal(t["y"].value, before) and t["x"].value.any()


# ------------------------------------------------------------------------------------------- showing it

def small_trace():
    return mg.trace(attend, *(leaf(2, 2) for _ in range(4)))


def test_json_has_it_all():
    t = small_trace()
    data = json.loads(json.dumps(t.as_dict(), allow_nan=False))
    by_name = {tensor["name"]: tensor for tensor in data["tensors"]}
    assert by_name["masked_scores"]["value"][0][1] == "-Infinity"
    for name, tensor in by_name.items():
        kept = t[name]
        assert np.array_equal(np.array(tensor["value"], float), kept.value), name
        assert tensor["shape"] == list(kept.shape) and (tensor["gradient"] is None) == (kept.gradient is None)
    for step, kept in zip(data["steps"], t.steps, strict=True):
        assert step["output"] in by_name and step["op"] == kept.op
        assert all(set(value) in ({"tensor"}, {"constant"}) for value in step["inputs"])
    where = next(step for step in data["steps"] if step["op"] == "Where")
    assert where["options"]["condition"] == [[True, False], [True, True]]
    assert t["q"].kind == "input" and not any(tensor.node for tensor in t.tensors if tensor.kind == "constant")


def test_json_keeps_the_64_bits_of_a_key():
    mg.manual_seed(0)
    (step,) = mg.trace(lambda x: F.dropout(x, 0.5), leaf(3)).as_dict()["steps"]
    mg.manual_seed(0)
    key = key_of_batch(3)
    bits, first = step["options"]["key"]
    assert (int(bits), first) == tuple(key) and bits == str(key[0])  # a JavaScript number has 53


def test_tables_and_graphs():
    x = mg.tensor([1.5, 2.5], requires_grad=True)
    with mg.trace():
        y = x * 4.0
        loss = y.sum()
        loss.backward()
    head = mg.trace(attend, [[1.0, 0], [0, 2]], [[1.0, 1], [0, 1]], [[1.0, 2], [3, 4]], [[1.0, 0], [0.5, -1]])
    aside = mg.trace(lambda w, x: (w * 2.0, (w @ x[0]).exp().sum())[1], [[0.5, 0, 1], [1, 1, 0]], np.eye(3))  # w * 2 leads nowhere
    names = {"head": head, "aside": aside, "x": x, "loss": loss, "graph": mg.graph}
    replay(pathlib.Path(__file__).with_name("traces.session"), "tables and graphs", names=names)
    assert repr(head.table()) == head.table()  # an interpreter prints it


def test_a_trace_saves_a_page_and_replaces_no_other_file(tmp_path):
    t, path = small_trace(), tmp_path / "page.html"
    assert t.save(path, title="a < b") == path and "a &lt; b" in path.read_text()
    t.save(path)
    assert "a &lt; b" not in path.read_text() and "<title>attend</title>" in path.read_text()
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="is not a page of minigrad's"):
        t.save(path)
    assert path.read_text() == "mine"
    t.save(path, overwrite=True)
    assert "<!doctype html>" in path.read_text().lower()


def test_a_notebook_shows_the_page_or_the_table():
    assert small_trace()._repr_html_().startswith("<iframe") and 'srcdoc="&lt;!' in small_trace()._repr_html_()
    assert mg.trace(lambda x: (x * 2).sum(), np.ones((100, 100)))._repr_html_().startswith("<pre>")


def test_a_notebook_shows_steps_and_tensors_as_numbers_on_colours():
    t = small_trace()
    step = next(step for step in t.steps if step.op == "Softmax")
    assert repr(step) == "<weights = Softmax(masked_scores, dim=1)>" and repr(t["q"]) == "<q (2, 2) float64, input>"
    assert repr(t) == "<Trace of 9 steps: permute, matmul, scores, masked_scores, ..., mul, loss, mul_2>"
    tensor = Page(t["weights"]._repr_html_())
    assert [text for text, _ in tensor.cells] == [f"{x + 0.0:.4g}" for x in (*t["weights"].value.flat, *t["weights"].gradient.flat)]
    assert "weights (2, 2) float64" in tensor.text and "gradient" in tensor.text
    page = Page(step._repr_html_())
    arrays = t["masked_scores"].value, t["weights"].value, t["weights"].gradient, step.gradients[0]
    assert [text for text, _ in page.cells] == [f"{x + 0.0:.4g}" for array in arrays for x in array.flat]
    assert step.formula in page.text and step.backward in page.text and "to masked_scores" in page.text
    assert Page(mg.trace(lambda x: x * 2.0, [[1.0]]).steps[0]._repr_html_()).cells[1][0] == "2"  # without a backward
