"""Tests that go through a table: they try every row, and report all failures together."""
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest


def shares(few: int) -> list:
    """The values of a parameter: with --long every row is tried, else one in `few`."""
    return [pytest.param(few, marks=pytest.mark.short), pytest.param(1, marks=pytest.mark.long)]


def one_in(share: int, rows: Iterable[Any]) -> list:
    """The values of a parameter, or of several: one in `share` is tried each time, and the others with --long."""
    return [row if place % share == 0 else pytest.param(*(row if isinstance(row, tuple) else [row]), marks=pytest.mark.long)
            for place, row in enumerate(rows)]


def each(rows: Iterable[Any] | Mapping[Any, Any], check: Callable[..., None]) -> None:
    """check(row) for each row, or check(name, row) for each item of a dict; raises all failures as one group, with names."""
    named = rows.items() if isinstance(rows, Mapping) else ((str(row), row) for row in rows)
    failed = []
    for name, row in named:
        try:
            check(name, row) if isinstance(rows, Mapping) else check(row)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            error.add_note(f"row: {name}")
            failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} rows", failed)
