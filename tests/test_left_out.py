"""A name of PyTorch's exists here, or its error says what to use instead: the tables of minigrad/ops and nn/left_out.py."""
import importlib
import inspect
import math
import pathlib
import pkgutil
import re

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.fast import plain
from minigrad.ops.left_out import FUNCTIONS, METHODS, OF_AUTOGRAD, OF_COMPILE, OF_FUNCTIONS
from nn.left_out import LEFT_OUT, OF_MODULES, OF_OPTIMIZERS

TABLES = {"minigrad": FUNCTIONS, "minigrad.autograd": OF_AUTOGRAD, **LEFT_OUT}
REASONS = {(module, name): reason for module, table in TABLES.items() for names, reason in table.items() for name in names.split()}
THEIRS = {"minigrad": "torch", "minigrad.autograd": "torch.autograd", "nn": "torch.nn", "nn.functional": "torch.nn.functional", "nn.init": "torch.nn.init",
          "nn.optim": "torch.optim", "nn.optim.lr_scheduler": "torch.optim.lr_scheduler", "nn.utils": "torch.nn.utils",
          "nn.utils.rnn": "torch.nn.utils.rnn", "nn.utils.data": "torch.utils.data"}
README = (pathlib.Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", TABLES)
def test_a_left_out_name_says_so(module):
    found = importlib.import_module(module)
    for names, reason in TABLES[module].items():
        for name in names.split():
            with pytest.raises(AttributeError) as raised:
                getattr(found, name)
            assert str(raised.value) == f"module {module!r} has no attribute {name!r}: left out; {reason}"
            with pytest.raises(ImportError) as imported:
                exec(f"from {module} import {name}")
            assert str(imported.value) == str(raised.value)
            assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$") as raised:
        getattr(found, "nonsense")  # noqa: B009
    assert raised.value.obj is found  # from which Python makes "Did you mean ...?"


def test_each_name_is_listed_once():
    for module, table in TABLES.items():
        names = " ".join(table).split()
        assert not {name for name in names if names.count(name) > 1}, module


@pytest.mark.parametrize("module", TABLES)
def test_replacements_exist(module):
    for reason in [*TABLES[module].values(), *METHODS.values()]:
        for path in re.findall(r"\b(?:mg|nn|np|math|models)(?:\.\w+)+", reason):
            library, *names = path.split(".")
            found = importlib.import_module({"mg": "minigrad", "np": "numpy"}.get(library, library))
            for name in names:
                found = getattr(found, name)
        for method in re.findall(r"(?<![\w.])[abcpxy]\.(\w+)", reason):
            assert hasattr(mg.Tensor, method), reason


def test_a_left_out_method_says_so():
    x = mg.ones(2)
    for name, wanted in {
        "cdist": "left out; use (a[:, None]", "is_sparse": "left out; tensors are dense", "addmm_": "left out; use c + a @ b",
        "squeeze_": r"left out; use x = x.squeeze(...)", "take_along_dim": "left out; use mg.take_along_dim",
    }.items():
        with pytest.raises(AttributeError, match=f"^'Tensor' object has no attribute '{name}': {re.escape(wanted)}"):
            getattr(x, name)
    for name in ("nonsense", "nonsense_", "__sum_", "_array_"):
        with pytest.raises(AttributeError, match=f"^'Tensor' object has no attribute '{name}'$"):
            getattr(x, name)
    assert not set(" ".join(METHODS).split()) & {name for name in dir(mg.Tensor) if not name.startswith("_")}


def test_each_method_of_pytorchs_tensors_exists_or_is_left_out():
    torch, x = pytest.importorskip("torch"), mg.ones(2)
    for name in dir(torch.Tensor):
        if not name.startswith("_") and not hasattr(mg.Tensor, name):
            with pytest.raises(AttributeError, match="left out"):
                getattr(x, name)
    assert {name for name in " ".join(METHODS).split() if not hasattr(torch.Tensor, name)} == set()


a, b, x, y = (np.random.default_rng(seed).uniform(0.5, 2, (5, 5)) * (-1) ** seed for seed in range(4))
SAME = {  # name: the call in PyTorch that the replacement computes
    "cdist": "torch.cdist(a, b)", "chain_matmul": "torch.chain_matmul(a, b, c)", "copysign": "torch.copysign(x, y)",
    "deg2rad": "torch.deg2rad(x)", "rad2deg": "torch.rad2deg(x)", "diff": "torch.diff(x, dim=0)",
    "float_power": "torch.float_power(x, 2 * (y > 0))", "heaviside": "torch.heaviside(x, y)", "hypot": "torch.hypot(x, y)",
    "inner": "torch.inner(a, b)", "isin": "torch.isin(x, values)", "isposinf": "torch.isposinf(x)",
    "ldexp": "torch.ldexp(x, y)", "logaddexp2": "torch.logaddexp2(x, y)", "logit": "torch.logit(p)",
    "logspace": "torch.logspace(start, end, steps)", "searchsorted": "torch.searchsorted(edges, x)",
    "bucketize": "torch.bucketize(x, edges)", "signbit": "torch.signbit(x)", "sinc": "torch.sinc(x)",
    "vander": "torch.vander(x[0])", "xlogy": "torch.xlogy(x, y.abs())", "adjoint": "torch.adjoint(x)",
}


@pytest.mark.filterwarnings("ignore:torch.chain_matmul")
@pytest.mark.parametrize("name", SAME)
def test_replacements_compute_the_same(name):
    torch = pytest.importorskip("torch")
    arrays = {"a": a, "b": b, "c": a + 1, "x": x, "y": y, "p": a / 3, "edges": np.array([-1.0, 0.6, 0.8, 1.5]), "values": x[0, :2]}
    numbers = {"start": -1.0, "end": 2.0, "steps": 4, "math": math}
    ours = {name: mg.tensor(array) for name, array in arrays.items()}
    if name == "vander":
        ours["x"] = ours["x"][0]
    elif name == "xlogy":
        ours["y"] = ours["y"].abs()
    elif name == "float_power":
        ours["y"] = 2 * (ours["y"] > 0)
    got = eval(REASONS["minigrad", name].removeprefix("use "), {**numbers, **ours, "mg": mg})
    wanted = eval(SAME[name], {**numbers, **{name: torch.tensor(array) for name, array in arrays.items()}, "torch": torch})
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


NOT_PUBLIC = re.compile("^_|_copy$|_backward|^(batch_norm|choose|cudnn|dsmm|embedding_renorm|fake|fbgemm|feature|fused|grid_sampler|"
                        "hash|hsmm|int_repr|log_sigmoid|miopen|mkldnn|native|q_|quantized|rnn_|saddmm|slice_inverse|spmm|sym|unsafe)")
SHARED_WITH_F = "alpha_dropout affine_grid_generator constant_pad_nd".split()  # functions of torch that are those of F


def public(module, library, torch):
    """The names of a module of PyTorch that files may use."""
    if module in ("minigrad", "nn.functional"):
        functions = torch.overrides.get_overridable_functions()
        found = [f.__name__ for space in ([library, torch.functional] if library is torch else [library]) for f in functions[space]]
        if library is torch:  # torch also has some undocumented functions of F
            found = [name for name in found if name not in SHARED_WITH_F and not hasattr(torch.nn.functional, name)]
        return {name for name in found if not NOT_PUBLIC.search(name)}
    return {name for name, value in vars(library).items() if not name.startswith("_") and (
        inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("torch.")} - INTERNAL


INTERNAL = {  # functions and classes that PyTorch's modules import or keep to themselves
    "Tensor", "argument_validation", "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled", "factory_kwargs", "swap_in_optimizer_params_and_state",
    "bind", "copy_method_params", "DeviceType", "NestedIOFunction", "ProfilerActivity", "ProfilerConfig", "ProfilerEvent", "ProfilerState", "SavedTensor",
    "enforce_grad_layout_policy", "handle_torch_function", "variable", "is_tensor_like", "set_multithreading_enabled",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", TABLES)
def test_pytorchs_names_exist_or_are_left_out(module):
    torch = pytest.importorskip("torch")
    theirs = importlib.import_module(THEIRS[module]) if module != "minigrad" else torch
    known = set(" ".join(TABLES[module]).split())
    ours = importlib.import_module(module)
    assert {name for name in public(module, theirs, torch) - known if not hasattr(ours, name)} == set()
    elsewhere = [*pkgutil.iter_modules(theirs.__path__), *pkgutil.iter_modules(torch.utils.__path__)] if hasattr(theirs, "__path__") else []
    assert {name for name in known if not hasattr(theirs, name)} <= {module.name for module in elsewhere}  # modules to be imported


def test_readme_names_what_is_left_out():
    """The names in README's column "not supported" are in the tables."""
    rows = [row.split("|")[-2] for row in README.split("| | supported | not supported |")[1].split("\n\n")[0].splitlines()[2:]]
    names = {name.split(".")[-1] for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert len(names) > 20
    assert names - {name for _, name in REASONS} == OF_A_KIND


OF_A_KIND = {"Tensor", "float16", "bfloat16", "int32", "where", "num_workers", "compile"}  # there, but not as in PyTorch


# ---- keywords, by the schemas of PyTorch's operations ----

BY_PLACE = "an argument that is given by place"
OTHER_KEYWORDS = {  # {function or method: {PyTorch's keyword: why it is not there}}
    **{name: {"size": BY_PLACE} for name in ("broadcast_to", "expand", "new_empty", "new_ones", "new_zeros")},
    **{name: {"other": "the functions maximum and minimum"} for name in ("max", "min")},
    "bernoulli": {"p": "x.bernoulli_(p)"},
    "copy_": {"src": BY_PLACE, "other": BY_PLACE, "non_blocking": "there is one device"},
    "einsum": {"tensors": BY_PLACE, "path": "the library finds an order"},
    "meshgrid": {"tensors": BY_PLACE},
    "repeat": {"repeats": BY_PLACE},
    "reshape": {"shape": BY_PLACE},
    "split": {"split_sizes": "split_size takes a list", "max": "of Python's strings"},
    "swapaxes": {"axis0": BY_PLACE, "axis1": BY_PLACE},
    "tensordot": {"other": BY_PLACE, "dims_self": "dims", "dims_other": "dims"},
    "to": {"other": BY_PLACE},
    "uniform_": {"from": BY_PLACE, "to": BY_PLACE},
    "view": {"size": BY_PLACE, "dtype": "x.to(dtype); memory is not read as another dtype"},
}
OF_MEMORY = {"layout", "pin_memory"}  # of functions that make tensors
NOT_OURS = {  # schemas of TorchScript, for Python's numbers, lists and strings
    "a", "b", "filename", "idx", "implicit", "item", "l", "list", "n", "reverse", "separator", "t"}


def keywords(torch) -> dict[str, set[str]]:
    """{operation of PyTorch: all keywords of its forms}"""
    found: dict[str, set[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and "Dimname" not in str(schema):
            names = {argument.name for argument in schema.arguments if not argument.is_out}
            found.setdefault(schema.name.removeprefix("aten::"), set()).update(names - {"self"} - NOT_OURS)
    return found


def test_pytorchs_keywords_exist_or_are_left_out():
    torch = pytest.importorskip("torch")
    theirs, missing, used = keywords(torch), set(), set()
    for owner in (mg, mg.Tensor):
        for name in theirs.keys() & set(dir(owner)):
            function = getattr(owner, name)
            if not inspect.isfunction(function) or name == "backward" or name.startswith("__") or name.endswith("_") and hasattr(mg.Tensor, name[:-1]):
                continue  # in place, the same arguments
            parameters = inspect.signature(function).parameters.values()
            options = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
            if any(p.kind is p.VAR_KEYWORD for p in parameters):
                options |= {"requires_grad", "device", "generator"}
            used |= {(name, keyword) for keyword in theirs[name] - options if keyword in OTHER_KEYWORDS.get(name, {})}
            missing |= {(name, keyword) for keyword in theirs[name] - options - OF_FUNCTIONS.keys() - OF_MEMORY}
    assert missing - used == set()
    assert {(name, keyword) for name, row in OTHER_KEYWORDS.items() for keyword in row} == used


@pytest.mark.parametrize("source", [
    "mg.sum(input=x, dim=1)", "mg.exp(input=x)", "mg.matmul(input=x, other=x)", "mg.where(x > 1, input=x, other=0.0)",
    "mg.zeros_like(input=x)", "mg.softmax(input=x, dim=-1, dtype=mg.float64)", "mg.flip(x, dims=(0, 1))",
    "mg.permute(input=x, dims=(1, 0))", "mg.tile(x, dims=(2, 1))", "mg.scatter(x, 0, mg.tensor([[1]]), value=3.0)",
    "mg.take_along_dim(input=x, indices=mg.tensor([[1]]), dim=1)", "mg.std_mean(input=x, dim=0)[0]", "mg.var_mean(input=x)[1]",
    "F.gelu(input=x)", "F.cross_entropy(input=x, target=mg.tensor([0] * 5))", "F.mse_loss(input=x, target=2 * x)",
])
def test_keywords_mean_the_same(source):
    torch = pytest.importorskip("torch")
    got = eval(source, {"mg": mg, "F": mg.nn.functional, "x": mg.tensor(x)})
    wanted = eval(source, {"mg": torch, "F": torch.nn.functional, "x": torch.tensor(x)})
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_a_keyword_that_is_left_out_says_so(name):
    reason, harmless = OF_FUNCTIONS[name]
    for value in (1, mg.ones(2), np.ones(2)):
        with pytest.raises(TypeError, match=f"^exp: {name}= is left out; {re.escape(reason)}$"):
            mg.exp(input=mg.ones(2), **{name: value})
    for value in harmless:
        assert mg.exp(input=mg.ones(2), **{name: value}).equal(mg.ones(2).exp())


def test_pytorchs_keywords_of_compile_change_nothing_or_say_so():
    torch = pytest.importorskip("torch")
    theirs = {p.name: p.default for p in inspect.signature(torch.compile).parameters.values()}
    assert OF_COMPILE.keys() == theirs.keys() - {"model"}
    for compiled in (mg.compile, plain.compile):
        for name in OF_COMPILE:
            for value in (theirs[name], *OF_COMPILE[name][1]):
                assert compiled(lambda x: 2 * x, **{name: value})(mg.ones(1)).item() == compiled(**{name: value})(lambda x: 2 * x)(mg.ones(1)).item() == 2
            with pytest.raises(TypeError, match=f"^compile: {name}= is left out; "):
                compiled(lambda x: 2 * x, **{name: "nonsense"})
        with pytest.raises(TypeError, match="^compile: got an unexpected keyword argument 'nonsense'$"):
            compiled(nonsense=1)


INTERNAL_METHODS = {  # of recurrent layers, attention and DataLoader; those that read an argument's dtype; transformers adds smart_apply
    "check_forward_args", "check_hidden_size", "check_input", "get_expected_cell_size", "get_expected_hidden_size", "merge_masks",
    "permute_hidden", "check_worker_number_rationality", "cumsum", "recursive_undo", "profile_hook_step", "OptimizerPostHook", "OptimizerPreHook",
    "smart_apply",
}


@pytest.mark.parametrize("module", ["nn", "nn.optim", "nn.optim.lr_scheduler", "nn.utils.data"])
def test_methods_of_pytorchs_classes_exist_or_are_left_out(module):
    pytest.importorskip("torch")
    ours, theirs, missing = importlib.import_module(module), importlib.import_module(THEIRS[module]), set()
    for name, kind in vars(ours).items():
        pytorchs = getattr(theirs, name, None)
        if inspect.isclass(kind) and inspect.isclass(pytorchs) and not issubclass(kind, mg.Tensor):
            missing |= {method for method in dir(pytorchs) if not method.startswith("_") and callable(getattr(pytorchs, method))
                        and not hasattr(kind, method)}
    assert missing - OF_MODULES.keys() - OF_OPTIMIZERS.keys() - INTERNAL_METHODS == set()


def test_a_left_out_method_of_modules_and_optimizers_says_so():
    for owner, table in ((nn.Linear(1, 1), OF_MODULES), (nn.optim.SGD([mg.ones(1)], lr=1.0), OF_OPTIMIZERS)):
        for name, reason in table.items():
            with pytest.raises(AttributeError, match=rf"^'{type(owner).__name__}' object has no attribute '{name}': left out; {re.escape(reason)}$"):
                getattr(owner, name)
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'") as raised:
            getattr(owner, "nonsense")  # noqa: B009
        assert "left out" not in str(raised.value)


@pytest.mark.parametrize("name, says", [
    ("nn.utils.parametrizations", "left out; compute the weight in forward"), ("nn.parameter", "left out; import the names from"),
    ("minigrad.nn.utils.parametrize", "left out; compute the weight in forward"), ("minigrad.linalg", "left out; use NumPy's"),
    ("minigrad.utils.checkpoint", "left out; use smaller batches"), ("minigrad.autograd.profiler", "left out; use mg.count_flops"),
    ("minigrad.nonsense", "^No module named 'minigrad.nonsense'$"), ("nn.utils.nonsense", "^No module named 'nn.utils.nonsense'$"),
])
def test_importing_a_left_out_module_says_so(name, says):
    for statement in (f"import {name}", f"from {name} import anything"):
        with pytest.raises(ModuleNotFoundError, match=says) as raised:
            exec(statement)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("source", [
    "mg.exp(x)", "mg.max(x, 1)[0]", "mg.max(x, 1)[1]", "mg.sum(x, dim=0)", "mg.add(x, x)", "mg.gt(x, 1.0)", "mg.matmul(x, x)", "mg.topk(x, 2)[0]",
])
def test_functions_of_tensors_take_arrays(source):
    got, wanted = (eval(source, {"mg": mg, "x": values}) for values in (mg.tensor(x).data, mg.tensor(x)))
    assert isinstance(got, mg.Tensor) and got.equal(wanted)


def test_an_array_given_for_a_tensor_is_copied():
    """The caller may write to it before backward."""
    w, values = mg.ones(2, dtype=mg.float64, requires_grad=True), np.array([3.0, 4.0])
    product = mg.mul(values, w).sum()
    values[:] = 0.0
    product.backward()
    assert w.grad.tolist() == [3.0, 4.0]
