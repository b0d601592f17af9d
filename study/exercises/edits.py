"""Mistakes that no table lists: a solution in which one expression is replaced, as by somebody who forgot a factor.

`RULES` says how expressions are mistaken, whatever they are part of: each rule is tried at every place of a solution.
"""
import ast
import collections
import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from study.exercises.solutions import source_of
from study.mistakes.doctor import Known

Place = tuple[ast.AST, str, int | None]  # the node that contains an expression, the field, and the index in it

# (what is wrong, the right expression, wrong ones). One letter is any expression, `eps` is itself; T transposes.
RULES = (
    ("a term is missing", "a + b", "a", "b"),
    ("a term is missing", "a - b", "a", "-b"),
    ("the sign of a term is wrong", "a + b", "a - b", "b - a"),
    ("the sign of a term is wrong", "a - b", "a + b", "-a - b"),
    ("the sign is wrong", "-a", "a"), ("the sign is wrong", "a * b", "-(a * b)"), ("the sign is wrong", "a / b", "-a / b"),
    ("the sign is wrong", "a @ b", "-a @ b"),
    ("only one term is there", "a - b - c", "-b", "-c"),
    ("one of several is left out", "(a, b, c)", "(a, b)", "(a, c)", "(b, c)"),
    ("the difference is the wrong way round", "a - b", "b - a"),
    ("a factor is missing", "a * b", "a", "b"),
    ("a factor is missing in one of the terms", "a * (b - c)", "a * b - c", "b - a * c"),
    ("the first term is divided by N", "a - b - c", "a / a.shape[-1] - b - c"),
    ("the division is missing", "a / b", "a"),
    ("multiplied instead of divided", "a / b", "a * b"),
    ("divided instead of multiplied", "a * b", "a / b"),
    ("the quotient is upside down", "a / b", "b / a"),
    ("only the divisor is there", "a / b", "b"), ("squared", "a / b", "(a / b) ** 2"),
    ("the power is missing", "a ** b", "a"),
    ("another power", "a ** 2", "a ** 3"), ("another power", "a ** 3", "a ** 2"),
    ("a transpose is missing", "T(a)", "a"), ("a transpose is missing", "a.T", "a"),
    ("a transpose is out of place", "a @ b", "T(a) @ b", "a @ T(b)", "T(a) @ T(b)", "T(a @ b)"),
    ("the factors are exchanged", "a @ b", "b @ a", "T(b) @ a", "b @ T(a)", "T(b) @ T(a)"),
    ("an elementwise product for the matrix product", "a @ b", "a * b", "a * T(b)", "T(a) * b"),
    ("only the last term of the sum is there, as if = were written for += in a loop",
     "a @ b", "a[..., -1:] @ b[..., -1:, :]"),
    ("averaged instead of added up", "a @ b", "a @ b / b.shape[-2]"),
    ("the reciprocal is missing", "1 / a", "a"),
    ("the root is missing", "np.sqrt(a)", "a"),
    ("eps is outside of the root", "np.sqrt(a + eps)", "np.sqrt(a) + eps"),
    ("eps is inside of the root", "np.sqrt(a) + eps", "np.sqrt(a + eps)"),
    ("averaged instead of added up", "a.sum(axis=b, keepdims=True)", "a.mean(axis=b, keepdims=True)"),
    ("averaged instead of added up", "a.sum(axis=b)", "a.mean(axis=b)"),
    ("added up instead of averaged", "a.mean(axis=b, keepdims=True)", "a.sum(axis=b, keepdims=True)"),
    ("the sum is missing", "a.sum(axis=b, keepdims=True)", "a"),
    ("the mean is missing", "a.mean(axis=b, keepdims=True)", "a"),
    ("the largest for the sum", "a.sum(axis=b, keepdims=True)", "a.max(axis=b, keepdims=True)"),
    ("the largest for the sum", "a.sum(axis=b)", "a.max(axis=b)"),
    ("along the wrong axis", "a.sum(axis=-1, keepdims=True)", "a.sum(axis=0, keepdims=True)",
     "a.sum(axis=-2, keepdims=True)"),
    ("along the wrong axis", "a.mean(axis=-1, keepdims=True)", "a.mean(axis=0, keepdims=True)",
     "a.mean(axis=-2, keepdims=True)"),
    ("along the wrong axis", "a.max(axis=-1, keepdims=True)", "a.max(axis=0, keepdims=True)",
     "a.max(axis=-2, keepdims=True)"),
    ("keepdims is missing", "a.sum(axis=b, keepdims=True)", "a.sum(axis=b)"),
    ("keepdims is missing", "a.mean(axis=b, keepdims=True)", "a.mean(axis=b)"),
    ("keepdims is missing", "a.max(axis=b, keepdims=True)", "a.max(axis=b)"),
    ("over everything", "a.sum(axis=b, keepdims=True)", "a.sum()"),
    ("over everything", "a.mean(axis=b, keepdims=True)", "a.mean()"),
    ("a function is left out", "f(a)", "a"), ("a function is left out", "f(a, b)", "a"),
    ("a function is left out", "f(a, b, c)", "a"),
    ("the condition is ignored", "np.where(a, b, c)", "b"), ("the condition is ignored", "a if b else c", "a", "c"),
    ("the condition is the wrong way round", "np.where(a, b, c)", "np.where(a, c, b)"),
    ("off by one", "a >= b", "a > b"), ("off by one", "a > b", "a >= b"),
    ("a term is twice what it should be", "a + b", "a + 2 * b", "2 * a + b"),
    ("a term is twice what it should be", "a - b", "a - 2 * b", "2 * a - b"),
    ("a term is half of what it should be", "a + b", "a + b / 2", "a / 2 + b"),
    ("a term is half of what it should be", "a - b", "a - b / 2", "a / 2 - b"),
    ("added instead of multiplied", "a * b", "a + b"), ("multiplied instead of added", "a + b", "a * b"),
    ("a factor is there twice", "a * b", "a * a * b", "a * b * b"),
)


