"""Check the gradients of a function in somebody's file, on inputs that are described in a line."""
import ast
import contextlib
import importlib.util
import inspect
import json
import pathlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.gradcheck import gradcheck_report, libraries
from minigrad.gradcheck.blame import told
from models.commands.shared import UsageError

EXAMPLE = 'minigrad gradcheck my_ops.py:attention --inputs "q,k,v=randn(2,4,8,16) causal=True"'
DRAWN: Mapping[str, Callable[..., Any]] = {  # (generator, *arguments) -> array
    "randn": lambda r, *shape: r.standard_normal(shape),
    "rand": lambda r, *shape: r.random(shape),
    "randint": lambda r, high, *shape: r.integers(high, size=shape),
    "ones": lambda r, *shape: np.ones(shape),
    "zeros": lambda r, *shape: np.zeros(shape),
    "arange": lambda r, *numbers: np.arange(*numbers),
    "mask": lambda r, *shape: r.random(shape) < 0.5,
}
MAKERS = ", ".join(f"{name}(...)" for name in DRAWN)
LIBRARIES = {"PyTorch": "torch", "JAX": "jax"}
DTYPES = "float64", "float32", "bfloat16", "float16"


def run_file(target: str, inputs: str, dtype: str, seed: int, as_json: bool) -> int:
    """Print the report; the exit code is 0 only if the check has passed."""
    fn, library = loaded(target)
    arguments = in_order(fn, parsed(inputs, np.random.default_rng(seed)), target)
    tensors = [made(value, library, dtype) for value in arguments]
    try:
        report = gradcheck_report(fn, tensors, seed=seed)
    except (Exception, SystemExit) as error:  # noqa: BLE001  of the user's code
        raise UsageError(f"{target} cannot be checked: {told(error)}") from None
    print(json.dumps(report.summary(), indent=1) if as_json else report)
    return 0 if report else 1


def loaded(target: str) -> tuple[Any, str]:
    """The function that FILE:NAME means, or FILE:FORWARD,BACKWARD in NumPy, or FILE:CLASS(numbers) for a module; and the
    library that its inputs are of."""
    file, _, name = target.rpartition(":")
    path = pathlib.Path(file)
    if not file or not path.is_file():
        raise UsageError(f"there is no file {file or name!r}; say FILE:NAME, as in {EXAMPLE}")
    spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
    if spec is None:
        raise UsageError(f"{file} is not a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  of the user's code
        raise UsageError(f"{file} cannot be imported: {told(error)}") from None
    if "," in name and "(" not in name:
        return tuple(member(module, part, file) for part in name.split(",")), "numpy"
    if "(" in name:
        call, maker = expression(name), member(module, name.partition("(")[0], file)
        try:
            keywords = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            fn = maker(*map(ast.literal_eval, call.args), **keywords)
        except Exception as error:  # noqa: BLE001  of the user's code, or an argument that is no number
            raise UsageError(f"{target} cannot be made: {told(error)}") from None
    else:
        fn = member(module, name, file)
    owner = next((LIBRARIES[known.name] for known in libraries.others() if known.owns(fn)), None)
    imported = {value.__name__.partition(".")[0] for value in vars(module).values() if inspect.ismodule(value)}
    return fn, owner or next((name for name in LIBRARIES.values() if name in imported), "minigrad")


def member(module: Any, name: str, file: str) -> Any:
    if not hasattr(module, name):
        raise UsageError(f"{file} has no {name!r}; it has {', '.join(n for n in vars(module) if not n.startswith('_'))}")
    return getattr(module, name)


def expression(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        raise UsageError(f"{text!r} is no value; say {MAKERS}, a number, True, False or None") from None


def parsed(text: str, generator: np.random.Generator) -> dict[str, Any]:
    """The arguments by name: "q,k=randn(2,3) causal=True" gives q and k, drawn one after the other, and causal."""
    found = {}
    for part in re.split(r"\s+(?=[\w,]+=)", text.strip()):
        names, sign, value = part.partition("=")
        if not sign:
            raise UsageError(f"--inputs has {part!r} without a name; say NAME=VALUE, as in {EXAMPLE}")
        for name in names.split(","):
            found[name] = drawn(value, generator)
    return found


def drawn(text: str, generator: np.random.Generator) -> Any:
    """The value that an expression stands for."""
    value = expression(text)
    try:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in DRAWN:
            return DRAWN[value.func.id](generator, *map(ast.literal_eval, value.args))
        return ast.literal_eval(value)
    except (TypeError, ValueError):
        raise UsageError(f"{text!r} is no value; say {MAKERS}, a number, True, False or None") from None


def in_order(fn: Any, values: dict[str, Any], target: str) -> list[Any]:
    """The values in the order of the function's arguments, with defaults in between."""
    fn = fn[0] if isinstance(fn, tuple) else fn
    is_function = isinstance(fn, type) and hasattr(fn, "forward")
    with contextlib.suppress(TypeError, ValueError):
        parameters = list(inspect.signature(getattr(fn, "forward", fn)).parameters.values())
        parameters = parameters[1:] if is_function and parameters and parameters[0].name == "ctx" else parameters
        named = {p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)}
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return list(values.values())
        if unknown := next((name for name in values if name not in named), None):
            raise UsageError(f"{target} has no argument {unknown!r}; it has {', '.join(named)}")
        last = max(list(named).index(name) for name in values)
        chosen = {name: values.get(name, default) for name, default in list(named.items())[: last + 1]}
        if missing := next((name for name, value in chosen.items() if value is inspect.Parameter.empty), None):
            raise UsageError(f"--inputs lacks {missing!r}, an argument of {target}")
        return list(chosen.values())
    return list(values.values())


def made(value: Any, library: str, dtype: str) -> Any:
    """An array as a tensor of the library, which requires a gradient if its numbers are real."""
    if not isinstance(value, np.ndarray):
        return value
    is_real = value.dtype.kind == "f"
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.from_numpy(value).to(getattr(torch, dtype)).requires_grad_() if is_real else torch.from_numpy(value)
    if library == "jax":
        jax = sys.modules["jax"]
        jax.config.update("jax_enable_x64", True)
        return jax.numpy.asarray(value, dtype if is_real else None)
    if dtype not in ("float64", "float32"):
        raise UsageError(f"--dtype {dtype} is for functions of PyTorch and JAX; {library} has float64 and float32")
    array = value.astype(dtype) if is_real else value
    return array if library == "numpy" or not is_real else mg.tensor(array, requires_grad=True)
