"""tests/mutate.py: the mutants it makes of a line, how it draws them, and the tests it picks."""
import ast
import importlib

import pytest

import by_hand
from mutate import ROOT, places, variants


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
    ("f(a, b.c)", {"f(b.c, a)", "pass"}),
    ("{a: b, c: d}", {"{a: b}", "{c: d}"}),
    ("return None", set()),
])
def test_mutants_of_a_line(line, expected):
    found = {ast.unparse(by) for node in ast.walk(ast.parse(line)) for _, by in variants(node)}
    assert found == expected


def test_mutants_of_a_script():
    lines = b"  // a + b\n  if (a < 1) c(d);\n"
    found = {mutant.source(lines).decode().splitlines()[1].strip() for mutant, _ in places("minigrad/tracing/page/x.js", lines)}
    assert found == {"if (!a < 1) c(d);", "if (a <= 1) c(d);", "if (a < 9) c(d);"}


def test_changes_by_hand_have_targets_and_tests():
    wrong = []
    for package in by_hand.TABLES:
        for path, name, target, _ in by_hand.rows(package):
            try:
                if target:
                    eval(target, vars(importlib.import_module(path.removesuffix(".py").replace("/", "."))))
            except (AttributeError, NameError, KeyError, ImportError) as error:
                wrong.append(f"{name}: {error}")
            if not any(ROOT.glob(f"{by_hand.tests(name)[0]}*")):
                wrong.append(f"{name}: no such file")
    assert not wrong, "\n".join(wrong)
