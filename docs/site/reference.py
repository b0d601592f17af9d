"""The pages of the reference, from docstrings: what users can import of each module, and the formulas of its ops."""
import importlib
import inspect
import pathlib
import re
import types
from collections.abc import Iterator

import minigrad
from minigrad import Tensor
from minigrad.tape import Op

ROOT = pathlib.Path(__file__).parents[2]
NAMESPACES = (  # what users import from; a name in several is shown by the first
    "minigrad", "nn", "nn.functional", "nn.init", "nn.optim", "nn.utils", "nn.utils.data", "models", "models.tasks",
    "models.tokenizers", "minigrad.gradcheck", "minigrad.tracing", "study.exercises", "study.mistakes", "study.notes",
)
METHODS = types.FunctionType, property, classmethod, staticmethod


def public() -> dict[int, str]:
    """{id: name} of the functions and classes that users can import, such as "nn.Linear"."""
    found = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in getattr(module, "__all__", None) or (name for name in dir(module) if name[0] != "_"):
            value = plain(getattr(module, name))
            if isinstance(value, (type, types.FunctionType)) and value.__module__.startswith(namespace.partition(".")[0]):
                found.setdefault(id(value), f"{namespace}.{name}")
    return found


def plain(value: object) -> object:
    """A function that is a method: as its class has it."""
    is_wrapped = inspect.isfunction(value) and value.__code__ is minigrad.exp.__code__
    return value.__wrapped__ if is_wrapped else value


PUBLIC = public()


def pages(titles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(path, Markdown) of each page, and of a table of all; the paths are reference/MODULE.md, {path: title} are given."""
    rows = []
    for path, title in titles.items():
        folder, _, name = path.removesuffix(".md").partition("/")
        if folder == "reference" and title:
            module = importlib.import_module(name)
            yield path, "\n\n".join(part for part in page(module, title) if part) + "\n"
            summary = " ".join(inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0].split())
            rows.append(f"| [{title}]({name}.md) | {escaped(summary)} |\n")
    yield "reference/index.md", f"# Reference\n\n| | |\n|---|---|\n{''.join(rows)}"


def page(module: types.ModuleType, title: str) -> Iterator[str]:
    name, values = module.__name__, [plain(value) for value in vars(module).values()]
    own = [value for value in values if isinstance(value, type) and value.__module__ == name]
    yield from (f"# {title}", f"`{name}` {source(module)}", prose(module))
    for family in own:
        if family in Tensor.__mro__[1:]:
            yield from methods(family, "Tensor", "##")
    for value in values:
        if id(value) in PUBLIC and name in (value.__module__[: len(name)], PUBLIC[id(value)].rpartition(".")[0]):
            yield from entry(f"## {value.__name__}", PUBLIC[id(value)], value)
            if value is Tensor:
                yield inherited()
            if isinstance(value, type):
                yield from methods(value, value.__name__, "###")
    if ops := [value for value in own if issubclass(value, Op)]:
        yield "## Ops"
        for op in ops:
            formula, _, derivation = inspect.cleandoc(op.__doc__ or "").partition("\n\n")
            yield from (f"**{op.__name__}** {source(op)}", f"```text\n{formula}\n```", markdown(derivation))


def inherited() -> str:
    """A table of the methods that a Tensor has from the families of ops, with links to their pages."""
    rows = ["| methods | |", "|---|---|"]
    for family in Tensor.__mro__[1:]:
        module = family.__module__
        if links := [f"[{name}]({module}.md#Tensor.{name})" for name, *_ in own_names(family).values()]:
            rows.append(f"| [{module.rpartition('.')[2].replace('_', ' ')}]({module}.md) | {', '.join(links)} |")
    return "\n".join(rows)


def methods(owner: type, shown: str, level: str) -> Iterator[str]:
    """The entries of a class's own methods and properties; other names of one are in its entry."""
    for value, (name, *others) in own_names(owner).items():
        also = [f"{shown}.{other}" for other in others] + ([PUBLIC[id(value)]] if id(value) in PUBLIC else [])
        yield from entry(f"{level} {shown}.{name}", f"{shown}.{name}", value, *also)


def own_names(owner: type) -> dict[object, list[str]]:
    """{method or property: its names} of those that a class adds or describes."""
    names: dict[object, list[str]] = {}
    for name, value in vars(owner).items():
        is_own = name[0] != "_" and isinstance(value, METHODS) and called(value).__module__ == owner.__module__
        if is_own and (called(value).__doc__ or not any(hasattr(base, name) for base in owner.__bases__)):
            names.setdefault(value, []).append(name)
    return names


def entry(heading: str, name: str, value: object, *others: str) -> Iterator[str]:
    """The signature and docstring of a function, class, method or property, and a link to its code."""
    yield f"{heading} {{ #{name} }}"
    yield f"```{{ .python .signature }}\n{name}{signature(value)}\n```"
    yield prose(called(value))
    yield f"{'Also ' if others else ''}{', '.join(f'`{other}`' for other in others)} {source(called(value))}"


def called(value: object) -> object:
    """The function of a property, a class method or a static method; otherwise the value."""
    return getattr(value, "fget", None) or getattr(value, "__func__", value)


def signature(value: object) -> str:
    """As text, without self, the modules of types, and addresses; of a property, its type."""
    if isinstance(value, type) and issubclass(value, Exception):
        return ""
    found = inspect.signature(called(value))
    parameters = [parameter for name, parameter in found.parameters.items() if name not in ("self", "cls")]
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"<(?:function|class|built-in function) '?([\w.]+)[^>]*>", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", re.sub(r"(: |-> )'([^']*)'", r"\1\2", text))
    return text.removeprefix("()") if isinstance(value, property) else text.removesuffix(" -> None")


def source(value: object) -> str:
    """A link to the code; "" for what is made by other code."""
    try:
        value = inspect.unwrap(value)
        path = pathlib.Path(inspect.getsourcefile(value)).relative_to(ROOT).as_posix()
        line = 1 if isinstance(value, types.ModuleType) else inspect.getsourcelines(value)[1]
    except (TypeError, OSError):
        return ""
    return f"[source](../{path}#L{line}){{ .source }}"


def prose(value: object) -> str:
    return markdown(inspect.cleandoc(value.__doc__ or ""))


def markdown(text: str) -> str:
    """A docstring as Markdown: examples and indented lines become blocks of code; the rest is shown as it is written."""
    parts, block, last = [], "", ""
    for line in text.splitlines():
        is_example = line.startswith(">>>") or bool(line) and block == "pycon"
        is_code = line.startswith("    ") or not line and block == "text"
        kind = "pycon" if is_example else "text" if is_code else ""
        if kind != block:
            parts += ["```"] * bool(block) + [""] + [f"```{kind}"] * bool(kind)
        elif last and re.match(r"\w+: ", line):  # of a list of arguments
            parts.append("<br>")
        parts.append(line if is_example else line.removeprefix("    ") if is_code else escaped(line))
        block, last = kind, line
    return "\n".join(parts + ["```"] * bool(block))


def escaped(line: str) -> str:
    """With no markup but code and links to documents."""
    line = re.sub(r"(`[^`]*`|\b[\w/]+\.md\b)|([\\*_<\[#|])", lambda found: found[1] or f"&#{ord(found[2])};", line)
    return re.sub(r"\b(?:docs|study)/[\w/]+\.md", r"[\g<0>](../\g<0>)", line)
