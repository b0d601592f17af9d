"""What is published: the wheel alone, in an empty folder, does all that README shows, and uninstalling it leaves nothing."""
import configparser
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

twine = pytest.importorskip("twine")

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "README.md"
BIN = pathlib.Path(sys.executable).parent
OURS = "minigrad", "models", "nn", "study"

SHOWN = {  # {a command, as a page shows it: the commands that try it, in order}; in the order in which one needs another
    "train --task reverse": ["train --task reverse --steps 10", "train --task reverse --model rnn --steps 10"],
    "train --text book.txt --preset small":
        ["train --preset micro --recipe nanogpt --text book.txt --steps 20 --out RUN", "train --resume --out RUN --steps 30"],
    "train": ["train"],
    "compare RUN...": ["compare RUN runs/nano"],
    "export RUN --to FOLDER": ["export RUN --to FOLDER", "sample --checkpoint FOLDER",
                               "train --init-from FOLDER --text book.txt --steps 10 --out tuned"],
    'sample --prompt "The "': ['sample --prompt "The " --tokens 300 --temperature 0.8 --top-k 20', "sample --checkpoint RUN"],
    "study": ["study", "study --station 1", "study --heads 2", "study --block post",
              'study --checkpoint RUN --text "if the" --layer 1 --head 2'],
    "study --guide": ["study --guide"],
    'look --prompt "The "': ['look --prompt "The "', "look runs/nano"],
    "notes": ["notes --row A5"],
    "exercises": ["exercises", "exercises show gelu", "exercises new cube"],
    "exercises start softmax": ["exercises start softmax"],
    "exercises check softmax.py": ["exercises check softmax.py"],
    "exercises train softmax.py": ["exercises train softmax.py"],
    "exercises grade homework/ --report homework.html": ["exercises grade homework/ --report homework.html"],
    'gradcheck my_ops.py:MyNorm --inputs "x=randn(4,8) weight,bias=randn(8)"':
        ['gradcheck my_ops.py:MyNorm --inputs "x=randn(4,8) weight,bias=randn(8)"',
         "gradcheck my_ops.py:MyNorm --inputs 'x=randn(4,8) weight=randn(8) bias=0'", "gradcheck"],
    "COMMAND --help": ["train --help", "info"],
}
GIVEN = {  # files that the commands read
    "book.txt": "One if the is to be, or it is not. " * 200,
    "my_ops.py": "def MyNorm(x, weight, bias):\n    return x * (x * x).mean(-1, keepdim=True).rsqrt() * weight + bias\n",
    "homework/ada/softmax.py": "def softmax_backward(dout, x):\n    return dout * x\n",
}
ANSWER = """    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dx = p * (dout - (dout * p).sum(-1, keepdims=True))
"""  # in place of softmax's stub


def shown_by(page: pathlib.Path) -> set[str]:
    """The commands in indented lines and in the text, without `minigrad`."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^    (?:.*/bin/)?minigrad (.+?)(?:  +# .*)?$", text, re.MULTILINE)
    return {*lines, *(" ".join(words.split()) for words in re.findall(r"`minigrad ([^`]+)`", text))}


def run(*command: str | pathlib.Path, **options) -> str:
    """What the command prints. AssertionError if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> pathlib.Path:
    """A folder with the archive of the sources and the wheel made from it."""
    copy = tmp_path_factory.mktemp("sources") / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs", "site"))
    run(sys.executable, "-m", "build", copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def minigrad(built, tmp_path_factory) -> Callable[..., str]:
    """Runs a program of a new environment with the wheel alone, in an empty folder and an empty home."""
    environment, folder = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("folder")
    run(sys.executable, "-m", "venv", environment)
    wheel, = built.glob("*.whl")
    run(environment / "bin" / "pip", "install", f"{wheel}[hub,completion]")
    for name, text in GIVEN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "XDG"))}
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
    variables |= {"HOME": str(tmp_path_factory.mktemp("home")), "BROWSER": "true", "MPLBACKEND": "agg"}

    def of_environment(name: str, *arguments: str | pathlib.Path) -> str:
        return run(name, *arguments, cwd=folder, env=variables)

    of_environment.environment, of_environment.folder = environment, folder
    return of_environment


def test_the_files_pass_the_checks_of_package_indexes(built):
    files = sorted(built.iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"]
    run(BIN / "twine", "check", "--strict", *files)
    run(BIN / "check-wheel-contents", "--toplevel", ",".join(OURS), files[0])
    run(BIN / "pyroma", "--min", "10", files[1])


def test_every_command_of_the_page_is_tried():
    assert shown_by(PAGE) == {*SHOWN}


@pytest.mark.parametrize("shown", SHOWN)
def test_the_wheel_alone_runs_the_commands_of_the_page(minigrad, shown):
    for command in SHOWN[shown]:
        minigrad("minigrad", *shlex.split(command))
        if command == "exercises start softmax":
            file = minigrad.folder / "softmax.py"
            solved = re.sub("    \\w+ = np.zeros_like.*\n", ANSWER, file.read_text(encoding="utf-8"))
            file.write_text(solved, encoding="utf-8")


def test_the_commands_have_left_their_files(minigrad):
    assert {"loss.png", "attention.png", "sample.txt"} <= {file.name for file in (minigrad.folder / "runs" / "nano").iterdir()}
    assert {"study.html", "homework.html", "cube_exercise.py"} <= {file.name for file in minigrad.folder.iterdir()}


def test_the_wheel_alone_runs_the_code_of_the_page(minigrad):
    minigrad("python", "-m", "doctest", "-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE", PAGE)


TAB = """
eval "$(register-python-argcomplete minigrad)"
COMP_LINE=$0 COMP_POINT=${#0} COMP_TYPE=9
_python_argcomplete minigrad
echo ${COMPREPLY[@]}
"""


@pytest.mark.parametrize("line, completed", [
    ("minigrad exp", "export"),
    ("minigrad train --preset ", "micro nano small long baby"),
    ("minigrad exercises gra", "grade"),
])
def test_tab_completes_commands_and_flags(minigrad, line, completed):
    assert minigrad("bash", "-c", TAB, line).split() == completed.split()


def test_uninstalling_leaves_nothing(minigrad):
    """Last, after all that the other tests have run: compiled kernels are kept in the user's cache folder alone."""
    name = configparser.ConfigParser()
    name.read(ROOT / "setup.cfg", encoding="utf-8")
    assert any(minigrad.environment.rglob("minigrad"))
    minigrad("pip", "uninstall", "--yes", name["metadata"]["name"])
    left = [path for folder in minigrad.environment.glob("lib/*/site-packages") for path in folder.iterdir()]
    left += (minigrad.environment / "bin").iterdir()
    assert [path for path in left if re.split(r"\W|_", path.name)[0] in OURS] == []