@dataclass(frozen=True)
class Edit:
    """One expression of a solution, and what replaces it."""

    what: str
    place: Place
    wrong: ast.expr
    function: ast.FunctionDef  # which it is in

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        right = expression(self.place)
        put(self.place, self.wrong)
        try:
            yield
        finally:
            put(self.place, right)


def edits_of(solution: Callable[..., Any], words: str) -> tuple[Known, ...]:
    """Each edit of the solution as a mistake; names that are not among these words are explained."""
    module = ast.parse(source_of(solution))
    codes = {function: compiled(function) for function in module.body}

    def written(edit: Edit) -> Callable[..., Any]:
        @functools.cache
        def function() -> Callable[..., Any]:
            names = {**solution.__globals__}
            with edit.made():
                changed = codes | {edit.function: compiled(edit.function)}
            for code in changed.values():
                exec(code, names)
            return names[solution.__name__]
        return lambda *inputs: function()(*inputs)

    meanings = {local: value for local, value in assigned(module).items()
                if not {local, local.removeprefix("d")} & {*re.findall(r"\w+", words)}}
    enclosing = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
    return tuple(Known(edit.what, said(edit, enclosing, meanings), {"instead": written(edit)}, is_only_single=True)
                 for edit in edits_in(module))


def compiled(function: ast.FunctionDef) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module([function], [])), f"<{function.name}>", "exec")


def assigned(tree: ast.AST) -> dict[str, ast.expr]:
    """The values of variables that are assigned once, by name."""
    stored = collections.Counter(node.id for node in ast.walk(tree)
                                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name) and stored[target.id] == 1}


def said(edit: Edit, enclosing: dict[ast.AST, ast.AST], meanings: dict[str, ast.expr]) -> str:
    """"a factor is missing: n replaces n * stretch, where stretch is (dn * n).mean(-1)"."""
    right = around = expression(edit.place)
    while isinstance(right, ast.Name) and isinstance(around, ast.expr) and not isinstance(around, ast.BinOp):
        around = enclosing[around]
    around = around if isinstance(around, ast.expr) else right
    codes, names = [ast.unparse(around)], [node.id for node in ast.walk(around) if isinstance(node, ast.Name)]
    with edit.made():
        codes.append(ast.unparse(edit.wrong if around is right else around))
    before, after = map(shown, codes)
    if before == after:  # keepdims is what differs
        before, after = (shown(code, dropped="") for code in codes)
    meant = {name: shown(ast.unparse(meanings[name])) for name in names if name in meanings}
    where = ", ".join(f"{name} is {meaning}" for name, meaning in meant.items())
    return f"{edit.what}: {after} replaces {before}" + (f", where {where}" if where else "")


