"""Mistakes that no table lists: a backward in which one expression is replaced, as by somebody who forgot a factor.

Each of the `RULES` is tried at every expression of readable source: an exercise's solution, a teacher's own backward, or an
op's forward and backward in `minigrad.ops`. A comment beside a line, or above it, says what the line computes, and why:

    s = (dout * p).sum(axis=-1, keepdims=True)  # the sum over the row: every output depends on every input of its row

and so, if `s` is missing, what a report says: "the sum over the row is missing: every output ...".
"""
import ast
import collections
import contextlib
import copy
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .doctor.routine import Known
from .rules import RULES, SELDOM

Place = tuple[ast.AST, str, int | None]  # the node that contains an expression, the field, and the index in it
Pattern = tuple[Any, ...]  # what is wrong, the right expression, wrong ones
Written = ast.stmt  # a function, a class, or a row of a table, with functions in it
FIXED = "axis", "keepdims", "dim", "dtype"  # keywords whose values no rule for any expression changes
OTHER_FIELDS = "func", "annotation", "returns", "bases", "decorator_list"
WHOLE = "axis", "keepdims", "everything", "averag", "added up", "largest", "another", "transpose", "reshaped", "eps"
BESIDE = re.compile(r"^ *(\w+)(?:, \w+)* = .*?  # (.*)$", re.MULTILINE)
ABOVE = re.compile(r"^ *# (.*)\n *(\w+) = ", re.MULTILINE)


@dataclass(frozen=True)
class Words:
    """What an edit is told in: the parents of nodes, what variables are, and comments on them."""

    enclosing: dict[ast.AST, ast.AST]
    meanings: dict[str, ast.expr]
    comments: dict[str, tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Program:
    """Functions as source, in a module; `made` gives what is run from them in a namespace."""

    source: str
    names: Mapping[str, Any]  # what the functions refer to
    made: Callable[[dict[str, Any]], Callable[..., Any]]

    @functools.cached_property
    def module(self) -> ast.Module:
        return Plain().visit(ast.parse(self.source))

    @functools.cached_property
    def comments(self) -> dict[str, tuple[str, str]]:
        """{variable: (what it is, why it is there)}, from comments beside or above the lines that assign them."""
        found = [*BESIDE.findall(self.source), *((name, comment) for comment, name in ABOVE.findall(self.source))]
        parts = {name: comment.partition(": ") for name, comment in found if " " in comment}
        return {name: (what, why) if why else (name, what) for name, (what, _, why) in parts.items()}

    @functools.cached_property
    def codes(self) -> dict[Written, CodeType]:
        return {written: compiled([written]) for written in self.module.body}

    def with_module(self, module: ast.Module) -> Callable[..., Any]:
        """What another module makes, compiled when it is called."""
        @functools.cache
        def function() -> Callable[..., Any]:
            names = {**self.names, "__name__": __name__}  # what classes say that they are of
            exec(compiled(module.body), names)
            return self.made(names)
        return lambda *inputs: function()(*inputs)

    def run(self, changed: Mapping[Written, CodeType] | None = None) -> Callable[..., Any]:
        names = {**self.names, "__name__": __name__}
        for code in {**self.codes, **(changed or {})}.values():
            exec(code, names)
        return self.made(names)


def compiled(body: list[Written]) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module(body, [])), "<rewritten>", "exec")


