"""Names in files written for PyTorch, apart from functions: devices, dtypes, generators, packages."""
import inspect
import re

import numpy as np
import pytest

import minigrad as mg
import nn

MAKERS = {  # of tensors, given options
    "tensor": lambda **o: mg.tensor([1.0], **o), "as_tensor": lambda **o: mg.as_tensor([1.0], **o),
    "zeros": lambda **o: mg.zeros(2, **o), "ones": lambda **o: mg.ones(2, **o), "empty": lambda **o: mg.empty(2, **o),
    "full": lambda **o: mg.full((2,), 1.0, **o), "eye": lambda **o: mg.eye(2, **o), "arange": lambda **o: mg.arange(3.0, **o),
    "linspace": lambda **o: mg.linspace(0, 1, 3, **o), "rand": lambda **o: mg.rand(2, **o), "randn": lambda **o: mg.randn(2, **o),
    "normal": lambda **o: mg.normal(0.0, 1.0, (2,), **o), "zeros_like": lambda **o: mg.zeros_like(mg.ones(2), **o),
    "ones_like": lambda **o: mg.ones_like(mg.ones(2), **o), "full_like": lambda **o: mg.full_like(mg.ones(2), 3.0, **o),
    "empty_like": lambda **o: mg.empty_like(mg.ones(2), **o), "rand_like": lambda **o: mg.rand_like(mg.ones(2), **o),
    "randn_like": lambda **o: mg.randn_like(mg.ones(2), **o), "new_zeros": lambda **o: mg.ones(1).new_zeros(2, **o),
    "new_full": lambda **o: mg.ones(1).new_full((2,), 3.0, **o), "new_tensor": lambda **o: mg.ones(1).new_tensor([2.0], **o),
    "randint": lambda **o: mg.randint(5, (2,), **o), "randperm": lambda **o: mg.randperm(3, **o),
}
NO_CUDA = re.escape("device 'cuda' is not available: \"cpu\" is the only one")


@pytest.mark.parametrize("name", MAKERS)
def test_new_tensors_take_a_device_a_dtype_and_requires_grad(name):
    make = MAKERS[name]
    default = make().dtype
    assert default == (mg.int64 if name in ("randint", "randperm") else mg.float32)
    for device in (None, "cpu", "cpu:0", mg.device("cpu"), make().device):
        assert make(device=device).device == mg.device("cpu")
    assert make(dtype=None).dtype == default
    assert make(dtype=mg.double).dtype == mg.float64
    if name != "as_tensor":
        assert make(dtype=mg.float, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match=NO_CUDA):
        make(device="cuda")
    for dtype in (mg.float16, mg.int, mg.uint8):
        with pytest.raises(TypeError, match=f"tensors hold float32, float64, int64 or bool, not {dtype}$"):
            make(dtype=dtype)


@pytest.mark.parametrize("make", [mg.zeros, mg.ones, mg.empty, mg.rand, mg.randn])
def test_a_size_can_be_given_in_three_ways(make):
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == make(size=(2, 3)).shape == (2, 3)
    assert make(size=()).shape == make(()).shape == ()
    with pytest.raises(TypeError):
        make(4, size=(2, 3))


def test_devices():
    x, layer = mg.ones(2), nn.Linear(2, 2)
    assert (str(x.device), x.device.type, x.device.index, x.is_cuda) == ("cpu", "cpu", None, False)
    assert x.device == mg.device("cpu") == mg.device("cpu", 0) == "cpu" != "cuda" and len({x.device, mg.device("cpu")}) == 1
    for moved in (x.to("cpu"), x.to(x.device), x.to(device="cpu"), x.cpu(), x.to("cpu", non_blocking=True), x.to(x)):
        assert moved is x
    for moved in (layer.to("cpu"), layer.to(x.device), layer.cpu(), layer.to(device="cpu")):
        assert moved is layer
    for move in (lambda y: y.to("cuda"), lambda y: y.cuda(), lambda y: y.to(device="cuda"), lambda y: y.to("cuda", mg.float32)):
        for y in (x, layer):
            with pytest.raises(RuntimeError, match=NO_CUDA):
                move(y)
    for other in ("cuda:1", "mps", "meta", 0):
        with pytest.raises(RuntimeError, match=re.escape(f'device {other!r} is not available: "cpu" is the only one')):
            x.to(other)
    for kind in ("cuda", "cpu"):
        with pytest.raises(RuntimeError, match=f"device '{kind}:1' is not available"):
            mg.device(kind, 1)
    for kind in (mg.cuda, mg.accelerator, mg.backends.mps, mg.backends.cuda):
        assert not kind.is_available() and kind.device_count() == 0
        kind.manual_seed(1)
    assert mg.accelerator.current_accelerator() is None
    assert not hasattr(mg.cuda, "Stream")
    mg.backends.cuda.matmul.allow_tf32 = mg.backends.cudnn.allow_tf32 = True
    mg.set_float32_matmul_precision("high")
    with mg.device("cpu") as device:
        assert mg.ones(2).device == device
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        mg.Generator(device="mps")


