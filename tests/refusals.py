"""Checks of error messages."""
from collections.abc import Callable, Iterable
from typing import Any


def one_line(code_and_output: tuple[int, str, str], says: str, codes: tuple[int, ...] = (1, 2)) -> None:
    """AssertionError unless the command ended with one of the codes and one line on stderr that says this."""
    code, out, err = code_and_output
    assert code in codes, err
    assert out == ""
    assert err.startswith("minigrad: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    assert says in err, err


def all_refused(call: Callable[[Any], Any], rows: Iterable[tuple[Any, str]], error: type[Exception] = ValueError) -> None:
    """AssertionError that names every row (argument, words) whose call(argument) raises no one-line error with these words."""
    wrong = []
    for argument, says in rows:
        try:
            wrong.append(f"{argument!r:.200} gives {call(argument)!r:.200}")
        except error as caught:
            if says not in str(caught) or "\n" in str(caught) or len(str(caught)) > 1000:
                wrong.append(f"{argument!r:.200}: {caught}; expected {says!r}")
    assert not wrong, "\n".join(wrong)
