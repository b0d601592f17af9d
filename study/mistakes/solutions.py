"""A solution as students see it, and its routine: a mistake is the solution with an expression, or lines, replaced."""
import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from .doctor.routine import Known, Routine
from .rewriting import Program, mistakes_in

OURS = "study.exercises.course.", "study.mistakes.textbook."  # whose functions a student does not have
MOST_KEPT = 4096  # variants of a solution


@functools.cache
def source_of(solution: Callable[..., Any]) -> str:
    """The source of a function, below that of the functions of the course that it calls."""
    codes = (solution.__code__, *filter(inspect.iscode, solution.__code__.co_consts))
    found: list[Any] = [solution.__globals__.get(name) for name in {name for code in codes for name in code.co_names}]
    called = [one for one in found if inspect.isfunction(one) and one.__module__.startswith(OURS)]
    called.sort(key=lambda function: function.__code__.co_firstlineno)
    return "\n\n".join(textwrap.dedent(inspect.getsource(function)) for function in (*called, solution))


def program_of(solution: Callable[..., Any]) -> Program:
    return Program(source_of(solution), solution.__globals__, lambda made: made[solution.__name__])


def routine_of(solution: Callable[..., Any], results: tuple[str, ...], own: dict[str, tuple[Any, ...]], formula: str = "",
               forms: Sequence[Callable[..., Any]] = ()) -> Routine:
    """The routine of a solution, with the mistakes that no rule makes: {name: (sentence, "s = 0; return dx - s")}.

    Each line of a mistake replaces the one that assigns to the same names, or the return statement. If the solution has no
    such line, it goes to the top. Any other statement is replaced if it is the third item of a mistake. A function in place
    of lines replaces the whole solution. `forms` are other ways to write the solution, in which the rules find other
    mistakes. What the formula names needs no explanation.
    """
    @functools.lru_cache(MOST_KEPT)
    def written(lines: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
        names = dict(solution.__globals__)
        tree = ast.fix_missing_locations(rewritten(ast.parse(source_of(solution)), dict(lines)))
        exec(compile(tree, f"<{solution.__name__}>", "exec"), names)
        return names[solution.__name__]

    def right(*inputs: Any, **lines: str) -> Any:
        return written(tuple(lines.items()))(*inputs) if lines else solution(*inputs)

    name, arguments = solution.__name__.removesuffix("_backward"), tuple(inspect.signature(solution).parameters)
    named = {*re.findall(r"\w+", formula), *arguments, *results}
    known = tuple(Known(name, sentence, changes_of(*lines)) for name, (sentence, *lines) in own.items())
    return Routine(name, right, arguments, results, known, functools.cache(
        lambda: tuple(mistakes_in(named, *map(program_of, (solution, *forms))))))


def changes_of(lines: str | Callable[..., Any], place: str = "") -> dict[str, Any]:
    """{key of the line that is replaced: the new line}

    >>> changes_of("s = 0; return dx - s")
    {'s': 's = 0', 'return': 'return dx - s'}
    """
    if callable(lines):
        return {"instead": lines}
    return {place or key_of(ast.parse(line).body[0]): line for line in lines.split("; ")}


def key_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    return "return" if isinstance(statement, ast.Return) else ast.unparse(statement)


def rewritten(module: ast.Module, lines: dict[str, str]) -> ast.Module:
    """The module with these lines; `return` is that of its last function."""
    solution: Any = module.body[-1]
    for node in [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]:
        for i, statement in enumerate(node.body):
            key = key_of(statement)
            if key in lines and (key != "return" or node is solution):
                node.body[i] = ast.parse(lines.pop(key)).body[0]
    solution.body[:0] = [ast.parse(line).body[0] for line in lines.values()]
    return module
