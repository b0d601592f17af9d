"""The walk back: what is known to go wrong in engines like this."""
import copy
import threading

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.observer import Observer
from minigrad.tape import Op
from minigrad.tensor import apply


def leaf(*values):
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


def repeated(x, step, times):
    for _ in range(times):
        x = step(x)
    return x


WALKS = {  # a function of a number, the number, and the derivative there
    **{f"a leaf used {n} times": (lambda x, n=n: sum((x * float(i) for i in range(2, n + 1)), x * 1.0), 1.5, n * (n + 1) / 2)
       for n in (2, 13, 25, 64)},
    "a node that waits for all of its gradient": (lambda a: a * (a + a), 3.0, 12.0),
    "a diamond with arms of different lengths": (lambda x: repeated(x, lambda y: y * 2.0, 5) * x + x, 0.7, 2 * 32 * 0.7 + 1),
    "sixty doublings in sixty steps": (lambda x: repeated(x, lambda y: y + y, 60), 1.0, 2.0**60),
    "one tensor as both inputs": (lambda x: x - x * x + x / x, 1.5, -2.0),
    "100,000 ops without recursion": (lambda x: repeated(x, lambda y: y + 0.5, 100_000), 1.0, 1.0),
}


@pytest.mark.parametrize("function, x, expected", WALKS.values(), ids=WALKS)
def test_the_walk_finds_the_derivative(function, x, expected):
    x = leaf(x)
    function(x).backward()
    np.testing.assert_allclose(x.grad.array, [expected])


def test_gradients_of_leaves_accumulate_and_zero_grad_forgets():
    x = leaf(2.0)
    for times in (1, 2, 3):
        (x * x).backward()
        assert x.grad.item() == 4.0 * times
    x.grad = None
    (x * x).backward()
    assert x.grad.item() == 4.0


def test_a_second_backward_needs_retain_graph():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def written_to_by(hook):
    def backward(x, y, upstream):
        x.register_hook(hook)
        (x + y).backward(upstream)
    return backward


def with_slices(x, y, upstream):
    (x * 1.0 + y).backward(upstream, retain_graph=True)
    z = x * 1.0
    x.grad = y.grad = None
    ((z + y).sum() + sum(z[i : i + 1].sum() for i in (0, 1, 0, 1, 0, 1))).backward()


SHARED = {  # how x + y is differentiated: its gradient is that of both; and the gradients of x and y
    "once": (lambda x, y, upstream: (x + y).backward(upstream), 1.0, 1.0),
    "twice": (lambda x, y, upstream: [(x + y).backward(upstream) for _ in range(2)], 2.0, 2.0),
    "a hook writes": (written_to_by(lambda g: g.mul_(7.0)), 7.0, 1.0),
    "a hook writes and returns nothing": (written_to_by(lambda g: (g.mul_(7.0), None)[1]), 7.0, 1.0),
    "slices are added": (with_slices, 4.0, 1.0),
}


@pytest.mark.parametrize("backward, of_x, of_y", SHARED.values(), ids=SHARED)
def test_a_gradient_never_shares_memory_with_another_or_with_the_upstream(backward, of_x, of_y):
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    upstream = mg.ones(2, dtype=mg.float64)
    backward(x, y, upstream)
    np.testing.assert_array_equal(upstream.array, [1.0, 1.0])
    upstream.array[...] = 5.0
    assert x.grad.tolist() == [of_x, of_x]
    x.grad.array[...] = 9.0
    assert y.grad.tolist() == [of_y, of_y]


@pytest.mark.parametrize("order", [1, -1])
def test_an_output_may_lie_below_another(order):
    x, calls = leaf(3.0), []
    y = x * x
    y.register_hook(lambda gradient: calls.append(gradient.item()))
    z = y.exp() * 0.0 + y * 5.0
    (gradient,) = mg.grad([y, z][::order], x)
    assert gradient.tolist() == [36.0] and calls == [6.0] and x.grad is None


def test_only_what_leads_to_a_wanted_input_is_computed():
    class Forbidden(Op):
        def forward(self, x):
            return x + 1.0

        def backward(self, dout):
            raise AssertionError("this gradient is not wanted")

    x, y = leaf(2.0), leaf(3.0)
    (gradient,) = mg.grad(x * 4.0 + apply(Forbidden, y), x)
    assert gradient.tolist() == [4.0] and x.grad is y.grad is None


def test_no_grad_records_nothing_and_is_restored_after_an_exception():
    x = leaf(1.0)
    with pytest.raises(KeyError), mg.no_grad():
        assert not (x * 2.0).requires_grad
        with mg.enable_grad():
            assert (x * 2.0).requires_grad
        raise KeyError
    assert mg.is_grad_enabled() and (x * 2.0).requires_grad