def test_constants():
    assert mg.nan != mg.nan and mg.inf == float("inf") and mg.pi == np.pi
    assert isinstance(mg.ones(2).dtype, mg.dtype) and isinstance(mg.long, mg.dtype)


CONSTRUCTORS = [(mg.Tensor, mg.float32), (mg.FloatTensor, mg.float32), (mg.LongTensor, mg.int64)]


@pytest.mark.parametrize("make, dtype", CONSTRUCTORS)
def test_constructors_read_data_as_pytorchs(make, dtype):
    torch = pytest.importorskip("torch")
    for source in ("[1, 2]", "[[1.5], [-2.5]]", "[True, False]", "[]", "range(3)", "((1, 2), (3, 4))", "(1.5, 2.0)", "np.array([3, 2])",
                   "np.array([True])", "np.float32([1.5, 2.5])", "np.array(2.5, np.float32)", "[tensor(2), tensor(3)]"):
        got = make(eval(source, {"tensor": mg.tensor, "np": np}))
        wanted = getattr(torch, make.__name__)(eval(source, {"tensor": torch.tensor, "np": np}))
        assert got.dtype == dtype and wanted.dtype == getattr(torch, dtype.name), source
        np.testing.assert_array_equal(got.numpy(), wanted.numpy(), err_msg=source)


@pytest.mark.parametrize("make, dtype", CONSTRUCTORS)
def test_constructors_refuse_what_may_be_a_shape(make, dtype):
    for data in ((2, 3), (3,), (np.int64(3),), ((2, 3),), (mg.ones(2, 3).shape,), ((),), (), ([1], [2])):
        with pytest.raises(TypeError, match=rf"^{make.__name__}: expected one list or array, got .*; for a shape use mg.empty"):
            make(*data)


@pytest.mark.parametrize("make, dtype", CONSTRUCTORS)
def test_constructors_copy_arrays(make, dtype):
    array = np.zeros(2, dtype)
    make(array)[0] = 1
    assert array[0] == 0


def test_tensor_shares_a_tensor_and_makes_float32_of_arrays():
    for dtype in (mg.int64, mg.bool, mg.float64):
        x = mg.zeros(2, dtype=dtype)
        assert mg.Tensor(x).dtype == dtype and mg.Tensor(x).data_ptr() == x.data_ptr()
        assert mg.Tensor(x.numpy()).dtype == mg.float32 and mg.tensor(x.numpy()).dtype == mg.abs(x.numpy()).dtype == dtype
    assert mg.Tensor([1, 2], dtype=mg.int64).dtype == mg.int64
    counts = np.array([1, 3])
    step = mg.compile(lambda ids: (mg.Tensor(ids), mg.Tensor(counts)))
    for first in (1, 2):  # captured, replayed
        counts[0] = first
        ids, read_again = step(mg.tensor([first]))
        assert (ids.dtype, ids.item(), read_again.dtype, read_again.tolist()) == (mg.int64, first, mg.float32, [first, 3])


@pytest.mark.parametrize("make", [
    lambda **o: nn.Linear(2, 3, **o), lambda **o: nn.Linear(2, 3, True, o.get("device"), o.get("dtype")), lambda **o: nn.Embedding(4, 2, **o), lambda **o: nn.LayerNorm(3, **o),
    lambda **o: nn.RMSNorm(3, **o), lambda **o: nn.RNN(2, 3, **o),
    lambda **o: nn.GRU(2, 3, bidirectional=True, **o), lambda **o: nn.LSTM(2, 3, **o), lambda **o: nn.MultiheadAttention(4, 2, **o),
    lambda **o: nn.TransformerEncoderLayer(4, 2, 8, **o), lambda **o: nn.TransformerDecoderLayer(4, 2, 8, **o),
    lambda **o: nn.Transformer(4, 2, 1, 1, 8, **o),
], ids=["Linear", "Linear by position", "Embedding", "LayerNorm", "RMSNorm", "RNN", "GRU", "LSTM",
        "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"])
