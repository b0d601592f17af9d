"""Mistakes that no table lists: a backward in which one expression is replaced, as by somebody who forgot a factor.

Each of the `RULES` is tried at every expression of readable source: an exercise's solution, a teacher's own backward, or an
op's forward and backward in `minigrad.ops`. A comment beside a line, or above it, says what the line computes, and why:

    s = (dout * p).sum(axis=-1, keepdims=True)  # the sum over the row: every output depends on every input of its row

and so, if `s` is missing, what a report says: "the sum over the row is missing: every output ...".
"""
import ast
import collections
import copy
import functools
import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .doctor.routine import Known
from .rules import RULES, SELDOM

Pattern = tuple[Any, ...]  # what is wrong, the right expression, wrong ones
Written = ast.stmt  # a function, a class, or a row of a table, with functions in it
FIXED = "axis", "keepdims", "dim", "dtype"  # keywords whose values no rule for any expression changes
OTHER_FIELDS = "func", "annotation", "returns", "bases", "decorator_list"
LONG = 50  # letters: a longer value explains little
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
        return ast.fix_missing_locations(Plain().visit(ast.parse(self.source)))

    @functools.cached_property
    def comments(self) -> dict[str, tuple[str, str]]:
        """{variable: (what it is, why it is there)}, from comments beside or above the lines that assign them."""
        found = [*BESIDE.findall(self.source), *((name, comment) for comment, name in ABOVE.findall(self.source))]
        parts = {name: comment.partition(": ") for name, comment in found if " " in comment}
        return {name: (what, why) if why else (name, what) for name, (what, _, why) in parts.items()}

    @functools.cached_property
    def codes(self) -> dict[Written, CodeType]:
        return {written: compiled([written]) for written in self.module.body}

    def run(self, changed: Mapping[Written, CodeType] | None = None) -> Callable[..., Any]:
        names = {**self.names, "__name__": __name__}
        for code in {**self.codes, **(changed or {})}.values():
            exec(code, names)
        return self.made(names)


def compiled(body: list[Written]) -> CodeType:
    return compile(ast.Module(body, []), "<rewritten>", "exec")


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
        if name.endswith(".astype") and "dtype" in ast.unparse(arguments[0]):  # all is float64
            return node.func.value  # type: ignore[attr-defined]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        test = ast.unparse(node.test)
        return node.body if "self.needs" in test else node.orelse if "is_tensor" in test else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        return node


@dataclass(frozen=True, eq=False)
class Edit:
    """What is wrong, and what replaces which expressions: one, or all that are alike."""

    what: str
    changes: Mapping[ast.expr, ast.expr]  # by the expression itself: what replaces it, in letters if it has `letters`
    letters: Mapping[ast.expr, Mapping[str, ast.expr]] = field(default_factory=dict)  # what they stand for there
    form: ast.expr | None = None  # of all that are replaced

    def made(self, node: Any, on_path: Container[ast.AST] = ()) -> Any:
        """A tree with this edit: new nodes on the path to what is replaced, and the old ones beside."""
        if isinstance(node, list):
            return [self.made(part, on_path) for part in node]
        if node in self.changes:
            letters = self.letters.get(node, {}).items()
            new = filled(self.changes[node], {name: a if a is node else self.made(a, on_path) for name, a in letters})
            return ast.fix_missing_locations(ast.copy_location(new, node))  # which takes long for a whole program
        if node not in on_path:
            return node
        fields = {name: self.made(value, on_path) for name, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**fields), node)


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
        return self.program.run({written: compiled([self.edit.made(written, self.on_path)])
                                 for written in self.program.module.body if written in self.on_path})

    @property
    def on_path(self) -> set[ast.AST]:
        return {above for node in self.edit.changes for above in ancestors(node, self.words.enclosing)}

    @functools.cached_property
    def said(self) -> tuple[str, str]:
        return said(self.edit, self.words)

    @property
    def name(self) -> str:
        return self.said[0]

    @property
    def sentence(self) -> str:
        return self.said[1]


def mistakes_in(known: Container[str], *programs: Program) -> list[Known]:
    """Each edit of a program, or of several that compute the same, as a mistake; the likeliest first.

    Names of variables that are not `known` are explained.
    """
    seen: dict[Program, set[tuple[Any, ...]]] = collections.defaultdict(set)
    all_words = {program: words_of(program, known) for program in programs}
    return [Mistaken(program, edit, words) for edits in TIERS for program, words in all_words.items()
            for edit in unseen(edits(program.module), seen[program])]