def test_the_mode_belongs_to_the_thread():
    seen = []
    with mg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(mg.is_grad_enabled()))
        thread.start()
        thread.join()
        assert seen == [True] and not mg.is_grad_enabled()


def test_set_grad_enabled_works_at_once_as_a_block_and_as_a_decorator():
    mg.set_grad_enabled(False)
    assert not mg.is_grad_enabled()
    mg.set_grad_enabled(True)
    with mg.set_grad_enabled(False):
        assert not mg.is_grad_enabled()
    assert mg.set_grad_enabled(False)(mg.is_grad_enabled)() is False
    assert mg.is_grad_enabled()


def test_a_wrong_backward_is_named():
    class TooFew(Op):
        def forward(self, a, b):
            return a + b

        def backward(self, dout):
            return dout

    class WrongShape(TooFew):
        def backward(self, dout):
            return dout, dout[:1, None]

    for operation, words in ((TooFew, "TooFew.backward returned 1 gradients for 2"), (
            WrongShape, r"WrongShape, input 1: a gradient of shape \(1, 1\) does not fit an input of shape \(2,\)")):
        x = leaf(1.0, 2.0)
        for y in (leaf(1.0, 2.0), x):
            with pytest.raises(RuntimeError, match=words):
                apply(operation, x, y).backward(mg.ones(2))


def test_the_gradient_that_a_backward_starts_with_is_its_own():
    x = mg.tensor(3.0, requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda gradient: gradient.mul_(5.0))
    y.backward()
    (x + 1.0).backward(create_graph=True)
    (x + 1.0).backward()
    z = mg.tensor(3.0, requires_grad=True)
    (z * 2.0).backward()
    assert x.grad.item() == 17.0 and z.grad.item() == 2.0


@pytest.mark.parametrize("function", [
    lambda x: -x, lambda x: 1.0 - x, lambda x: x.abs(), lambda x: x.sin(), lambda x: x**2, lambda x: x.norm(),
    lambda x: x.logsumexp(0),
])  # fmt: skip
def test_the_gradient_of_a_single_number_is_a_tensor(function):
    x = mg.tensor(3.0, requires_grad=True)
    inner = x * 1.0
    inner.retain_grad()
    function(inner).backward()
    for tensor in (x, inner):
        assert isinstance(tensor.grad, mg.Tensor) and tensor.grad.shape == ()
        tensor.grad.mul_(2.0)


