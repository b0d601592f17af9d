"""What a student hands in: a .py or .ipynb file, read without being run, and what it defines.

Anything wrong with it is a `SubmissionError`: a sentence for the student, and the line.
"""
import ast
import difflib
import io
import json
import os
import pathlib
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LARGEST = {".py": 2**20, ".ipynb": 32 * 2**20}  # bytes; notebooks carry pictures
LARGEST_CODE = 2**20
MOST_MAGICS = 100  # of one cell
CELLS_OF_OTHER_LANGUAGES = (
    "bash", "sh", "script", "html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG", "writefile", "file",
    "perl", "ruby", "cmd", "sql", "R", "cython",
)


class SubmissionError(ValueError):
    """What is wrong with a file, for its student; `place` ("line 3", "code cell 2, line 1") and `code` if known."""

    def __init__(self, message: str, line: int | None = None, place: str = "", code: str = ""):
        super().__init__(message)
        self.line, self.place, self.code = line, place, code


@dataclass(frozen=True)
class Source:
    """A file's code, and where its lines are.

    functions: what it defines at the top level; None for a name that is assigned or imported, whose arguments are unknown.
    inner: functions that cannot be reached from outside, and what contains them: "class A".
    broken: the cells of a notebook that are not Python, and are left out.
    """

    filename: str
    text: str
    cells: tuple[int, ...] = ()  # of a notebook: the line of `text` with which each code cell begins, counted from 1
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef | None] = field(default_factory=dict)
    inner: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[SubmissionError, ...] = ()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")  # as Python counts them; `splitlines` splits at more characters

    def place(self, line: int) -> str:
        """The place of a line of `text`, in words.

        >>> Source("a.ipynb", "x = 1\\ny = 2\\nz = 3", cells=(1, 2)).place(3)
        'code cell 2, line 2'
        """
        cell = sum(first <= line for first in self.cells)
        return f"code cell {cell}, line {line - self.cells[cell - 1] + 1}" if cell else f"line {line}"

    def code(self, line: int) -> str:
        return safe(self.lines[line - 1].strip())[:200]


def safe(text: str) -> str:
    """Without control characters, which would move a terminal's cursor."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def read(path: str | os.PathLike[str]) -> Source:
    """Read a submission; SubmissionError if it is not one."""
    path = pathlib.Path(path)
    name, content = safe(path.name), content_of(path)
    if path.suffix.lower() == ".ipynb":
        source = source_of_notebook(name, content)
    else:
        source = source_of_text(name, text_of(name, content))
    if not source.text.strip():
        raise SubmissionError(f"{name} is empty")
    return source


def content_of(path: pathlib.Path) -> bytes:
    """The bytes of a regular file that is not too large."""
    name, suffix = safe(path.name or str(path)), path.suffix.lower()
    try:
        if not path.exists():
            raise SubmissionError(f"{name} does not exist")
        if not path.is_file():  # reading a pipe would wait
            what = "a folder, not a .py or .ipynb file" if path.is_dir() else "not a regular file"
            raise SubmissionError(f"{name} is {what}")
        if suffix not in LARGEST:
            raise SubmissionError(f"{name} is neither a .py nor an .ipynb file")
        with path.open("rb") as file:
            content = file.read(LARGEST[suffix] + 1)
    except OSError as error:
        raise SubmissionError(f"{name} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST[suffix]:
        raise SubmissionError(f"{name} is larger than {LARGEST[suffix] // 2**20} MB")
    return content


def text_of(name: str, content: bytes) -> str:
    """Decoded as Python does: UTF-8, unless its first lines say otherwise."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SubmissionError(f"{name} is in UTF-16: save it as UTF-8")
    if b"\0" in content:
        raise SubmissionError(f"{name} is not text: it contains null bytes")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except (SyntaxError, UnicodeDecodeError):
        encoding = "utf-8-sig"
        if b"coding" in b"".join(content.split(b"\n", 2)[:2]):
            raise SubmissionError(f"{name} declares an encoding that it is not in: save it as UTF-8", 1, "line 1") from None
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[:error.start].count(b"\n") + 1
        raise SubmissionError(f"{name} is not in {encoding.removesuffix('-sig').upper()}: line {line} has the byte "
                              f"0x{content[error.start]:02x}; save it as UTF-8", line, f"line {line}") from None
    return with_newlines(text)


