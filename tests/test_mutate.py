"""The changes that tests/mutate.py makes of a line."""
import ast

import pytest

from mutate import ROOT, drawn, variants


@pytest.mark.parametrize("line, expected", [
    ("if ready: pass", {"not ready"}),
    ("[x for x in y if ready(x)]", {"not ready(x)", "x"}),
    ("a < b <= c", {"a <= b <= c", "a >= b <= c", "a < b < c", "a < b > c"}),
    ("a is None", {"a is not None"}),
    ("a and b and c", {"a or b or c", "b and c", "a and c", "a and b"}),
    ("a - b", {"a", "b", "a + b", "b - a"}),
    ("a * b", {"a", "b", "a / b"}),
    ("-a", {"a"}),
    ("not a", {"a"}),
    ("True", {"False"}),
    ("0.5", {"1.5"}),
    ("f(a, key=b, other=c)", {"f(a, other=c)", "f(a, key=b)", "pass"}),
    ("return a", {"None"}),
    ("x.y = a", {"pass"}),
    ("x += a", {"pass"}),
    ("raise a", {"pass"}),
])
def test_what_is_made_of_a_line(line, expected):
    found = {ast.unparse(by) for node in ast.walk(ast.parse(line)) for _, by in variants(node)}
    assert found == expected


def test_mutants_are_drawn_evenly_and_change_one_place():
    packages = ["nn", "exercises"]
    mutants = drawn("", packages, 6, seed=0)
    assert [mutant.package for mutant in mutants] == 3 * packages and mutants == drawn("", packages, 6, seed=0)
    for mutant in mutants:
        with open(ROOT / mutant.path, "rb") as file:
            original = file.read()
        source = mutant.source(original)
        assert source != original and source.startswith(original[: mutant.start]) and mutant.old in original.decode()
        ast.parse(source)
