"""Each example runs with few steps, and its figures are right."""
import functools
import importlib
import pathlib
import re

import numpy as np
import pytest

from ranks import started

FOLDER = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    """A function that imports an example by name, as if it were run in its folder."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def falls_below(share, losses):
    """Is the mean of the last five losses below this share of the first?"""
    return np.mean(losses[-5:]) < share * losses[0]


RUNS = {  # example: (arguments of main, whether its result is right, part of what it prints)
    "mlp": (dict(samples=1200, epochs=12), lambda accuracy: accuracy > 0.7, "read as ["),
    "vae": (dict(steps=100), functools.partial(falls_below, 0.5), "drawn from random numbers"),
    "char_rnn": (dict(steps=60), functools.partial(falls_below, 0.8), "invented:"),
    "vit": (dict(steps=130), lambda accuracy: accuracy > 0.5, "read as ["),
    "data_parallel": (dict(steps=60), functools.partial(falls_below, 0.95), "64 on rank 0"),
    "custom_function": (dict(), lambda verdicts: all(pair == ["pass", "fail"] for pair in verdicts.values()),
                        "diagnosis: this is swiglu: gate * s * (1 - s) is missing"),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(example, capsys, name):
    arguments, is_right, printed = RUNS[name]
    result = example(name).main(**arguments)
    assert is_right(result), result
    assert printed in capsys.readouterr().out


def test_the_mlp_runs_in_pytorch_with_the_imports_that_its_comments_name(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(FOLDER)
    source, changed = re.subn(r"^(?:import|from) .*?(import .*)?  # (.*?)(import \.\.\.)?$",
                              lambda found: found[2] + (found[1] if found[3] else ""),
                              (FOLDER / "mlp.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    namespace = {"__name__": "mlp_in_pytorch"}
    exec(compile(source, "mlp.py", "exec"), namespace)
    assert changed == 3 and namespace["torch"].__name__ == "torch"
    arguments, is_right, _ = RUNS["mlp"]
    assert is_right(namespace["main"](**arguments))


def test_the_custom_function_is_checked_in_pytorch_too(example):
    pytest.importorskip("torch")
    assert example("custom_function").main()["PyTorch"] == ["pass", "fail"]


def test_a_folder_is_fine_tuned_and_written(example, tmp_path, capsys):
    pytest.importorskip("safetensors")
    finetune = example("finetune")
    finetune.make_folder(tmp_path / "made", steps=2)
    losses = finetune.main(tmp_path / "made", tmp_path / "tuned", steps=15)
    assert falls_below(0.8, losses) and "after:\nBeautiful is " in capsys.readouterr().out
    again = finetune.main(tmp_path / "tuned", steps=1)
    assert again[0] < losses[-1] + 0.2  # it begins where the other ended


def test_two_ranks_have_the_losses_of_one(mpiexec, example):
    process = started(mpiexec, 2, FOLDER / "data_parallel.py")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    shown = [float(loss) for loss in re.findall(r"loss (\S+) over 64 digits, 32 on rank 0", out)]
    assert shown == pytest.approx(example("data_parallel").main()[::50], abs=2e-5)


def test_every_example_is_run_and_has_its_line():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"digits"}
    assert files == {*RUNS, "finetune"}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(files) if f"]({name}.py)" not in readme] == []
