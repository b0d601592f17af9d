"""Lines of code are a budget: a table holds what each folder may have, and whoever needs more says what it buys."""
import io
import itertools
import pathlib
import tokenize

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
BUDGET = {  # lines of code: neither blank, nor comment, nor docstring
    "minigrad": 13801, "nn": 2544, "models": 4071, "study": 11124, "tests": 26546, "benchmarks": 950, "docs": 494, "examples": 359,
}


def lines_of_code(source: str) -> int:
    """The lines on which there is code.

    >>> lines_of_code('def f(x):\\n    "A docstring."\\n\\n    return (  # a comment\\n        x)\\n')
    3
    """
    lines, is_statements_start = set(), True
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    tokens = [token for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL)]
    for token, following in itertools.pairwise(tokens):
        is_alone = token.type == tokenize.STRING and is_statements_start and following.type == tokenize.NEWLINE
        if token.type not in LAYOUT and not is_alone:
            lines |= set(range(token.start[0], token.end[0] + 1))
        is_statements_start = token.type in LAYOUT
    return len(lines)


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_stays_within_its_budget(folder):
    found = sum(lines_of_code(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    assert found <= BUDGET[folder], f"{folder} has {found} lines of code; remove some, or say in the table what they are for"
