"""PyTorch's own sample inputs, which it tests its operations with: each operation that this library has gives the same values,
dtypes, shapes and gradients for all of them, or is in the table of differences, with the reason."""
import contextlib
import random
import re
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from oracle import F, TOLERANCE, mg, torch

expecttest = pytest.importorskip("expecttest")  # which PyTorch's samples ask for
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import SampleInput, op_db

DTYPES = torch.float32, torch.float64, torch.int64, torch.bool
CALLS = {  # where PyTorch's table gives the arguments in another order, or the name is taken
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "einsum": lambda operands, equation: mg.einsum(equation, operands),
    "nn.functional.embedding": lambda weight, ids, **options: F.embedding(ids, weight, **options),
    "normal.in_place": mg.Tensor.normal_,
    "trace": mg.Tensor.trace,
    "where": lambda x, condition, other: mg.where(condition, x, other),
    "zero_": lambda x: x.clone().zero_(),
}
RANDOM = {"bernoulli", "multinomial", "normal", "normal.in_place", "normal.number_mean", "rand_like", "randint",
          "randn", "randn_like", "nn.functional.dropout", "empty", "empty_like", "new_empty"}  # shapes and dtypes alone
TIES = "left to the library: in which order equal elements come"
NO_MODE = "left out: x.flip and mg.cat"
CONSTANT = "what is drawn is constant here, and has a gradient of zeros in PyTorch"
EVERYWHERE = {  # {error or difference: why}, for all operations
    "argument 'memory_format'": "memory is laid out by the library",
    "argument 'layout'": "tensors are dense",
    "tensors hold float32, float64, int64 or bool, not": "dtypes that are left out",
}
DIFFERENT = {  # {operation: {error or difference: why}}
    "__rpow__": {"Integers to negative integer powers": "refused, as by NumPy; in PyTorch they are 0"},
    "argsort": {"result 0: int64 values": TIES},
    "bernoulli": {"requires_grad": CONSTANT},
    "cat": {"dim 1 is out of range for a tensor of shape \\(0,\\)": "refused: PyTorch leaves out (0,), whatever the others are"},
    "div.trunc_rounding": {"rounding_mode is None or 'floor'": "left out: x.trunc()"},
    "gather": {"expected an index with 1 axes": "refused: an empty index of other axes, which PyTorch takes"},
    "nn.functional.embedding": {"argument '(max_norm|scale_grad_by_freq|sparse)'": "rows are looked up, and no more"},
    "nn.functional.normalize": {"gradient: float32 values": "that of a single number is 0; PyTorch's has errors of 2e-4"},
    "nn.functional.linear": {"expected two float32 or two float64": "refused: products of matrices of integers"},
    "nn.functional.pad.circular": {"only mode 'constant'": NO_MODE},
    "nn.functional.pad.reflect": {"only mode 'constant'": NO_MODE},
    "nn.functional.pad.replicate": {"only mode 'constant'": NO_MODE},
    "nn.functional.pad.replicate_negative": {"only mode 'constant'": NO_MODE},
    "nn.functional.pad.constant": {"2.0 does not fit into a tensor of bool": "refused: it is True in PyTorch"},
    "norm.nuc": {"got 'nuc'": "left out: singular values are NumPy's"},
    "normal": {"requires_grad": CONSTANT},
    "normal.number_mean": {"requires_grad": CONSTANT},
    "repeat_interleave": {"argument 'output_size'": "it would save PyTorch a synchronisation"},
    "scatter": {"reduce='\\w+' is left out": "scatter_add", "2.5 does not fit into": "refused: PyTorch cuts it off"},
    "sort": {"result 1: int64 values": TIES},
    "topk": {"result 1: int64 values": TIES},
}
TAKEN = {  # {operation: what it accepts that PyTorch refuses}
    **dict.fromkeys("__radd__ __rand__ __rmul__ __ror__ __rxor__ eq ge gt le "
                    "lt maximum minimum ne".split(), "a number for a tensor, first or second"),
    "isclose": "a number for a tensor, and a tolerance below 0, within which nothing is",
    "masked_fill": "a value of shape (1,), which broadcasts",
    "mean": "integers, whose mean is a float32",
    "scatter_add": "float32 to be added to float64",
}