def words_of(program: Program, known: Container[str]) -> Words:
    meanings = {local: value for local, value in assigned(program.module).items()
                if local not in known and local.removeprefix("d") not in known}
    enclosing = {child: node for node in ast.walk(program.module) for child in ast.iter_child_nodes(node)}
    return Words(enclosing, meanings, program.comments)


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
    right, *others = edit.changes
    if others:
        name = edit.what.format(line="each sum", a="a", b="b", f="f")
        says = f": {shown(edit.changes[right])} replaces {shown(edit.form)}" if edit.form else ""
        return (name := f"{name}, everywhere" if says else name), name + says
    around, letters = around_of(right, words.enclosing), edit.letters.get(right, {})
    made = edit.made(around, set(ancestors(right, words.enclosing)))
    before, after = (shown(node) for node in (around, made))
    if before == after:  # keepdims is what differs
        before, after = (shown(node, "") for node in (around, made))
    texts = {letter: told_of(node, edit.what, words) for letter, node in letters.items()}
    texts["line"] = line_of(right, edit.what, words)
    name = edit.what.format(**{letter: words.comments.get(text, (text,))[0] for letter, text in texts.items()})
    subjects = [texts[letter] for letter in re.findall(r"\{(\w+)\}", edit.what)]
    why = next((words.comments[text][1] for text in subjects if text in words.comments), "")
    names = dict.fromkeys(node.id for node in ast.walk(around) if isinstance(node, ast.Name))
    meant = {name: shown(words.meanings[name]) for name in names if name in words.meanings}
    where = ", ".join(f"{name} is {meaning}" for name, meaning in meant.items() if len(meaning) < LONG)
    is_alone = sum(ast.dump(node) == ast.dump(right) for node in ast.walk(around)) == 1  # else which is meant?
    is_told = edit.form is not None and is_any(edit.form) and is_alone  # "p is squared": only where is left to say
    place = before if before != texts.get("a") else texts["line"]
    replaced = f"in {place}" if is_told else f"{after} replaces {before}"
    return name, f"{name}: {why or replaced + (f', where {where}' if where else '')}"


def line_of(node: ast.expr, what: str, words: Words) -> str:
    """What the line computes; "the sum in p", if it computes more than that."""
    lines = (above for above in ancestors(node, words.enclosing) if isinstance(above, ast.Assign))
    line = next((above for above in lines if isinstance(above.targets[0], ast.Name)), None)
    if line is None:
        return "the result"
    name, is_all = line.targets[0].id, line.value is node or "lacks" in what  # type: ignore[attr-defined]
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return f"the {node.func.attr} in {name}" if is_method and not is_all and name not in words.comments else name


def told_of(node: ast.expr, what: str, words: Words) -> str:
    """What is said of an expression: the only factor in it that has a comment, or all of it."""
    commented = {name for name in factors(node) if name in words.comments} if what.startswith("{") else set()
    text = commented.pop() if len(commented) == 1 else shown(node)
    return f"({text})" if "1 - {" in what and isinstance(node, ast.BinOp) else text


