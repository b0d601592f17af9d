"""What a submission may do to its process: each deed gets its own answer, and leaves nothing behind."""
import io
import json
import os
import textwrap
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tables import each

from study.exercises import sandbox
from study.exercises.answer import Answer, Direct
from study.exercises.sandbox import Limits, Sandbox
from study.exercises.submission import Source, source_of_notebook, source_of_text
from study.exercises.worker import wire

DOUT, X = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12.0).reshape(2, 3)
PATIENT = Limits(start_seconds=100, load_seconds=100, call_seconds=100, total_seconds=100, megabytes=1024)  # busy machines
HURRIED = replace(PATIENT, load_seconds=1.5, call_seconds=0.5)


def source(body: str, top: str = "", name: str = "mine.py") -> Source:
    """A file with a function f(dout, x)."""
    return source_of_text(name, f"import os, sys\nimport numpy as np\n{top}\ndef f(dout, x):\n{textwrap.indent(body, '    ')}\n")


def answers(body: str, top: str = "", limits: Limits = PATIENT, calls: int = 1, arguments: list | None = None) -> list[Answer]:
    """Answers to this many calls. Afterwards its process, process group and folder are gone."""
    with Sandbox(source(body, top), "f", limits) as caller:
        found = [caller.call([DOUT, X] if arguments is None else arguments) for _ in range(calls)]
    with pytest.raises(ProcessLookupError):
        os.killpg(caller.process.pid, 0)
    assert not os.path.exists(caller.folder)
    return found


def answer(body: str, top: str = "", limits: Limits = PATIENT, arguments: list | None = None) -> Answer:
    return answers(body, top, limits, 1, arguments)[0]


@dataclass(frozen=True)
class Deed:
    """A function's body that does something to its process."""

    body: str
    kind: str  # of the answer
    words: str = ""  # in its message
    top: str = ""  # before the function
    limits: Limits = PATIENT
    right: bool = False  # it returns dout * x all the same


def message(header: bytes, body: bytes = b"", length: int | None = None) -> bytes:
    content = header + b"\n" + body
    return wire.LENGTH.pack(len(content) if length is None else length) + content


FORGED = {
    "no message": b"right" * 10,
    "1e18 bytes": message(b"", length=10**18),
    "no JSON": message(b"{]"),
    "no text": message(b"\xff\xfe"),
    "no tree": message(b'{"kind": "returned"}'),
    "1e15 elements": message(b'{"tree": {"array": ["<f8", [1000000000000000]]}}'),
    "elements that did not come": message(b'{"tree": {"array": ["<f8", [3]]}}', bytes(16)),
    "objects": message(b'{"tree": {"array": ["|O", [1]]}}', bytes(8)),
    "no dtype": message(b'{"tree": {"array": [3, [1]]}}', bytes(8)),
    "a function of its own": message(b'{"tree": {"function": 0}}'),
    "a call of no function": message(b'{"kind": "callback", "function": 7, "tree": {"tuple": []}}'),
    "no results": message(b'{"kind": "returned", "container": "tuple", "given": [], "tree": null}'),
}
HALF = message(b'{"tree": {"array": ["<f8", [3]]}}', bytes(24))[:-8]
LOOK_AROUND = """
assert 'SECRET' not in os.environ and os.listdir() == [] and os.getcwd() == os.environ['HOME']
assert os.getsid(0) != os.getsid(os.getppid()) and sys.stdin.read() == ''
assert not {'minigrad', 'numba', 'study'} & {name.partition('.')[0] for name in sys.modules}
return dout * x"""


def write_to_pipe(data: bytes) -> str:
    return f"import __main__\nos.write(__main__.PIPE, {data!r})\n"