class Plain(ast.NodeTransformer):
    """One way to write what has several: sums and means are methods, products and the like operators. What an op computes
    only if it is needed is computed. Docstrings are dropped."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name, arguments = ast.unparse(node.func), node.args
        if name == "backend.elementwise":
            name, arguments = ast.unparse(arguments[0]), arguments[1:]
            node = ast.Call(node.args[0], arguments, node.keywords)
        if name == "call" and ast.unparse(arguments[0]) == "Sum":
            name, arguments = "np.sum", arguments[1:]
        if name in ("np.sum", "np.max", "np.mean"):
            return ast.Call(ast.Attribute(arguments[0], name[3:], ast.Load()), arguments[1:], node.keywords)
        if name in OTHERWISE:
            return filled(OTHERWISE[name], dict(zip("ab", arguments)))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return node.body if "self.needs" in ast.unparse(node.test) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        return node


@dataclass(frozen=True)
class Edit:
    """One expression, what replaces it, and what is wrong with that."""

    what: str
    place: Place
    wrong: ast.expr
    written: Written  # which it is in
    letters: Mapping[str, ast.expr] = field(default_factory=dict)  # what they stand for, in `what`

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        right = expression(self.place)
        put(self.place, self.wrong)
        try:
            yield
        finally:
            put(self.place, right)


class Mistaken(Known):
    """A program with an edit, as a known mistake; it is compiled, and put into words, when that is asked for."""

    is_only_single = True

    def __init__(self, program: "Program", edit: Edit, words: Words) -> None:
        self.__dict__.update(program=program, edit=edit, words=words)

    @property
    def changes(self) -> dict[str, Any]:
        return {"instead": lambda *inputs: self.function(*inputs)}

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        with self.edit.made():
            code = compiled([self.edit.written])
        return self.program.run({self.edit.written: code})

    @functools.cached_property
    def said(self) -> tuple[str, str]:
        return said(self.edit, self.words)

    @property
    def name(self) -> str:
        return self.said[0]

    @property
    def sentence(self) -> str:
        return self.said[1]


def mistakes_in(program: Program, known: set[str]) -> list[Known]:
    """Each edit of a program as a mistake; names of variables that are not `known` are explained."""
    module = program.module
    meanings = {local: value for local, value in assigned(module).items() if not {local, local.removeprefix("d")} & known}
    enclosing = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
    words = Words(enclosing, meanings, program.comments)
    singly: list[Known] = [Mistaken(program, edit, words) for edit in edits_in(module)]
    return singly + [Known(what.partition(": ")[0], what, {"instead": program.with_module(changed)}, True)
                     for what, changed in everywhere(module)]


def assigned(tree: ast.AST) -> dict[str, ast.expr]:
    """The values of variables that are assigned once, by name."""
    stored = collections.Counter(node.id for node in ast.walk(tree)
                                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name) and stored[target.id] == 1}


# ---- what is said of an edit ----

def said(edit: Edit, words: Words) -> tuple[str, str]:
    """A name, "the factor n is missing", and a sentence: what replaces what, or why it should be there.

    "the factor n is missing: stretch replaces n * stretch, where stretch is (dn * n).mean(-1)".
    """
    right, around = expression(edit.place), around_of(edit, words.enclosing)
    codes, names = [ast.unparse(around)], [node.id for node in ast.walk(around) if isinstance(node, ast.Name)]
    with edit.made():
        codes.append(ast.unparse(edit.wrong if around is right else around))
    before, after = map(shown, codes)
    if before == after:  # keepdims is what differs
        before, after = (shown(code, dropped="") for code in codes)
    line = next((node.targets[0].id for node in ancestors(edit.place[0], words.enclosing) if isinstance(node, ast.Assign)
                 and isinstance(node.targets[0], ast.Name)), "")
    texts = {letter: told_of(node, edit.what, words) for letter, node in edit.letters.items()}
    texts["line"] = line or "the result"
    name = edit.what.format(**{letter: words.comments.get(text, (text,))[0] for letter, text in texts.items()})
    subjects = [texts[letter] for letter in re.findall(r"\{(\w+)\}", edit.what)]
    why = next((words.comments[text][1] for text in subjects if text in words.comments), "")
    meant = {name: shown(ast.unparse(words.meanings[name])) for name in names if name in words.meanings}
    where = ", ".join(f"{name} is {meaning}" for name, meaning in meant.items())
    replaced = f"{after} replaces {before}" + (f", where {where}" if where else "")
    return name, f"{name}: {why or replaced}"


def told_of(node: ast.expr, what: str, words: Words) -> str:
    """What is said of an expression: the only factor or term in it that has a comment, or all of it."""
    commented = {name for name in operands(node) if name in words.comments} if what.startswith("{") else set()
    return commented.pop() if len(commented) == 1 else shown(ast.unparse(node))


def operands(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BinOp):
        return operands(node.left) | operands(node.right)
    return {node.id} if isinstance(node, ast.Name) else set()


def around_of(edit: Edit, enclosing: dict[ast.AST, ast.AST]) -> ast.expr:
    """The operation that a variable is part of, or the expression itself."""
    right = around = expression(edit.place)
    while isinstance(right, ast.Name) and not isinstance(around, ast.BinOp) and isinstance(enclosing[around], ast.expr):
        around = enclosing[around]  # type: ignore[assignment]
    return around


def ancestors(node: ast.AST, enclosing: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in enclosing:
        yield node
        node = enclosing[node]


def shown(code: str, dropped: str = ", keepdims=True") -> str:
    """As a student would write it."""
    text = re.sub(r"swapaxes\((\w+), -1, -2\)", r"\1.T", code)
    for long, short in (("np.", ""), (dropped, ""), ("axis=-1", "-1"), (" ** ", "**"), ("self.", "")):
        text = text.replace(long, short)
    return text


# ---- edits ----

def edits_in(module: ast.Module) -> Iterator[Edit]:
    """In the order of the rules; one variable in place of another, or what it is a function of, before what is seldom."""
    seen: set[tuple[Any, ...]] = set()
    yield from unseen(by_rules(module, PATTERNS), seen)
    for written in module.body:
        yield from unseen(with_variables(written), seen)
        yield from with_results_exchanged(written)
    yield from unseen(by_rules(module, RARE), seen)


def by_rules(module: ast.Module, patterns: list[Pattern]) -> Iterator[Edit]:
    places = [(written, place) for written in module.body for place in places_in(written)]
    for what, right, *wrong in patterns:
        for written, place in places:
            node, found = expression(place), {}
            if is_any(right) and not isinstance(node, (ast.Name, ast.BinOp, ast.Call)):
                continue
            if matches(right, node, found):
                yield from (Edit(what, place, filled(pattern, found), written, found) for pattern in wrong)


def unseen(edits: Iterable[Edit], seen: set[tuple[Any, ...]]) -> Iterator[Edit]:
    for edit in edits:
        key = (id(edit.place[0]), *edit.place[1:], ast.dump(edit.wrong))
        if key not in seen and ast.dump(edit.wrong) != ast.dump(expression(edit.place)):
            seen.add(key)
            yield edit


def with_variables(written: Written) -> Iterator[Edit]:
    """One variable in place of another, or of an operation; what it is a function of; a sum of other products."""
    values = assigned(written)
    nodes = list(itertools.chain(*map(ast.walk, functions_in(written))))
    variables = [argument.arg for node in nodes if isinstance(node, ast.arguments) for argument in node.args]
    variables += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = {name: ast.Name(name, ast.Load()) for name in variables if name != "self"}
    for place in places_in(written):
        node = expression(place)
        if isinstance(node, ast.Name) and isinstance(value := values.get(node.id), ast.Call) and value.args:
            yield Edit("a function is left out", place, copy.deepcopy(value.args[0]), written)
        if place[1] == "value" and isinstance(place[0], ast.Attribute) and place[0].attr in ("sum", "mean"):
            yield from (Edit("another sum", place, ast.BinOp(node, how, name), written)
                        for name in names.values() for how in (ast.Mult(), ast.Div()))
        if isinstance(node, ast.Name) and node.id in names or isinstance(node, (ast.BinOp, ast.Call, ast.Subscript)):
            yield from (Edit("another variable", place, name, written) for name in names.values())


def with_results_exchanged(written: Written) -> Iterator[Edit]:
    for node in ast.walk(written):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            for i in range(len(node.value.elts)):
                for j in range(i):
                    results = list(node.value.elts)
                    results[i], results[j] = results[j], results[i]
                    yield Edit("two results are exchanged", (node, "value", None), ast.Tuple(results, ast.Load()), written)


def everywhere(module: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    """A rule at all places at once, where that is more than one: each sum along the wrong axis."""
    for what, right, *wrong in PATTERNS:
        if any(word in what for word in WHOLE) and not is_any(right):
            for pattern in wrong:
                changer = Everywhere(right, pattern)
                changed = changer.visit(copy.deepcopy(module))
                if changer.count > 1:
                    name = what.format(line="each sum", a="a", b="b", f="f")
                    yield f"{name}, everywhere: {shown(ast.unparse(pattern))} replaces {shown(ast.unparse(right))}", changed
    for axis in ("0", "-2", "1"):
        along = Along(ast.parse(axis, mode="eval").body)
        yield f"all sums, means and maxima run along axis {axis}", along.visit(copy.deepcopy(module))


class Along(ast.NodeTransformer):
    """Every axis becomes another one."""

    def __init__(self, axis: ast.expr) -> None:
        self.axis = axis

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword("axis", self.axis) if node.arg == "axis" else node


class Everywhere(ast.NodeTransformer):
    def __init__(self, right: ast.expr, wrong: ast.expr) -> None:
        self.right, self.wrong, self.count = right, wrong, 0

    def visit(self, node: ast.AST) -> ast.AST:
        node, found = super().visit(node), {}
        if is_computed(node) and matches(self.right, node, found):
            self.count += 1
            return filled(self.wrong, found)
        return node


# ---- expressions ----

def functions_in(written: Written) -> list[ast.AST]:
    """The function itself; of a class or a row of a table, those in it."""
    if isinstance(written, ast.FunctionDef):
        return [written]
    return [node for node in ast.walk(written) if isinstance(node, (ast.FunctionDef, ast.Lambda))]


def places_in(written: Written) -> Iterator[Place]:
    """Where expressions are that functions compute."""
    for node in itertools.chain(*map(ast.walk, functions_in(written))):
        is_target = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_target or isinstance(node, (ast.arguments, ast.keyword)) and getattr(node, "arg", "axis") in FIXED:
            continue
        for name, value in ast.iter_fields(node):
            for index, one in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if is_computed(one) and name not in OTHER_FIELDS and not is_fixed(one):
                    yield node, name, index


def is_fixed(node: ast.expr) -> bool:
    """np itself, or a negative whole number, which counts axes."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)
    return isinstance(node, ast.Name) and node.id == "np"