def with_newlines(text: str) -> str:
    """Each line ends with a newline alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse(text: str, name: str) -> ast.Module:
    """The syntax tree; SyntaxError for anything that is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, name, "exec", 0, True)  # finds more than the parser does, such as a return outside a function
            return ast.parse(text, name)
    except (RecursionError, MemoryError):
        raise SyntaxError("too deeply nested") from None
    except ValueError as error:  # a number with too many digits
        raise SyntaxError(str(error)) from None


def source_of_text(name: str, text: str) -> Source:
    """Of a .py file."""
    if text.lstrip()[:1] == "{" and '"nbformat"' in text:
        raise SubmissionError(f"{name} is a notebook: its name should end with .ipynb")
    try:
        tree = parse(text, name)
    except SyntaxError as error:
        raise syntax_error(Source(name, text), error) from None
    return Source(name, text, (), *defined(tree))


def source_of_notebook(name: str, content: bytes) -> Source:
    """The code cells, one after the other. Whatever is not Python becomes `pass`, so that line numbers stay the same."""
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
        sheets = notebook.get("worksheets", [notebook])  # of version 3 and before
        code = [cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"]
        sources = [with_newlines("".join(cell["source"] if "source" in cell else cell["input"])) for cell in code]
    except (ValueError, RecursionError):
        raise SubmissionError(f"{name} is not a notebook: it is not JSON") from None
    except (AttributeError, KeyError, TypeError):
        raise SubmissionError(f"{name} is not a readable notebook: it has no cells") from None
    if sum(map(len, sources)) > LARGEST_CODE:
        raise SubmissionError(f"{name} has more than {LARGEST_CODE // 2**20} MB of code")
    lines: list[str] = []
    cells, broken, body = [], [], []
    for text in sources:
        first = len(lines) + 1
        cells.append(first)
        try:
            text, tree = without_magics(text, name)
        except SyntaxError as error:
            broken.append(syntax_error(Source(name, "\n" * (first - 1) + text, tuple(cells)), error, first - 1))
            text = "\n".join("" for _ in text.split("\n"))
        else:
            body += tree.body
        lines += text.split("\n")
    if broken and not body:
        raise broken[0]
    tree = ast.Module(body, [])
    return Source(name, "\n".join(lines), tuple(cells), *defined(tree), tuple(broken))


def without_magics(text: str, name: str) -> tuple[str, ast.Module]:
    """A cell's Python, and its tree. A line is a magic only if it is not valid Python: `% 2` may continue an expression."""
    lines = text.split("\n")
    if lines[0].startswith("%%") and lines[0][2:].split(" ")[0] in CELLS_OF_OTHER_LANGUAGES:
        lines = [""] * len(lines)
    for _ in range(MOST_MAGICS):
        try:
            return "\n".join(lines), parse("\n".join(lines), name)
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
            if not (0 <= number < len(lines) and is_magic(lines[number])):
                raise
            bare = lines[number].lstrip()
            lines[number] = lines[number][:len(lines[number]) - len(bare)] + "pass"
    raise SyntaxError(f"more than {MOST_MAGICS} lines that are not Python", (name, 1, 1, lines[0]))


def is_magic(line: str) -> bool:
    """
    >>> [is_magic(line) for line in ("%matplotlib inline", "  !ls", "np.exp?", "files = !ls", "t = %timeit f()", "x = 1 +")]
    [True, True, True, True, True, False]
    """
    line = line.strip()
    _, equals, right = line.partition("=")
    return line.startswith(("%", "!", "?")) or line.endswith("?") or bool(equals) and right.strip().startswith(("%", "!"))


def syntax_error(source: Source, error: SyntaxError, offset: int = 0) -> SubmissionError:
    line = (error.lineno or 1) + offset
    line = min(max(line, 1), len(source.lines))
    place, code = source.place(line), source.code(line)
    return SubmissionError(f"{source.filename} is not Python: {error.msg} ({place}: `{code}`)", line, place, code)


def defined(tree: ast.Module) -> tuple[dict[str, Any], dict[str, str]]:
    """(functions, inner) of a file; see `Source`."""
    functions, inner = {}, {}
    for node in top_level(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            place = f"{'class' if isinstance(node, ast.ClassDef) else 'function'} {node.name}"
            inside = [other for other in ast.walk(node) if isinstance(other, ast.FunctionDef) and other is not node]
            inner |= {other.name: place for other in inside}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = None if node.decorator_list else node
        elif isinstance(node, ast.ClassDef):
            functions[node.name] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            functions |= {alias.asname or alias.name: None for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            functions |= {name.id: None for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return functions, inner


def top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a file is loaded, including those in `if`, `try`, `with` and loops."""
    for node in body:
        yield node
        for inner in ("body", "orelse", "finalbody"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from top_level(getattr(node, inner, []))
        for handler in getattr(node, "handlers", []):
            yield from top_level(handler.body)


def exercise_of(source: Source, functions: Mapping[str, str]) -> str:
    """Which of the exercises {name: function} a file answers: by its name, or else by what it defines.

    >>> course = {"softmax": "softmax_backward", "tanh": "tanh_backward"}
    >>> exercise_of(source_of_text("hw3.py", "def tanh_backward(dout, x): ..."), course)
    'tanh'
    >>> exercise_of(source_of_text("hw3.py", "def softmax_backwards(dout, x): ..."), course)
    Traceback (most recent call last):
    study.exercises.submission.SubmissionError: hw3.py defines softmax_backwards: did you mean softmax_backward?
    """
    stem = pathlib.Path(source.filename).stem.lower().replace("-", "_").replace(" ", "_")
    for name, function in functions.items():
        if stem in (name, function.lower()):
            return name
    found = [name for name, function in functions.items() if function in source.functions]
    if len(found) == 1:
        return found[0]
    if found:
        raise SubmissionError(f"{source.filename} answers several exercises ({', '.join(found)}): name it after one")
    raise missing(source, functions.values(), f"function of an exercise, such as {next(iter(functions.values()))}")


def expect(source: Source, function: str, arguments: Sequence[str]) -> None:
    """SubmissionError unless the function is defined and can be called with these positional arguments."""
    called = f"{function}({', '.join(arguments)})"
    if function not in source.functions:
        raise missing(source, [function], called)
    node = source.functions[function]
    if node is None:
        return
    given = node.args
    names = [a.arg for a in given.posonlyargs + given.args]
    required = len(names) - len(given.defaults)
    keywords = [a.arg for a, default in zip(given.kwonlyargs, given.kw_defaults) if default is None]
    if isinstance(node, ast.AsyncFunctionDef):
        problem = f"is an `async def`, but is called as {called}"
    elif required > len(arguments) or len(names) < len(arguments) and not given.vararg:
        many = len(names) if required == len(names) or required <= len(arguments) else f"at least {required}"
        problem = f"takes {many} argument{'s' * (many != 1)} ({', '.join(names)}), but is called as {called}"
    elif keywords:
        problem = f"needs {', '.join(keywords)} by name, but is called as {called}"
    elif names != list(arguments) and sorted(names) == sorted(arguments):
        problem = f"takes its arguments in another order ({', '.join(names)}): it is called as {called}"
    else:
        return
    place = source.place(node.lineno)
    raise SubmissionError(f"{function} {problem} ({place})", node.lineno, place, source.code(node.lineno))


def missing(source: Source, functions: Iterable[str], wanted: str) -> SubmissionError:
    """Why a file has none of these functions: a broken cell, a misspelling, or a function inside another."""
    if source.broken:
        return source.broken[0]
    functions = list(functions)
    for function in functions:
        if given := nearest(function, source.functions):
            node = source.functions[given]
            where = (node.lineno, source.place(node.lineno), source.code(node.lineno)) if node else ()
            return SubmissionError(f"{source.filename} defines {given}: did you mean {function}?", *where)
    for function in functions:
        if function in source.inner:
            place = source.inner[function]
            return SubmissionError(f"{source.filename} defines {function} inside {place}: move it to the top level")
    return SubmissionError(f"{source.filename} defines no {wanted}")


def nearest(name: str, others: Iterable[str]) -> str | None:
    """The most similar name, ignoring case."""
    lowered = {other.lower(): other for other in others}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.85)
    return lowered[close[0]] if close else None
