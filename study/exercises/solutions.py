"""A solution as students see it, and its routine, in which a mistake is the solution with some lines replaced."""
import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from study.mistakes.doctor import Known, Routine

COURSE = "study.exercises.course."  # whose functions a student does not have
MOST_KEPT = 4096  # variants of a solution


def source_of(solution: Callable[..., Any]) -> str:
    """The source of a function, below that of the functions of the course that it calls."""
    codes = (solution.__code__, *filter(inspect.iscode, solution.__code__.co_consts))
    found: list[Any] = [solution.__globals__.get(name) for name in {name for code in codes for name in code.co_names}]
    called = [one for one in found if inspect.isfunction(one) and one.__module__.startswith(COURSE)]
    called.sort(key=lambda function: function.__code__.co_firstlineno)
    return "\n\n".join(textwrap.dedent(inspect.getsource(function)) for function in (*called, solution))


def routine_of(solution: Callable[..., Any], results: tuple[str, ...], mistakes: dict[str, tuple[str, ...]]) -> Routine:
    """The routine of a solution, with its mistakes: {name: (sentence, "s = 0; return dx - s")}.

    Each line of a mistake replaces the one that assigns to the same names, or the return statement. If the solution has no
    such line, it goes to the top. Any other statement is replaced if it is the third item of a mistake.
    """
    @functools.lru_cache(MOST_KEPT)
    def written(lines: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
        names = dict(solution.__globals__)
        tree = ast.fix_missing_locations(rewritten(ast.parse(source_of(solution)), dict(lines)))
        exec(compile(tree, f"<{solution.__name__}>", "exec"), names)
        return names[solution.__name__]

    def right(*inputs: Any, **lines: str) -> Any:
        return written(tuple(lines.items()))(*inputs) if lines else solution(*inputs)

    known = tuple(Known(name, sentence, changes_of(*lines)) for name, (sentence, *lines) in mistakes.items())
    name, arguments = solution.__name__.removesuffix("_backward"), tuple(inspect.signature(solution).parameters)
    return Routine(name, right, arguments, results, known)


def changes_of(lines: str, place: str = "") -> dict[str, str]:
    """{key of the line that is replaced: the new line}

    >>> changes_of("s = 0; return dx - s")
    {'s': 's = 0', 'return': 'return dx - s'}
    """
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
