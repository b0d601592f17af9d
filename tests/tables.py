"""A test that goes through a table tries every row, and tells all that fail together."""
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest


def each(rows: Iterable[Any] | Mapping[Any, Any], check: Callable[..., None]) -> None:
    """check(row) for each row, or check(name, row) for those of a dict; what fails is raised as one group, each by its name."""
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
