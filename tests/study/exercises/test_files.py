"""An answer in a file is read, run in its own process and judged; a teacher's test is three lines."""
import os
import subprocess
import sys
import textwrap

import pytest
from student_answers import NO_SUM, SOFTMAX

from study.exercises import COURSE, check, check_file
from study.exercises.sandbox import Limits

TEST = """
    from study.exercises import check_file
    def test_softmax():
        assert check_file("softmax.py")
"""


@pytest.fixture
def write(tmp_path):
    def call(name: str, content: str) -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(content), encoding="utf-8")
        return str(path)
    return call


@pytest.mark.parametrize("content, verdict, says", [
    (SOFTMAX, "right", "right on all"),
    (NO_SUM, "wrong", "the sum over the row is missing"),
    ("def softmax_backward(dout, x:", "error", "softmax.py is not Python"),
    ("", "error", "softmax.py is empty"),
    ("def softmax(x): return x", "error", "softmax.py defines no softmax_backward(dout, x)"),
    ("def softmax_backward(x): return x", "error", "takes 1 argument (x), but is called as softmax_backward(dout, x)"),
    ("def softmax_backward(dout, x): raise KeyError('oh')", "error", "KeyError"),
    ("import nonsense", "error", "softmax.py defines no softmax_backward"),
    ("import time\ndef softmax_backward(dout, x): time.sleep(100)", "timeout", "1 second"),
])
def test_every_file_has_a_verdict(write, content, verdict, says):
    report = check_file(write("softmax.py", content), COURSE["softmax"], 0, Limits(call_seconds=1.0) if verdict == "timeout" else Limits())
    assert report.verdict == verdict and says in report.sentence
    assert bool(report) == (verdict == "right")


def test_the_exercise_is_found_by_its_function(write):
    assert check_file(write("homework.py", SOFTMAX)).exercise is COURSE["softmax"]
    with pytest.raises(ValueError, match="homework.py defines softmax_backwards: did you mean softmax_backward"):
        check_file(write("homework.py", SOFTMAX.replace("_backward", "_backwards")))
    with pytest.raises(ValueError, match="does not exist"):
        check_file("nowhere/homework.py")
    missing = check_file("nowhere/softmax.py")
    assert missing.verdict == "error" and "does not exist" in missing.sentence


def test_the_same_seed_draws_the_same_inputs(write):
    path = write("softmax.py", NO_SUM)
    first, again, other = (repr(check_file(path, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.long
def test_a_teachers_test_is_three_lines(write, tmp_path):
    write("softmax.py", NO_SUM)
    write("test_homework.py", TEST)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    process = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path, env=environment,
                             capture_output=True, text=True, check=False)
    assert process.returncode == 1 and "the sum over the row is missing" in process.stdout


def test_an_exercise_can_be_a_name_a_file_or_an_object(write):
    own = write("double_exercise.py", """
        statement = "Twice x. Find dx."
        shapes = {"x": "M N"}
        def forward(x): return 2 * x
    """)
    answer = write("answer.py", "def double_backward(dout, x): return 2 * dout")
    assert check_file(answer, own) and check(lambda dout, x: 2 * dout, own) and not check(lambda dout, x: dout, own)
    path = write("homework.py", SOFTMAX)
    assert check_file(path, "softmax") and check_file(path, COURSE["softmax"])
    with pytest.raises(TypeError, match=r"takes a function, such as softmax_backward, got 'softmax'"):
        check("softmax", "softmax")