def factors(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        return factors(node.left) | factors(node.right)
    return {node.id} if isinstance(node, ast.Name) else set()


def around_of(right: ast.expr, enclosing: dict[ast.AST, ast.AST]) -> ast.expr:
    """The operation that a variable is part of, or the expression itself."""
    around = right
    while isinstance(right, ast.Name) and not isinstance(around, ast.BinOp) and isinstance(enclosing[around], ast.expr):
        around = enclosing[around]  # type: ignore[assignment]
    return around


def ancestors(node: ast.AST, enclosing: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in enclosing:
        node = enclosing[node]
        yield node


def shown(node: ast.AST, dropped: str = ", keepdims=True") -> str:
    """As a student would write it."""
    text = re.sub(r"swapaxes\((\w+), -1, -2\)", r"\1.T", ast.unparse(node))
    text = re.sub(r"keep_axes\((\w+), .*?, axis\)", r"\1", text)
    text = re.sub(r"call\((\w+), ", lambda found: f"{found[1].lower()}(", text)
    for long, short in (("np.", ""), (dropped, ""), ("axis=-1", "-1"), (" ** ", "**"), ("self.", "")):
        text = text.replace(long, short)
    return text


# ---- edits ----

def by_rules(module: ast.Module, patterns: list[Pattern] | None = None) -> Iterator[Edit]:
    nodes = [pair for written in module.body for pair in expressions_in(written)]
    for what, right, *wrong in patterns or PATTERNS:
        for node, parent in nodes:
            found: dict[str, ast.expr] = {}
            is_flag = isinstance(parent, (ast.IfExp, ast.Compare)) or not isinstance(node, (ast.Name, ast.BinOp, ast.Call))
            if not (is_any(right) and is_flag) and matches(right, node, found):
                yield from (Edit(what, {node: pattern}, {node: found}, right) for pattern in wrong)


def unseen(edits: Iterable[Edit], seen: set[tuple[Any, ...]]) -> Iterator[Edit]:
    for edit in edits:
        dumps = [(node, ast.dump(edit.made(node))) for node in edit.changes]
        if (key := tuple((id(node), dump) for node, dump in dumps)) not in seen and any(
                dump != ast.dump(node) for node, dump in dumps):
            seen.add(key)
            yield edit


def with_variables(module: ast.Module) -> Iterator[Edit]:
    """One variable in place of another, or of an operation; what it is a function of; a sum of other products."""
    for written in module.body:
        values = assigned(written)
        nodes = list(itertools.chain(*map(ast.walk, functions_in(written))))
        variables = [argument.arg for node in nodes if isinstance(node, ast.arguments) for argument in node.args]
        variables += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        names = {name: ast.Name(name, ast.Load()) for name in variables if name != "self"}
        for node, parent in expressions_in(written):
            if isinstance(node, ast.Name) and isinstance(value := values.get(node.id), ast.Call) and value.args:
                yield Edit("a function is left out", {node: value.args[0]})
            if isinstance(parent, ast.Attribute) and parent.attr in ("sum", "mean"):
                yield from (Edit("another sum", {node: ast.BinOp(node, how, name)})
                            for name in names.values() for how in (ast.Mult(), ast.Div()))
            if isinstance(node, ast.Name) and node.id in names or isinstance(node, (ast.BinOp, ast.Call, ast.Subscript)):
                yield from (Edit("another variable", {node: name}) for name in names.values())
        for node in ast.walk(written):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                for j, i in itertools.combinations(range(len(node.value.elts)), 2):
                    results = list(node.value.elts)
                    results[i], results[j] = results[j], results[i]
                    yield Edit("two results are exchanged", {node.value: ast.Tuple(results, ast.Load())})


def everywhere(module: ast.Module) -> Iterator[Edit]:
    """A rule at all places at once, where that is more than one: each sum along the wrong axis; in all lines, or in those
    that dout goes through."""
    nodes = [node for written in module.body for node, _ in expressions_in(written)]
    backward = nodes_after("dout", module)
    for what, right, *wrong in PATTERNS:
        if any(word in what for word in WHOLE) and not is_any(right):
            letters = {node: found for node in nodes if matches(right, node, found := {})}
            for some in (letters, {node: found for node, found in letters.items() if node in backward}):
                if len(some) > 1:
                    yield from (Edit(what, dict.fromkeys(some, pattern), some, right) for pattern in wrong)
    axes = [node.value for node in ast.walk(module) if isinstance(node, ast.keyword) and node.arg == "axis"]
    for axis in (0, -2, 1) if len(axes) > 1 else ():
        yield Edit(f"all sums, means and maxima run along axis {axis}", dict.fromkeys(axes, ast.Constant(axis)))


def nodes_after(name: str, module: ast.Module) -> set[ast.AST]:
    """What is in a line that depends on a variable."""
    names, found = {name}, set()
    for line in ast.walk(module):
        if isinstance(line, (ast.Assign, ast.Return)) and names & {node.id for node in ast.walk(line)
                                                                   if isinstance(node, ast.Name)}:
            names |= {node.id for node in ast.walk(line) if isinstance(getattr(node, "ctx", None), ast.Store)
                      and isinstance(node, ast.Name)}
            found |= set(ast.walk(line))
    return found


# ---- expressions ----

def functions_in(written: Written) -> list[ast.AST]:
    """The function itself; of a class or a row of a table, those in it."""
    if isinstance(written, ast.FunctionDef):
        return [written]
    return [node for node in ast.walk(written) if isinstance(node, (ast.FunctionDef, ast.Lambda))]


def expressions_in(written: Written) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What functions compute, each expression with the node that contains it."""
    for node in itertools.chain(*map(ast.walk, functions_in(written))):
        is_target = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_target or isinstance(node, (ast.arguments, ast.keyword)) and getattr(node, "arg", "axis") in FIXED:
            continue
        for name, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                if is_computed(one) and name not in OTHER_FIELDS and not is_fixed(one):
                    yield one, node


def is_fixed(node: ast.expr) -> bool:
    """np itself, or a negative whole number, which counts axes."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)
    return isinstance(node, ast.Name) and node.id == "np"


def is_computed(node: Any) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


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
    "in_order": "a", "operator.truediv": "a / b", "operator.pow": "a ** b", "operator.neg": "-a", "negative": "-a",
}.items()}
TIERS: tuple[Callable[[ast.Module], Iterator[Edit]], ...] = (
    by_rules, everywhere, with_variables, functools.partial(by_rules, patterns=RARE))