DEEDS = {
    # It does not end.
    "loops": Deed("while True: pass", "timeout", "takes more than 0.5 seconds", limits=HURRIED),
    "loops while it is read": Deed("return x", "timeout", "the file runs for more than 1.5 seconds", top="while True: pass", limits=HURRIED),
    "ignores signals": Deed("import signal\nfor s in (1, 2, 3, 15, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: pass", "timeout", limits=HURRIED),
    "hangs in its message": Deed("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", "timeout", limits=HURRIED),
    "leaves the processor no time": Deed("import signal; signal.signal(24, signal.SIG_IGN)\nwhile True: pass", "died", "killed", limits=replace(PATIENT, processor_seconds=1)),
    "computes too long": Deed("while True: pass", "timeout", "uses more than 1 seconds of CPU time", limits=replace(PATIENT, processor_seconds=1)),
    # It takes much.
    "takes 10 GB": Deed("return np.empty((10, 2**27))", "raised", "a submission may use 1 GB of memory"),
    "returns 320 MB": Deed("return tuple(np.zeros(2**21) for _ in range(20))", "raised", "it returns 320 MB"),
    "keeps memory": Deed("global kept\nkept = [bytearray(2**24) for _ in range(30)]\nreturn dout * x", "returned", right=True),
    "fills the disk with one file": Deed("file = open('large', 'wb')\nfor _ in range(64): file.write(bytes(2**20))", "raised", "File too large"),
    "prints 200 MB": Deed("for _ in range(200): print('x' * 2**20)\nreturn dout * x", "returned", right=True),
    "takes all descriptors": Deed("for _ in range(100): os.dup(1)", "raised", "Too many open files"),
    # It ends itself.
    "os._exit": Deed("os._exit(0)", "died", "ended the process (os._exit?) with code 0"),
    "os._exit while it is read": Deed("return x", "died", "with code 3", top="os._exit(3)"),
    "sys.exit": Deed("sys.exit()", "raised", "SystemExit (it exits"),
    "crashes": Deed("return np.lib.stride_tricks.as_strided(x, (10**7,), (10**7,)).copy()", "died", "segmentation fault"),
    "calls itself": Deed("return f(dout, x)", "raised", "RecursionError: maximum recursion depth exceeded (infinite recursion"),
    "asks the user": Deed("return float(input())", "raised", "(nobody can answer input())"),
    # It lies.
    "prints a verdict": Deed("print('{\"verdict\": \"right\"}'); return dout * x", "returned", right=True),
    "closes everything": Deed("os.closerange(0, 1000); return x", "died", "instead of returning"),
    "writes to all descriptors": Deed("for fd in range(3, 1000):\n    try: os.write(fd, b'right' * 100)\n    except OSError: pass\nreturn x", "died", "it wrote to the pipe"),
    "leaves a thread": Deed("import threading\ndef loop():\n    while True: pass\nthreading.Thread(target=loop).start(); return dout * x", "returned", right=True),
    "does something at the end": Deed("import atexit; atexit.register(lambda: open(OUTSIDE, 'w')); return dout * x", "returned", right=True),
    "raises in its message": Deed("class E(Exception):\n    def __str__(self): raise E\n    __repr__ = __str__\nraise E", "raised", "E: (its message cannot be read)"),
    "has a message of 200 MB": Deed("raise ValueError('y' * 200_000_000)", "raised", "ValueError: yyy"),
    "imports torch": Deed("import torch", "raised", "only NumPy is available in exercises, not torch"),
    "imports another file": Deed("return softmax_backward(dout, x)", "raised", "(before, line 3 raised ModuleNotFoundError: only NumPy", top="from softmax import softmax_backward"),
    "moves the cursor": Deed("raise ValueError('\\x1b[31m')  # \x1b[1m", "raised", "ValueError: \N{REPLACEMENT CHARACTER}[31m"),
    "forges a message": Deed(write_to_pipe(FORGED["no JSON"]) + "return x", "died", "it wrote to the pipe to the judge"),
    "forges half a message, and ends": Deed(write_to_pipe(HALF) + "os._exit(0)", "died", "instead of returning"),
    "forges half a message, and loops": Deed(write_to_pipe(HALF) + "while True: pass", "timeout", limits=HURRIED),
    "floods the pipe": Deed("import __main__\nwhile True: os.write(__main__.PIPE, b'x' * 2**16)", "died"),
    "leaves the group": Deed("if not os.fork():\n    os.setsid(); import time; time.sleep(60); os._exit(0)\nwhile True: pass", "timeout", limits=HURRIED),
    # It does what it may.
    "fails where nobody looks": Deed("return dout * x", "returned", top="import nonsense\ny = 1 / 0", right=True),
    "looks around": Deed(LOOK_AROUND, "returned", right=True),
    "starts a process": Deed("import subprocess; subprocess.run(['true']); return dout * x", "returned", right=True),
    "writes into its folder": Deed("open('a', 'w').write('b'); assert os.listdir() == ['a'] and open('a').read() == 'b'; os.remove('a'); return dout * x", "returned", right=True),
    "deletes its home": Deed("import shutil; shutil.rmtree(os.path.expanduser('~'), ignore_errors=True); return dout * x", "returned", right=True),
    "leaves a locked folder": Deed("os.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a/b', 0); os.chmod('a', 0); os.chmod('.', 0o500); return dout * x", "returned", right=True),
    "uses the library": Deed("import collections, dataclasses, decimal, fractions, logging, platform, random, statistics, typing, unittest\nreturn dout * x", "returned", right=True),
}


