"""Check the gradients of a function in somebody's file, on inputs that are described in a line."""
import ast
import contextlib
import functools
import importlib
import importlib.util
import inspect
import io
import json
import operator
import os
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from minigrad.gradcheck import GradcheckReport, gradcheck_module, gradcheck_report
from minigrad.gradcheck.arguments import by_name
from minigrad.gradcheck.blame import spare, told
from minigrad.gradcheck.libraries import MINIGRAD, NUMPY, Library, library_of, others
from minigrad.gradcheck.pair import pair_of
from minigrad.gradcheck.state import all_generators
from minigrad.gradcheck.subject import function_of
from models.commands.shared import UsageError
from models.progress import saying

EXAMPLE = 'minigrad gradcheck my_ops.py:attention --inputs "q,k,v=randn(2,4,8,16) causal=True"'
DRAWN: Mapping[str, Callable[..., Any]] = {  # (generator, *arguments) -> array
    "randn": lambda r, *shape: r.standard_normal(shape),
    "rand": lambda r, *shape: r.random(shape),
    "randint": lambda r, high, *shape: r.integers(high, size=shape),
    "ones": lambda r, *shape: np.ones(shape),
    "zeros": lambda r, *shape: np.zeros(shape),
    "arange": lambda r, *numbers: np.arange(*numbers),
    "mask": lambda r, *shape: r.random(shape) < 0.5,
    "spd": lambda r, *shape: positive_definite(r.standard_normal((*shape, shape[-1]))),
    "tril": lambda r, *shape: np.tril(r.standard_normal((*shape, shape[-1]))),
}
OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg}
MAKERS = ", ".join(f"{name}(...)" for name in DRAWN)
NAME = r"[^\W\d]\w*"
TARGET = r"(.+?\.py|[\w.]+):(.+)"  # a file or a module, and what it has
DTYPES = "float64", "float32", "bfloat16", "float16"
MOST_SAID = 20  # lines that the function prints

NARROW = re.compile(r"float|double|dtype|half", re.IGNORECASE)  # in errors that another dtype may mend

spare(__file__)


class Once(io.StringIO):
    """What the function prints in each of its many calls: each line once."""

    def show(self) -> None:
        lines = list(dict.fromkeys(filter(None, self.getvalue().splitlines())))
        more = [f"(and {len(lines) - MOST_SAID} more lines)"] if len(lines) > MOST_SAID else []
        print(*lines[:MOST_SAID], *more, sep="\n", end="\n" if lines else "", file=sys.stderr)


def run_file(target: str, inputs: Sequence[str], dtype: str | None, device: str | None, seed: int, as_json: bool) -> int:
    """Print the report; the exit code is 0 only if the check has passed and proves something. `as_json`, an error is
    printed as JSON too."""
    said = Once()
    try:
        with contextlib.redirect_stdout(said), saying(f"checking {target}"):
            report = in_some_dtype(target, inputs, dtype, device, seed)
    except UsageError as error:
        if not as_json:
            raise
        print(json.dumps({"verdict": "error", "error": " ".join(str(error).split())}))
        return error.exit_code
    finally:
        said.show()
    print(json.dumps(report.summary(), indent=1) if as_json else report)
    return 0 if report.is_proof else 1


def in_some_dtype(target: str, inputs: Sequence[str], dtype: str | None, device: str | None, seed: int) -> GradcheckReport:
    """In the dtype that is given; else in float64, or in float32 if only that runs."""
    try:
        return checked(target, inputs, dtype or "float64", device, seed)
    except UsageError as error:
        if dtype or not NARROW.search(str(error)):
            raise
        with contextlib.suppress(UsageError):
            report = checked(target, inputs, "float32", device, seed)
            report.warnings.append(f"checked in float32, as float64 gives: {error}")
            return report
        raise


def checked(target: str, inputs: Sequence[str], dtype: str, device: str | None, seed: int) -> GradcheckReport:
    if not inputs:
        raise UsageError(f"--inputs is missing; give the arguments of {target}, as in {EXAMPLE}")
    fn, library = loaded(target, seed)
    if library in (NUMPY, MINIGRAD) and dtype not in ("float64", "float32"):
        raise UsageError(f"--dtype {dtype} is for functions of PyTorch and JAX; {library.name} has float64 and float32")
    if device and library.name != "PyTorch":
        raise UsageError(f"--device is for functions of PyTorch; {target} is one of {library.name}")
    values = parsed(" ".join(inputs), np.random.default_rng(seed))
    with user_errors(f"{target} cannot be checked"), library.wide() if dtype == "float64" else contextlib.nullcontext():
        fn, values = by_name(fn, values)
        for k, value in enumerate(values):
            if isinstance(value, np.ndarray):
                is_float = value.dtype.kind == "f"
                values[k] = library.tensor(value, dtype if is_float else None, is_float)
        if library is MINIGRAD and library.owns(fn):
            return gradcheck_module(fn.to(dtype), values, seed=seed, raise_exception=False, progress=False)
        with user_errors(f"--device {device} cannot be used") if device else contextlib.nullcontext():
            fn, *values = [library.placed(value, dtype, device) for value in (fn, *values)]
        return gradcheck_report(fn, values, seed=seed)