def shown(code: str, dropped: str = ", keepdims=True") -> str:
    """As a student would write it."""
    text = re.sub(r"swapaxes\((\w+), -1, -2\)", r"\1.T", code)
    for long, short in (("np.", ""), (dropped, ""), ("axis=-1", "-1"), (" ** ", "**")):
        text = text.replace(long, short)
    return text


def edits_in(module: ast.Module) -> Iterator[Edit]:
    """In the order of the rules."""
    places = [(function, place) for function in module.body for place in places_in(function)]
    for what, right, *wrong in PATTERNS:
        for function, place in places:
            found: dict[str, ast.expr] = {}
            if matches(right, expression(place), found):
                yield from (Edit(what, place, filled(pattern, found), function) for pattern in wrong)
    for function in module.body:
        yield from with_variables(function)


def with_variables(function: ast.FunctionDef) -> Iterator[Edit]:
    """One variable in place of another, or what it is a function of; a sum of other products."""
    values, variables = assigned(function), [argument.arg for argument in function.args.args]
    variables += [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = {name: ast.Name(name, ast.Load()) for name in variables}
    for place in places_in(function):
        node = expression(place)
        if isinstance(node, ast.Name) and isinstance(value := values.get(node.id), ast.Call) and value.args:
            yield Edit("a function is left out", place, value.args[0], function)
        if place[1] == "value" and isinstance(place[0], ast.Attribute) and place[0].attr in ("sum", "mean"):
            yield from (Edit("another sum", place, ast.BinOp(node, how, name), function)
                        for name in names.values() for how in (ast.Mult(), ast.Div()))
        if isinstance(node, ast.Name) and node.id in names:
            yield from (Edit("another variable", place, name, function) for name in names.values() if name.id != node.id)


def places_in(tree: ast.AST) -> Iterator[Place]:
    """Where expressions are that are computed."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            for index, one in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(one, ast.expr) and isinstance(getattr(one, "ctx", ast.Load()), ast.Load):
                    yield node, field, index


def expression(place: Place) -> ast.expr:
    node, field, index = place
    return getattr(node, field) if index is None else getattr(node, field)[index]


def put(place: Place, new: ast.expr) -> None:
    node, field, index = place
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new


def is_any(pattern: ast.AST) -> bool:
    return isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.islower()


def matches(pattern: Any, node: ast.AST, found: dict[str, ast.expr]) -> bool:
    """Does an expression have this form? What the letters are is added to `found`."""
    if is_any(pattern):
        return isinstance(node, ast.expr) and ast.dump(found.setdefault(pattern.id, node)) == ast.dump(node)
    if type(pattern) is not type(node):
        return False
    return all(field == "ctx" or alike(value, getattr(node, field), found) for field, value in ast.iter_fields(pattern))


def alike(pattern: Any, value: Any, found: dict[str, ast.expr]) -> bool:
    if isinstance(pattern, list):
        return len(pattern) == len(value) and all(alike(a, b, found) for a, b in zip(pattern, value))
    return matches(pattern, value, found) if isinstance(pattern, ast.AST) else pattern == value


def filled(pattern: ast.expr, found: dict[str, ast.expr]) -> ast.expr:
    """The pattern with expressions for its letters."""
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return found.get(node.id, node)

    return Fill().visit(parsed(ast.unparse(pattern)))


def parsed(text: str) -> ast.expr:
    return ast.parse(re.sub(r"\bT\((.+?)\)", r"np.swapaxes(\1, -1, -2)", text), mode="eval").body


PATTERNS = [(what, *map(parsed, expressions)) for what, *expressions in RULES]