SHORT = (  # run each time: one of each kind
    "loops", "loops while it is read", "takes 10 GB", "fills the disk with one file", "os._exit while it is read", "sys.exit", "crashes",
    "closes everything", "leaves a thread", "moves the cursor", "looks around", "forges half a message, and ends",
    "forges a message", "floods the pipe", "leaves the group", "raises in its message", "imports another file", "deletes its home", "leaves a locked folder",
)


@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in DEEDS])
def test_each_deed_gets_its_answer_and_leaves_nothing_behind(name, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    deed, start = DEEDS[name], time.monotonic()
    found = answer(deed.body, deed.top, deed.limits)
    assert found.kind == deed.kind and deed.words in found.message, found
    assert "\x1b" not in found.message + found.code and time.monotonic() - start < 50
    assert not deed.right or np.array_equal(found.results[0], DOUT * X)


def test_scipy_may_be_used():
    pytest.importorskip("scipy")
    assert np.isclose(answer("from scipy.special import erf; return erf(1.0)").results[0], 0.8427007929497149)


def test_after_the_process_has_ended_every_call_gets_the_same_answer():
    first, second = answers("os._exit(1)", calls=2)
    assert first is second and first.kind == "died"


def test_calls_share_a_time_limit():
    hurried = replace(HURRIED, call_seconds=100, total_seconds=2)
    found = answers("import time; time.sleep(0.8); return x", limits=hurried, calls=4)
    assert (found[0].kind, found[3].kind) == ("returned", "timeout")
    assert found[3].message.startswith("after all others, a call takes more than")


# Results

RETURNED = {  # expression: (container, what each result is)
    "x * 2": ("array", ("an array",)),
    "x.sum()": ("array", ("a number",)),
    "3": ("array", ("a number",)),
    "True": ("array", ("a number",)),
    "(x, 2.5)": ("tuple", ("an array", "a number")),
    "[x, x]": ("list", ("an array", "an array")),
    "x.tolist()": ("list", ("a list", "a list")),
    "(x.tolist(), x)": ("tuple", ("a list", "an array")),
    "((1.0, 2.0), x)": ("tuple", ("a tuple", "an array")),
    "(x, None)": ("tuple", ("an array", "None")),
    "()": ("tuple", ()),
    "None": ("NoneType", ()),
    "'right'": ("str", ()),
    "{'dx': x}": ("dict", ()),
    "(row for row in x)": ("generator", ()),
    "print": ("builtin_function_or_method", ()),
    "x.view(np.matrix)": ("array", ("a matrix",)),
    "np.ma.array(x)": ("array", ("a masked array",)),
    "x.astype(object)": ("array", ("an array of objects",)),
    "x.astype(str)": ("array", ("an array of str1024",)),
    "x + 1j": ("array", ("an array",)),
    "x.astype(np.float16)": ("array", ("an array",)),
    "x.T": ("array", ("an array",)),
    "np.zeros((0, 3))": ("array", ("an array",)),
    "(10**400, x)": ("tuple", ("a number too large for float64", "an array")),
    "([1.0, [2.0]], x)": ("tuple", ("a list", "an array")),
    "([[1.0, 2.0], [3.0]], x)": ("tuple", ("a list", "an array")),
    "(['a'], x)": ("tuple", ("a list", "an array")),
    "np.broadcast_to(1.0, (10**6, 10**6))": ("array", ("an array of shape (1000000, 1000000), which is too large",)),
}
NO_ARRAY = ("None", "an array of objects", "an array of str1024", "a number too large for float64", "too large")


def test_results_are_described_as_in_this_process():
    def is_told(expression, row):
        container, given = row
        right = eval(expression, {"x": X, "np": np, "print": print})
        for found in (caller.call([expression, X]), Direct(lambda dout, x: right).call([DOUT, X])):
            assert (found.kind, found.container, found.given) == ("returned", container, given)
            items = right if isinstance(right, (tuple, list)) else [right]
            for result, item, words in zip(found.results, items, given):
                if words.endswith(NO_ARRAY) or repr(item) in ("[1.0, [2.0]]", "[[1.0, 2.0], [3.0]]", "['a']"):
                    assert result is None
                else:
                    assert type(result) is np.ndarray and result.dtype == np.asarray(item).dtype
                    assert result.shape == np.shape(item) and np.array_equal(result, np.asarray(item))

    with Sandbox(source("return eval(dout)"), "f", PATIENT) as caller:
        each(RETURNED, is_told)


# Arguments

def test_arguments_are_copies_and_writes_to_them_are_reported():
    x = X.copy()
    found = answer("x[0] = 7; return x", arguments=[DOUT, x])
    assert np.array_equal(x, X) and np.array_equal(found.inputs_after[0], DOUT)
    assert np.array_equal(found.inputs_after[1], [[7, 7, 7], X[1]])


ARGUMENTS = [
    X, X.T, X[:, ::-1], X.astype("f4"), np.zeros((0, 2)), np.array(3.0), np.array([True]), np.arange(3, dtype=">i2"),
    np.float32(1.5), np.int64(3), 3, 2.5, float("inf"), True, None, "mean", [X, X[0]], (1, 2),
    [X, [X[0], (2, 3.5)], None, "a", True], (),
]


def test_arguments_arrive_unchanged():
    with Sandbox(source("seen.append((x, type(x).__name__)); return dout", "seen = []"), "f", PATIENT) as caller:
        after = [caller.call([DOUT, value]).inputs_after[1] for value in ARGUMENTS]
        assert list(map(repr, after)) == list(map(repr, ARGUMENTS))
        with pytest.raises(TypeError, match="set is not"):  # the judge's mistake
            caller.call([DOUT, {1, 2}])


def test_one_process_serves_all_calls():
    assert [a.results[0] for a in answers("seen.append(1); return len(seen)", "seen = []", calls=3)] == [1, 2, 3]


def gradient(x):
    return 2 * x


def square_and_its_backward(x):
    return x * x, lambda dout: 2 * x * dout


def test_functions_of_the_judge_run_here():
    found = answer("step = 1e-3\nreturn (x(dout + step) - x(dout - step)) / (2 * step)", arguments=[DOUT, gradient])
    assert np.allclose(found.results[0], 2)
    found = answer("out, backward = x(dout)\nreturn out, backward(np.ones((2, 3)))", arguments=[DOUT, square_and_its_backward])
    assert np.array_equal(found.results[0], DOUT**2) and np.array_equal(found.results[1], 2 * DOUT)


def test_a_wrong_call_of_the_judges_function_raises_in_that_line_and_calls_are_counted():
    rows = {
        "x(dout, dout)": "positional argument", "x(np.zeros(2**24))": "128 MB", "x(print)": "unsupported operand",
    }

    def raises(call, words):
        found = caller.call([call, gradient])
        assert found.kind == "raised" and words in found.message and found.line == 5

    with Sandbox(source("return eval(dout)"), "f", replace(PATIENT, callbacks=10)) as caller:
        each(rows, raises)
        found = caller.call(["sum(map(x, [np.ones(2)] * 99))", gradient])
    assert found.kind == "timeout" and found.message == "it calls the functions that it is given more than 10 times"


def test_threads_may_call_a_function_of_the_judge():
    body = ("from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(4) as pool: found = list(pool.map(lambda k: x(dout + k), range(50)))\n"
            "return np.stack(found)")
    assert np.array_equal(answer(body, arguments=[DOUT, gradient]).results[0], np.stack([2 * (DOUT + k) for k in range(50)]))


# Messages

def test_an_error_names_the_students_line():
    found = answer("y = x\nreturn np.linalg.inv(y)")
    assert (found.kind, found.line, found.place, found.code) == ("raised", 6, "line 6", "return np.linalg.inv(y)")
    assert found.message.startswith("LinAlgError: ") and found.where == " (line 6: `return np.linalg.inv(y)`)"
    assert answer("def inner(y):\n    return np.linalg.inv(y)\nreturn inner(x)").line == 6  # the innermost of several


def test_a_function_that_is_gone_after_loading():
    for text, words in {"def f(): ...\ndel f": "the file defines no f",
                        "f = [1]": "f is not a function, but of type list"}.items():
        with Sandbox(source_of_text("a.py", text), "f", PATIENT) as caller:
            found = caller.call([])
        assert (found.kind, found.message) == ("raised", words)


def notebook(*cells: str) -> Source:
    return source_of_notebook("mine.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": c} for c in cells]}).encode())


