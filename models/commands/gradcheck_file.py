"""Check the gradients of a function in somebody's file, on inputs that are described in a line."""
import ast
import contextlib
import importlib.util
import inspect
import json
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
from minigrad.gradcheck.state import all_generators
from minigrad.gradcheck.subject import function_of
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
NAME = r"[^\W\d]\w*"
DTYPES = "float64", "float32", "bfloat16", "float16"

spare(__file__)


def run_file(target: str, inputs: Sequence[str], dtype: str, device: str | None, seed: int, as_json: bool) -> int:
    """Print the report; the exit code is 0 only if the check has passed and proves something. `as_json`, an error is
    printed as JSON too."""
    try:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():  # the user's code may print
            report = checked(target, inputs, dtype, device, seed)
    except UsageError as error:
        if not as_json:
            raise
        print(json.dumps({"verdict": "error", "error": " ".join(str(error).split())}))
        return error.exit_code
    print(json.dumps(report.summary(), indent=1) if as_json else report)
    return 0 if report.is_proof else 1


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
        values = [library.drawn(value, dtype) if isinstance(value, np.ndarray) else value for value in values]
        if library is MINIGRAD and library.owns(fn):
            return gradcheck_module(fn.to(dtype), values, seed=seed, raise_exception=False, progress=False)
        fn = library.converted(fn, dtype)
        if device:
            with user_errors(f"--device {device} cannot be used"):
                fn, *values = [library.placed(value, device) for value in (fn, *values)]
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
    if not (match := re.fullmatch(r"(.+?\.py):(.+)", target)):
        raise UsageError(f"{target!r} is not FILE.py:NAME, as in {EXAMPLE}")
    file, name = match.groups()
    module = imported(file)
    for generator in all_generators():  # of parameters
        generator.start(seed)
    if re.fullmatch(r"\w+(,\w+)+", name):
        pair = [member(module, part, file) for part in name.split(",")]
        if len(pair) != 2:
            raise UsageError(f"{target} names {len(pair)} functions; give one, or FORWARD,BACKWARD in NumPy")
        return pair, NUMPY
    fn = made(module, name, file) if "(" in name else member(module, name, file)
    with user_errors(f"{target} cannot be checked"):
        library = library_of(fn, ())
        if library is NUMPY:  # which all plain functions are of
            names = [getattr(x, "__name__" if inspect.ismodule(x) else "__module__", "") for x in vars(module).values()]
            used = {str(name).partition(".")[0] for name in names}
            library = next((known for known in others() if known.package in used), MINIGRAD)
        return function_of(fn, library), library


def imported(file: str) -> ModuleType:
    path = pathlib.Path(file)
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
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise UsageError(f"{file} has no {name!r}; it defines {', '.join(own) or 'nothing'}")
    return getattr(module, name)


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
        value = ast.parse(text.strip(), mode="eval").body
        return called(DRAWN[value.func.id], value, generator) if isinstance(value, ast.Call) else ast.literal_eval(value)
    except Exception:  # noqa: BLE001  whatever the text does not mean, it raises something else
        raise UsageError(f"{text!r} is not a value; write {MAKERS}, a number, True, False or None") from None
