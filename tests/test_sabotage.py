"""Every sabotage in tests/sabotage that changes words of the source still finds them there, and leaves Python."""
import ast
import functools
import textwrap

from sabotage.base import PARTS, all_sabotages
from sabotage.edit import _edit, edited


def test_every_edit_applies_to_the_source():
    applies = [sabotage.apply for sabotage in all_sabotages(PARTS)]
    edits = {apply.args for apply in applies if isinstance(apply, functools.partial) and apply.func is _edit}
    assert len(edits) > 1000
    stale = []
    for place, old, new in sorted(edits):
        try:
            _, _, after = edited(place, old, new)
            ast.parse(textwrap.dedent(after))
        except (LookupError, AttributeError, ImportError, OSError, SyntaxError, TypeError) as error:
            stale.append(f"{place}, {old!r} -> {new!r}: {error}")
    assert not stale, "\n".join(stale)
