"""tests/mutate.py: the mutants it makes of a line, how it draws them, and the tests it picks."""
import ast
import importlib

import pytest

import by_hand
from mutate import ROOT, Mutant, drawn, places, variants
from nearness import Nearness


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


def test_mutants_are_drawn_evenly_and_change_one_place():
    packages = ["nn", "by_hand"]
    mutants = drawn("", packages, 6, seed=0)
    assert [mutant.package for mutant in mutants] == 3 * packages and mutants == drawn("", packages, 6, seed=0)
    for mutant in mutants[::2]:
        original = (ROOT / mutant.path).read_bytes()
        source = mutant.source(original)
        assert source != original and mutant.new in source.decode() and mutant.old in original.decode()
        assert mutant.source(b"# above\n" + original) == b"# above\n" + source
        ast.parse(source)


def test_a_mutant_without_its_place_is_refused():
    with pytest.raises(LookupError, match="no such place"):
        Mutant("nn", "nn/linear.py", "f", "a", "b").source(b"def f(): return a + 1")


def test_the_nearest_tests_mention_the_function(tmp_path):
    for path, text in {
        "nn/clip.py": "def clip(): return _norm()\ndef _norm(): return 1\ndef other(): return 2",
        "tests/helpers.py": "from nn.clip import clip\ndef clipped(): return clip()",
        "tests/test_all.py": "from helpers import clipped\ndef test_far(): other\ndef test_near(): clipped()\ndef test_none(): 1",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert [test for _, test in Nearness(tmp_path, ("nn",)).tests("nn/clip.py", "_norm")] == ["test_near", "test_far"]


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