LAID_OUT_OTHERWISE = {"nonzero": "columns of one array", "nn.functional.logsigmoid": "as its input does"}


def name_of(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def ours(op):
    """This library's form of the operation, or None."""
    name = op.name
    if name_of(op) in CALLS or name in CALLS:
        return CALLS.get(name_of(op)) or CALLS[name]
    if name.startswith("nn.functional."):
        return vars(F).get(name.removeprefix("nn.functional."))
    found = vars(mg).get(name)
    is_function = callable(found) and not isinstance(found, type)
    return found if is_function else getattr(mg.Tensor, name, None) if "." not in name else None


def forms(op) -> Iterator[tuple]:
    """The function in PyTorch and here, and then its in-place form, on a copy."""
    yield op.op, ours(op)
    method = getattr(mg.Tensor, getattr(op.inplace_variant, "__name__", ""), None)
    if method:
        yield tuple(lambda x, *args, form=form, **options: form(x.clone(), *args, **options)
                    for form in (op.inplace_variant, method))


OPS = {name_of(op): op for op in op_db if ours(op) and op.variant_test_name != "triton_optimized"}


def converted(x):
    """A PyTorch argument as one for this library."""
    if isinstance(x, torch.Tensor):
        return mg.from_numpy(x.detach().numpy().copy(order="K")).requires_grad_(x.requires_grad)
    if isinstance(x, torch.dtype):
        return getattr(mg, str(x).removeprefix("torch."), x)
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, (tuple, list)):
        return (list if isinstance(x, list) else tuple)(map(converted, x))
    return {name: converted(value) for name, value in x.items()} if isinstance(x, dict) else x


def parts(x, kind) -> list:
    """All of a kind in nested tuples, lists and dicts, in order."""
    if isinstance(x, (tuple, list, dict)):
        return [part for value in (x.values() if isinstance(x, dict) else x) for part in parts(value, kind)]
    return [x] if isinstance(x, kind) else []


def difference(a, b, values=True) -> str:
    """How a result differs from PyTorch's; empty if it does not."""
    if not isinstance(b, torch.Tensor):
        return "" if a == b or a != a and b != b else f"{a} for {b}"
    a, b = a.detach().numpy(), b.detach().numpy()
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype} {a.shape} for {b.dtype} {b.shape}"
    if b.dtype.kind == "f":
        tolerance = TOLERANCE[str(b.dtype)]
        scale = max(1.0, np.abs(b).max(initial=0, where=np.isfinite(b)))
        same = np.allclose(a, b, tolerance, tolerance * scale, equal_nan=True)
    else:
        same = np.array_equal(a, b)
    return "" if same or not values else f"{b.dtype} values"