def test_layers_with_parameters_take_a_device_and_a_dtype(make):
    assert {p.dtype for p in make(device="cpu").parameters()} == {mg.float32}
    layer = make(device=mg.device("cpu"), dtype=mg.float64)
    assert {p.dtype for p in layer.parameters()} == {mg.float64}
    assert all((p.abs().sum() > 0) | name.endswith("bias") for name, p in layer.named_parameters())
    with pytest.raises(RuntimeError, match=NO_CUDA):
        make(device="cuda")
    with pytest.raises(TypeError, match="not float16"):
        make(dtype=mg.float16)


def test_conversions():
    x = mg.tensor([0.5, 2.0], requires_grad=True)
    assert x.nelement() == x.numel() == 2
    assert x.to(mg.float32) is x and x.to(mg.float32, copy=True) is not x
    assert x.to("cpu", mg.float64).dtype == x.to(mg.double, non_blocking=True).dtype == mg.float64
    assert x.to(mg.zeros(1, dtype=mg.int64)).tolist() == x.type(mg.long).tolist() == x.type_as(mg.arange(2)).tolist() == [0, 2]
    (x.to("cpu", mg.double) * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and x.grad.dtype == mg.float32
    for convert, dtype in ((x.half, "float16"), (x.int, "int32"), (lambda: x.to("int8"), "int8"),
                           (lambda: x.type("nonsense"), "nonsense"), (nn.Linear(1, 1).half, "float16")):
        with pytest.raises(TypeError, match=f"tensors hold float32, float64, int64 or bool, not {dtype}$"):
            convert()
    assert mg.as_tensor(x) is x and mg.as_tensor(x, dtype=mg.float64).dtype == mg.float64
    array = np.zeros(2)
    assert mg.as_tensor(array).data_ptr() == array.ctypes.data != mg.tensor(array).data_ptr()
    assert (mg.zeros(2, 3).stride(), mg.zeros(2, 3).T.stride(0), mg.zeros(2, 3).T.is_contiguous()) == ((3, 1), 1, False)
    assert mg.is_tensor(x) and not mg.is_tensor(array) and x.is_floating_point() and not mg.is_floating_point(mg.arange(2))
    assert mg.finfo(mg.float).max > 3e38 and mg.Size([2]) == x.shape


@pytest.mark.parametrize("draw", [
    lambda **o: mg.rand(4, **o), lambda **o: mg.randn(4, **o), lambda **o: mg.randint(100, (4,), **o),
    lambda **o: mg.randperm(50, **o), lambda **o: mg.normal(mg.zeros(4), 2.0, **o), lambda **o: mg.rand_like(mg.ones(4), **o),
    lambda **o: mg.ones(50).multinomial(4, **o), lambda **o: mg.ones(50).multinomial(4, True, **o),
    lambda **o: mg.bernoulli(mg.full((40,), 0.5), **o), lambda **o: mg.zeros(4).normal_(**o),
    lambda **o: mg.zeros(4).uniform_(1, 2, **o),
    lambda **o: nn.init.uniform_(mg.zeros(4), **o), lambda **o: nn.init.normal_(mg.zeros(4), **o),
    lambda **o: nn.init.trunc_normal_(mg.zeros(40), a=-0.5, b=0.5, **o), lambda **o: nn.init.orthogonal_(mg.zeros(2, 3), **o),
    lambda **o: nn.init.xavier_uniform_(mg.zeros(2, 3), **o), lambda **o: nn.init.xavier_normal_(mg.zeros(2, 3), **o),
    lambda **o: nn.init.kaiming_uniform_(mg.zeros(2, 3), **o), lambda **o: nn.init.kaiming_normal_(mg.zeros(2, 3), **o),
])
def test_draws_follow_their_own_generator(draw):
    mg.manual_seed(3)
    wanted, state = draw().tolist(), mg.get_rng_state()
    later = draw().tolist()
    mg.set_rng_state(state)
    assert draw().tolist() == later != wanted
    own = mg.Generator()
    mg.manual_seed(5)
    before = mg.random.get_state()
    assert draw(generator=own.manual_seed(3)).tolist() == wanted
    state = own.get_state()
    later = draw(generator=own).tolist()
    assert later != wanted and draw(generator=own.set_state(state)).tolist() == later
    assert mg.random.get_state() == before and own.initial_seed() == 3
    assert draw(generator=mg.Generator()).tolist() == draw(generator=mg.Generator()).tolist()
    assert draw(generator=own.manual_seed(4)).tolist() != wanted
    with pytest.raises(TypeError, match="generator: expected a minigrad.Generator, got int"):
        draw(generator=3)


def test_each_replay_draws_from_its_generator_again():
    own = mg.Generator().manual_seed(1)
    expected = [mg.randn(2, generator=own).tolist() for _ in range(3)]
    own.manual_seed(1)
    step = mg.compile(lambda x: x + mg.randn(2, generator=own))
    assert [step(mg.zeros(2)).tolist() for _ in range(3)] == expected


def test_uniform_draws_stay_below_the_upper_bound():
    """Even where rounding to the dtype would reach it."""
    high = float(np.nextafter(np.float32(1), np.float32(2)))
    for x in (mg.zeros(100).uniform_(1.0, high), mg.zeros(100, dtype=mg.float64).uniform_(0.0, 5e-324)):
        assert (x.numpy() < x.numpy().dtype.type(high)).all() and len(set(x.tolist())) == 1


def test_draws_have_the_stated_distribution():
    mg.manual_seed(0)
    n = 20_000
    for x, mean, std in ((mg.zeros(n).normal_(2.0, 0.5), 2, 0.5), (mg.zeros(n).uniform_(-1, 3), 1, 4 / 12**0.5),
                         (mg.full((n,), 0.3).bernoulli(), 0.3, 0.21**0.5), (mg.normal(mg.full((n,), 2.0), 3.0), 2, 3),
                         (mg.normal(1.0, mg.full((n,), 3.0)), 1, 3)):
        assert x.dtype == mg.float32
        assert abs(x.mean().item() - mean) < 5 * std / n**0.5 and abs(x.std().item() - std) < 0.05 * std
    assert mg.normal(mg.zeros(2, dtype=mg.float64), 1.0).dtype == mg.float64
    assert set(mg.randint(-1, 2, (100,)).tolist()) == {-1, 0, 1} and mg.randint(5, size=(2, 3)).shape == (2, 3)
    assert mg.randint(high=3, size=(50,)).max().item() == 2 == mg.randint(3, (50,)).max().item()


def test_inference_mode_and_modes_without_parentheses():
    x = mg.ones(2, requires_grad=True)
    with mg.inference_mode():
        assert not (x * 2).requires_grad
        for block in (mg.inference_mode(False), mg.inference_mode(mode=False)):
            with block:
                assert (x * 2).requires_grad

    for decorate, is_on_tape in ((mg.inference_mode, False), (mg.inference_mode(), False), (mg.no_grad, False),
                                 (lambda function: mg.no_grad()(mg.inference_mode(False)(function)), True)):
        @decorate
        def double(y):
            return y * 2

        assert double(x).requires_grad == is_on_tape and double.__name__ == "double" and mg.is_grad_enabled()


def test_packages_are_attributes():
    assert mg.nn is nn and mg.optim is nn.optim and mg.nn.functional is nn.functional and mg.utils.data is nn.utils.data
    assert mg.autograd.grad is mg.grad and mg.autograd.Function is mg.Function
    assert mg.autograd.functional.jacobian is mg.jacobian and mg.autograd.no_grad is mg.no_grad
    with pytest.raises(AttributeError, match="module 'minigrad' has no attribute 'nonsense'"):
        mg.nonsense  # noqa: B018


def test_dir_lists_this_librarys_names_only():
    def home(value):
        return value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "") or "minigrad"

    public = {name: getattr(mg, name) for name in dir(mg) if name[0] != "_"}
    foreign = {name for name, value in public.items() if home(value).split(".")[0] not in ("minigrad", "nn", "models", "study")}
    assert {name for name in foreign if not isinstance(public[name], np.dtype)} == {"Size", "dtype"}
    assert not public.keys() & {"TYPE_CHECKING", "as_function"}