def test_gradients_kept_by_create_graph_share_no_memory():
    a, b = (mg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    v = mg.ones(2)
    (a + b).backward(v, create_graph=True)
    first = a.grad
    (a * 5.0).backward(mg.ones(2))
    assert a.grad.tolist() == [6, 6] and b.grad.tolist() == v.tolist() == [1, 1] and a.grad is first
    a.sum().backward(create_graph=True)
    a.sum().backward()
    assert a.grad.tolist() == [8, 8] and first.tolist() == [6, 6]
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    (x**3).sum().backward(create_graph=True)
    assert x.grad.tolist() == [5, 16]


def test_freezing_a_leaf_for_a_while_loses_nothing():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    (x * 2.0).sum().backward()
    y = (x * 3.0).sum()
    x.requires_grad_(False)
    assert x.grad.tolist() == [2, 2] and not (x * 2.0).requires_grad
    x.grad = x.grad * 2.0
    x.requires_grad_(True)
    y.backward()
    assert x.grad.tolist() == [7, 7]


def test_a_generator_under_no_grad_is_a_whole_generator():
    modes = []

    @mg.no_grad()
    def echo():
        received = []
        try:
            while True:
                received.append((yield len(received)))
                modes.append(mg.is_grad_enabled())
        except KeyError:
            yield received
        finally:
            modes.append(mg.is_grad_enabled())

    generator = echo()
    assert next(generator) == 0 and generator.send("a") == 1 and mg.is_grad_enabled()
    assert generator.throw(KeyError()) == ["a"]
    generator.close()
    assert modes == [False, False]


@pytest.mark.parametrize("decorate", [mg.no_grad, mg.enable_grad(), mg.inference_mode(), lambda f: mg.set_grad_enabled(False)(f)])
def test_async_functions_are_not_decorated(decorate):
    async def coroutine(): pass

    async def generator(): yield

    for function in (coroutine, generator):
        with pytest.raises(TypeError, match="^[a-z_]+: cannot decorate an async function, .*; write a with block inside it[^\n]*$"):
            decorate(function)
    assert mg.is_grad_enabled()


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_deep_copy_shares_no_place_on_the_tape(is_frozen):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    x.requires_grad_(False)
    x.requires_grad_(not is_frozen)
    twin = copy.deepcopy(x)
    assert not np.shares_memory(x.array, twin.array)
    twin.requires_grad_(True)
    x.requires_grad_(True)
    (twin * 3.0).sum().backward()
    assert x.grad is None and twin.grad.tolist() == [3, 3]


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_deep_copy_of_a_leaf_keeps_its_gradient_and_one_of_a_parameter_does_not(is_frozen, create_graph):
    """As in PyTorch."""
    for x, kept in ((mg.tensor([1.0, 2.0], requires_grad=True), [3, 12]), (nn.Parameter(mg.tensor([1.0, 2.0])), None)):
        (x**3).backward(mg.ones(2), create_graph=create_graph)
        twin = copy.deepcopy(x.requires_grad_(not is_frozen))
        assert twin.requires_grad is not is_frozen and type(twin) is type(x)
        x.grad.detach().zero_()
        assert twin.grad is kept if kept is None else twin.grad.tolist() == kept and not twin.grad.requires_grad


def test_gradients_lie_row_by_row():
    w = mg.zeros(3, 2, requires_grad=True)
    w.T.backward(mg.ones(2, 3))
    assert w.grad.array.flags.c_contiguous


@pytest.mark.parametrize("slices_first", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_gradients_of_slices_are_added_to_sums_of_the_walk_alone(count, slices_first):
    """Whatever else arrives, in whatever order; what came from others stays as it was."""
    x, seen = leaf(*range(6)), []
    y = x * 1.0
    y.retain_grad()
    whole = y * mg.tensor([10.0] * 6, dtype=mg.float64)
    whole.register_hook(lambda gradient: seen.append(gradient))
    slices = sum(y[i : i + 2].sum() for i in range(count))
    (slices + whole.sum() if slices_first else whole.sum() + slices).backward()
    expected = np.full(6, 10.0)
    for i in range(count):
        expected[i : i + 2] += 1.0
    np.testing.assert_array_equal(x.grad.array, expected)
    np.testing.assert_array_equal(y.grad.array, expected)
    np.testing.assert_array_equal(seen[0].array, np.ones(6))


@pytest.mark.parametrize("is_first", [False, True])
def test_a_leaf_has_its_gradient_as_soon_as_it_can(is_first):
    events = []

    class Log(Observer):
        def backward(self, op, dout, onto=None):
            events.append(op.title)
            return super().backward(op, dout)

    def times(x, w):
        return w * x if is_first else x * w

    early, late = leaf(1.0, 2.0), leaf(3.0, 4.0)
    early.register_post_accumulate_grad_hook(lambda w: events.append(f"early {w.grad.tolist()}"))
    late.register_post_accumulate_grad_hook(lambda w: events.append(f"late {w.grad.tolist()}"))
    with Log():
        times((times(leaf(5.0, 6.0), early)).tanh(), late).sum().backward()
    assert [event.split()[0] for event in events] == ["Sum", "Mul", "late", "Tanh", "Mul", "early"]


def test_a_gradient_that_is_none_leaves_the_rest_of_the_graph_alone():
    """An op may give None for an input that needs a gradient: what lies behind gets nothing, or what comes by other paths."""

    class Nothing(Op):
        def forward(self, x):
            return x + 1.0

        def backward(self, dout):
            return None,

    x, y, called = leaf(2.0), leaf(3.0), []
    y.register_post_accumulate_grad_hook(called.append)
    (apply(Nothing, x * y) + x * 5.0).sum().backward()
    assert x.grad.tolist() == [5.0] and y.grad is None and not called
    assert mg.grad(apply(Nothing, x * y).sum(), (x, y), allow_unused=True) == (None, None)


def test_retain_grad_keeps_a_gradient_that_is_none_otherwise_and_says_why():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3.0
    assert x.grad is None  # nothing has arrived yet
    with pytest.warns(UserWarning, match=r"not a leaf Tensor .* made by Mul\. Call retain_grad\(\)"):
        assert y.grad is None
    y.retain_grad()
    x.retain_grad()  # leaves always keep theirs
    assert y.grad is None
    (y * y + y).backward(mg.ones(2))
    assert y.grad.tolist() == [7.0, 13.0] and x.grad.tolist() == [21.0, 39.0]


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_a_gradient_of_one_number_can_be_added_to(reduction):
    """A broadcast view of one number is contiguous, and cannot be written to."""
    x = mg.tensor(3.0, requires_grad=True)
    for _ in range(2):
        y = x * 2.0
        (getattr(y, reduction)() + getattr(y, reduction)()).backward()
    assert x.grad.item() == 8.0