def outcome(function, own, sample, is_random: bool) -> str:
    """What differs for a sample, or why it is refused; empty if nothing differs, or PyTorch refuses it too."""
    theirs = sample.input, *sample.args, sample.kwargs
    mine = converted(theirs)
    try:
        wanted = function(*theirs[:-1], **theirs[-1])
    except RuntimeError:  # in place, a result of another dtype or shape
        return ""
    try:
        got = own(*mine[:-1], **mine[-1])
    except Exception as error:  # noqa: BLE001  the table says what it may be
        return f"{type(error).__name__}: {error}"
    got, wanted = parts(got, object), parts(wanted, object)
    if len(got) != len(wanted):
        return f"{len(got)} results for {len(wanted)}"
    for i, (a, b) in enumerate(zip(got, wanted)):
        if found := difference(a, b, not is_random):
            return f"result {i}: {found}"
    outputs = [(a, b) for a, b in zip(got, wanted) if isinstance(b, torch.Tensor)]
    if any(a.requires_grad != b.requires_grad for a, b in outputs):
        return "requires_grad"
    leaves = [(a, b) for a, b in zip(parts(mine, mg.Tensor), parts(theirs, torch.Tensor)) if b.requires_grad]
    outputs = [(a, b) for a, b in outputs if b.requires_grad]
    if not outputs or not leaves or is_random:
        return ""
    upstream = [np.random.default_rng(0).standard_normal(b.shape).astype(a.dtype) for a, b in outputs]
    options = dict(allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad([b for _, b in outputs], [b for _, b in leaves], list(map(torch.tensor, upstream)), **options)
    gradients = mg.grad([a for a, _ in outputs], [a for a, _ in leaves], list(map(mg.tensor, upstream)), **options)
    return next((f"gradient: {found}" for a, b in zip(gradients, expected) if (found := difference(a, b))), "")


def samples(op) -> Iterator[tuple[str, object]]:
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    for dtype in DTYPES:
        if op.supports_dtype(dtype, "cpu"):
            for requires_grad in (False, True) if dtype.is_floating_point and op.supports_autograd else (False,):
                for sample in op.sample_inputs_func(op, "cpu", dtype, requires_grad):  # sample_inputs() looks at the stack
                    yield f"{dtype}, requires_grad={requires_grad}", sample


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_samples_of_pytorch(name):
    op, explained = OPS[name], {**EVERYWHERE, **DIFFERENT.get(name, {})}
    used, unexplained = set(), []
    for kind, sample in samples(op):
        is_random = name in RANDOM or bool(sample.kwargs.get("dropout_p"))
        for found in filter(None, (outcome(*functions, sample, is_random) for functions in forms(op))):
            reasons = [pattern for pattern in explained if re.search(pattern, found)]
            used.update(reasons)
            if not reasons:
                unexplained.append(f"{found} ({kind}, {sample.summary()})")
    if unexplained:
        pytest.fail(f"{len(unexplained)} samples, as {unexplained[0]}")
    assert DIFFERENT.get(name, {}).keys() <= used, "DIFFERENT has rows that are no longer needed"


def column_by_column(x):
    return x.mT.contiguous().mT if isinstance(x, torch.Tensor) and x.ndim > 1 else x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(OPS.keys() - RANDOM - LAID_OUT_OTHERWISE.keys()))
def test_results_that_are_contiguous_in_pytorch_are_contiguous_here(name):
    """So that they have views, which can be written through."""
    op, apart, dtype = OPS[name], [], torch.float32
    for layout in (lambda x: x, column_by_column):
        own = SampleInput(torch.rand(2, 3, 4))  # of functions of one element, PyTorch's are vectors
        for sample in (own, *(op.sample_inputs_func(op, "cpu", dtype, False) if op.supports_dtype(dtype, "cpu") else ())):
            sample = sample.transform(layout)
            theirs = sample.input, *sample.args, sample.kwargs
            mine = converted(theirs)
            with contextlib.suppress(Exception):  # what is refused, the test above knows
                got = parts(ours(op)(*mine[:-1], **mine[-1]), mg.Tensor)
                wanted = parts(op.op(*theirs[:-1], **theirs[-1]), torch.Tensor)
                apart += [sample.summary() for a, b in zip(got, wanted, strict=True) if b.is_contiguous() > a.is_contiguous()]
    assert not apart


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.error_inputs_func])
def test_what_pytorch_refuses_is_refused(name):
    op, taken = OPS[name], []
    for error_input in op.error_inputs_func(op, "cpu"):
        sample = error_input.sample_input
        arguments = sample.input, *sample.args
        with contextlib.suppress(Exception):
            op.op(*arguments, **sample.kwargs)
            continue  # refused in other forms only
        with contextlib.suppress(Exception):
            ours(op)(*converted(arguments), **converted(sample.kwargs))
            taken.append(f"{error_input.error_regex} ({sample.summary()})")
    if taken and name not in TAKEN:
        pytest.fail(f"{len(taken)} are taken, as {taken[0]}")
    assert taken or name not in TAKEN, "TAKEN has a row that is no longer needed"


def test_all_rows_are_about_tested_operations():
    rows = DIFFERENT.keys() | CALLS.keys() | RANDOM | TAKEN.keys() | LAID_OUT_OTHERWISE.keys()
    assert rows <= OPS.keys() and len(OPS) > 200