def is_computed(node: Any) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def expression(place: Place) -> ast.expr:
    node, name, index = place
    return getattr(node, name) if index is None else getattr(node, name)[index]


def put(place: Place, new: ast.expr) -> None:
    node, name, index = place
    if index is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[index] = new


def is_any(pattern: ast.AST) -> bool:
    return isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.islower()


def matches(pattern: Any, node: ast.AST, found: dict[str, ast.expr]) -> bool:
    """Does an expression have this form? What the letters are is added to `found`."""
    if is_any(pattern):
        if not isinstance(node, ast.expr) or isinstance(node, ast.Attribute) and node.attr == "inf":
            return False
        return ast.dump(found.setdefault(pattern.id, node)) == ast.dump(node)
    if type(pattern) is not type(node):
        return False
    return all(name == "ctx" or alike(value, getattr(node, name), found) for name, value in ast.iter_fields(pattern))


def alike(pattern: Any, value: Any, found: dict[str, ast.expr]) -> bool:
    if isinstance(pattern, list):
        return len(pattern) == len(value) and all(alike(a, b, found) for a, b in zip(pattern, value))
    return matches(pattern, value, found) if isinstance(pattern, ast.AST) else pattern == value


def filled(pattern: ast.expr, found: dict[str, ast.expr]) -> ast.expr:
    """The pattern with expressions for its letters."""
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return found.get(node.id, node)

    return Fill().visit(copy.deepcopy(pattern))


def parsed(text: str) -> ast.expr:
    return ast.parse(re.sub(r"\bT\((.+?)\)", r"np.swapaxes(\1, -1, -2)", text), mode="eval").body


PATTERNS, RARE = ([(what, *map(parsed, expressions)) for what, *expressions in rules] for rules in (RULES, SELDOM))
OTHERWISE = {name: parsed(text) for name, text in {
    "row_mean": "a.mean(axis=-1, keepdims=True)", "column_sum": "a.sum(axis=tuple(range(a.ndim - 1)))",
    "np.matmul": "a @ b", "operator.add": "a + b", "operator.sub": "a - b", "operator.mul": "a * b",
    "operator.truediv": "a / b", "operator.pow": "a ** b", "operator.neg": "-a", "negative": "-a",
}.items()}