def test_a_notebook_runs_even_if_parts_of_it_fail_and_its_errors_name_the_cell():
    """Torch for comparison, a plot, missing data: none of it is the answer."""
    cells = notebook("import torch\nimport numpy as np", "%matplotlib inline\nimport matplotlib.pyplot as plt",
                     "def f(dout, x):\n    return dout * np.sin(x) if dout.ndim else\\\n     weights", "plt.plot(f(1, np.arange(3)))",
                     "open('data.csv').read()\nassert torch.allclose(1)")
    with Sandbox(cells, "f", PATIENT) as caller:
        assert np.array_equal(caller.call([DOUT, X]).results[0], DOUT * np.sin(X))
        found = caller.call([np.array(1.0), X])
    assert found.place == "code cell 3, line 3"
    assert found.message.startswith("NameError: name 'weights' is not defined (before, code cell 1, line 1 raised ModuleNotFoundError: ")


# Forged messages

def test_a_forged_message_is_no_answer():
    def is_none(name, data):
        with pytest.raises(Exception):  # noqa: B017  of any kind
            header, tree = wire.receive(io.BytesIO(data))
            header["kind"], [{}][header["function"]], tree[1]

    each(FORGED, is_none)


# Surroundings

def test_two_processes_do_not_see_each_other():
    with Sandbox(source("open('a', 'w'); return x"), "f", PATIENT) as one, Sandbox(source("return len(os.listdir())"), "f", PATIENT) as two:
        one.call([DOUT, X])
        assert two.call([DOUT, X]).results[0] == 0 and one.folder != two.folder


def test_random_numbers_are_seeded():
    one, other = (answer("import random; return [np.random.normal(), random.random(), float(hash('a'))]").results for _ in range(2))
    assert list(map(float, one)) == list(map(float, other))


def test_a_process_that_cannot_start_is_not_the_students_fault(monkeypatch, tmp_path):
    (tmp_path / "__main__.py").write_text("raise SystemError('broken')")
    for owner, name, value, says in [(sandbox, "WORKER", tmp_path, "no process can be started for the submission"),
                                     (sandbox.os, "name", "nt", "use WSL")]:
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match=says):
            patch.setattr(owner, name, value)
            Sandbox(source("return x"), "f", PATIENT).__enter__()


def test_processes_that_it_started_end_with_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    opened = threading.Thread(target=lambda: (tmp_path / "pipe").read_bytes())  # until the last that writes to it has ended
    opened.start()
    body = f"held = open({str(tmp_path / 'pipe')!r}, 'w')\nif not os.fork():\n    while True: pass\nreturn dout * x"
    with Sandbox(source(body), "f", PATIENT) as caller:
        assert caller.call([DOUT, X]).kind == "returned"
    opened.join(60)
    assert not opened.is_alive()