@contextlib.contextmanager
def user_errors(what: str):
    """Report what the user's code raises inside as a UsageError."""
    try:
        yield
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  SystemExit, too
        raise UsageError(f"{what}: {told(error).removeprefix('gradcheck: ')}") from None


def loaded(target: str, seed: int) -> tuple[Any, Library]:
    """The function that FILE.py:NAME, FILE.py:CLASS(numbers), or FILE.py:FORWARD,BACKWARD in NumPy means; and the library
    that its inputs are of."""
    if not (match := re.fullmatch(TARGET, target)):
        raise UsageError(f"{target!r} is not FILE.py:NAME, as in {EXAMPLE}")
    file, name = match.groups()
    module = imported(file)
    names = [getattr(x, "__name__" if inspect.ismodule(x) else "__module__", "") for x in vars(module).values()]
    used = {str(name).partition(".")[0] for name in names}
    its_library = next((known for known in others() if known.package in used), None)
    for generator in all_generators():  # of parameters
        generator.start(seed)
    if re.fullmatch(r"[\w.]+(\s*,\s*[\w.]+)+", name):
        pair = [member(module, part.strip(), file) for part in name.split(",")]
        if len(pair) != 2:
            raise UsageError(f"{target} names {len(pair)} functions; give one, or FORWARD,BACKWARD")
        return pair, its_library or NUMPY
    fn = made(module, name, file) if "(" in name else member(module, name, file)
    with user_errors(f"{target} cannot be checked"):
        library = library_of(fn, ())
        if library is NUMPY and pair_of(fn):  # a layer
            return fn, NUMPY
        library = its_library or MINIGRAD if library is NUMPY else library  # which all plain functions are of
        return function_of(fn, library), library


def imported(file: str) -> ModuleType:
    path = pathlib.Path(file)
    if path.suffix != ".py":
        with user_errors(f"{file} cannot be imported"):
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(file)
    if not path.is_file():
        raise UsageError(f"there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[spec.name] = module
    with user_errors(f"{file} cannot be imported"):
        spec.loader.exec_module(module)
    return module


def member(module: ModuleType, name: str, file: str) -> Any:
    first, *rest = name.split(".")
    if not hasattr(module, first):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise UsageError(f"{file} has no {first!r}; it defines {', '.join(own) or 'nothing'}")
    with user_errors(f"{file}:{name} cannot be found"):
        return functools.reduce(getattr, rest, getattr(module, first))


def made(module: ModuleType, name: str, file: str) -> Any:
    """What a call such as Layer(8, bias=False) returns."""
    try:
        call = ast.parse(name, mode="eval").body
        maker = member(module, call.func.id, file)
    except (SyntaxError, ValueError, AttributeError):
        raise UsageError(f"{name!r} is not a call of a name in {file}; write it like Layer(8, bias=False)") from None
    with user_errors(f"{file}:{name} cannot be made"):
        return called(maker, call)


def called(function: Callable, call: ast.Call, *first: Any) -> Any:
    """function(*first, ...), with the arguments of a call in text, which are numbers and the like."""
    try:
        arguments = list(map(ast.literal_eval, call.args))
        keywords = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    except ValueError:
        raise UsageError(f"{ast.unparse(call)}: its arguments must be numbers, strings, True, False or None") from None
    return function(*first, *arguments, **keywords)


def parsed(text: str, generator: np.random.Generator) -> dict[str, Any]:
    """The arguments by name: "q,k=randn(2,3) causal=True" gives q and k, drawn one after the other, and causal. A comma may
    stand between two values, too."""
    unnamed, *parts = re.split(rf"(?:^|[\s,]+)({NAME}(?:,\s*{NAME})*)\s*=", text)
    if unnamed or not parts:
        raise UsageError(f"--inputs has {unnamed!r} without a name; write NAME=VALUE, as in {EXAMPLE}")
    found: dict[str, Any] = {}
    for names, value in zip(parts[::2], parts[1::2]):
        for name in re.findall(NAME, names):
            if name in found:
                raise UsageError(f"--inputs has {name!r} twice")
            found[name] = drawn(value, generator)
    return found


def drawn(text: str, generator: np.random.Generator) -> Any:
    """The value that an expression stands for."""
    try:
        return valued(ast.parse(text.strip().rstrip(","), mode="eval").body, generator)
    except Exception:  # noqa: BLE001  whatever the text does not mean, it raises something else
        raise UsageError(f"{text!r} is not a value; write {MAKERS}, numbers, + - * /, a string, True, False or None"
                         ) from None


def valued(node: ast.expr, generator: np.random.Generator) -> Any:
    """Draws, and what is computed of them."""
    if isinstance(node, ast.Call):
        return called(DRAWN[node.func.id], node, generator)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](valued(node.left, generator), valued(node.right, generator))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -valued(node.operand, generator)
    return ast.literal_eval(node)


def positive_definite(a: np.ndarray) -> np.ndarray:
    return a @ a.swapaxes(-1, -2) / a.shape[-1] + 0.5 * np.eye(a.shape[-1])
