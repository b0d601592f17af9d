"""Names of PyTorch's that are left out, each with a line that says what to use instead, and keywords that change nothing."""
import importlib
import pathlib
import re

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.fast import plain
from minigrad import pytorchs_names
from nn.pytorchs_names import INSTEAD as NNS

INSTEAD = pytorchs_names.INSTEAD | NNS
PAGE = (pathlib.Path(__file__).parents[1] / "docs/pytorch.md").read_text(encoding="utf-8")
MODULES = {**dict.fromkeys(("cdist", "distributed", "fft", "linalg", "vmap"), "minigrad"),
           **dict.fromkeys(("conv2d", "gumbel_softmax", "max_pool2d"), "nn.functional"),
           **dict.fromkeys(("Adagrad", "LBFGS", "RMSprop"), "nn.optim"),
           **dict.fromkeys(("OneCycleLR", "ReduceLROnPlateau"), "nn.optim.lr_scheduler"),
           **dict.fromkeys(("pack_padded_sequence", "pad_packed_sequence"), "nn.utils.rnn")}


@pytest.mark.parametrize("name", INSTEAD)
def test_a_left_out_name_says_what_to_use_instead(name):
    path = MODULES.get(name, "nn")
    module, message = importlib.import_module(path), f"module '{path}' has no attribute {name!r}: left out; {INSTEAD[name]}"
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
        getattr(module, name)
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        exec(f"from {path} import {name}")
    assert not hasattr(module, name)
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("path", ["minigrad.autograd", "nn", *dict.fromkeys(MODULES.values())])
def test_any_other_name_is_pythons_error(path):
    module = importlib.import_module(path)
    with pytest.raises(AttributeError, match=f"^module '{path}' has no attribute 'nonsense'$") as raised:
        getattr(module, "nonsense")  # noqa: B009
    assert raised.value.obj is module  # from which Python makes "Did you mean ...?"
    with pytest.raises(ImportError, match=f"^cannot import name 'nonsense' from '{path}'"):
        exec(f"from {path} import nonsense")


def test_what_to_use_instead_exists():
    for instead in INSTEAD.values():
        for path in re.findall(r"\b(?:mg|nn)(?:\.\w+)+", instead):
            library, *names = path.split(".")
            found = importlib.import_module({"mg": "minigrad"}.get(library, library))
            for name in names:
                found = getattr(found, name)
        for method in re.findall(r"(?<![\w.])[abx]\.(\w+)", instead):
            assert hasattr(mg.Tensor, method), instead


@pytest.mark.parametrize("optimizer", [nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW])
def test_keywords_of_optimizers_that_change_nothing(optimizer):
    steps = []
    for options in ({}, {"foreach": True}, {"fused": True, "foreach": False}):
        p = mg.tensor([1.0, -2.0], requires_grad=True)
        p.grad = mg.tensor([0.5, 3.0])
        optimizer([p], lr=0.1, **options).step()
        steps.append(p.tolist())
    assert steps[0] == steps[1] == steps[2] != [1.0, -2.0]


@pytest.mark.parametrize("compiled", [mg.compile, plain.compile])
@pytest.mark.parametrize("options", [{"fullgraph": True}, {"dynamic": True}, {"mode": "max-autotune"}, {"backend": "inductor"}], ids=str)
def test_keywords_of_compile_that_change_nothing(compiled, options):
    assert compiled(lambda x: 2 * x, **options)(mg.ones(1)).item() == compiled(**options)(lambda x: 2 * x)(mg.ones(1)).item() == 2


def test_keywords_of_data_loaders_that_change_nothing():
    options = {"num_workers": 2, "pin_memory": True, "persistent_workers": True, "prefetch_factor": 2, "worker_init_fn": print}
    assert [batch.tolist() for batch in nn.utils.data.DataLoader([1, 2, 3], 2, **options)] == [[1, 2], [3]]


@pytest.mark.parametrize("call", [
    lambda: mg.exp(mg.ones(2), out=None), lambda: nn.functional.mse_loss(mg.ones(2), mg.ones(2), size_average=False), lambda: nn.Embedding(3, 2, max_norm=1.0),
    lambda: nn.optim.SGD([mg.ones(1)], lr=0.1).step(closure=None), lambda: mg.compile(print, options={}), lambda: nn.MSELoss(size_average=False),
])
def test_any_other_keyword_is_pythons_error(call):
    with pytest.raises(TypeError, match="got an unexpected keyword argument '(out|size_average|max_norm|closure|options)'$"):
        call()


x = np.random.default_rng(2).uniform(0.5, 2, (5, 5))


@pytest.mark.parametrize("source", [
    "mg.sum(input=x, dim=1)", "mg.exp(input=x)", "mg.matmul(input=x, other=x)", "mg.where(x > 1, input=x, other=0.0)",
    "mg.zeros_like(input=x)", "mg.softmax(input=x, dim=-1, dtype=mg.float64)", "mg.flip(x, dims=(0, 1))",
    "mg.permute(input=x, dims=(1, 0))", "mg.scatter(x, 0, mg.tensor([[1]]), value=3.0)",
    "F.gelu(input=x)", "F.cross_entropy(input=x, target=mg.tensor([0] * 5))", "F.mse_loss(input=x, target=2 * x)",
])
def test_keywords_mean_the_same(source):
    torch = pytest.importorskip("torch")
    got = eval(source, {"mg": mg, "F": mg.nn.functional, "x": mg.tensor(x)})
    wanted = eval(source, {"mg": torch, "F": torch.nn.functional, "x": torch.tensor(x)})
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("source", [
    "mg.exp(x)", "mg.max(x, 1)[0]", "mg.max(x, 1)[1]", "mg.sum(x, dim=0)", "mg.add(x, x)", "mg.gt(x, 1.0)", "mg.matmul(x, x)", "mg.topk(x, 2)[0]",
])
def test_functions_of_tensors_take_arrays(source):
    got, wanted = (eval(source, {"mg": mg, "x": values}) for values in (mg.tensor(x).array, mg.tensor(x)))
    assert isinstance(got, mg.Tensor) and got.equal(wanted)


def test_an_array_given_for_a_tensor_is_copied():
    """The caller may write to it before backward."""
    w, values = mg.ones(2, dtype=mg.float64, requires_grad=True), np.array([3.0, 4.0])
    product = mg.mul(values, w).sum()
    values[:] = 0.0
    product.backward()
    assert w.grad.tolist() == [3.0, 4.0]
