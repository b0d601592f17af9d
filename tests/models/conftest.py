"""A small text, and models and runs that take a moment."""
import contextlib
import io
import pathlib
import shutil

import numpy as np
import pytest

import minigrad as mg
from study.command import main
from models import CausalTransformer, Trainer, TrainingConfig, TransformerConfig, load_corpus
from models import run as runs
from models import task, token_file
from refusals import one_line
from small_runs import TEXT
from tables import each


@pytest.fixture(autouse=True)
def own_folder(request, tmp_path, tmp_path_factory, monkeypatch):
    """Each test works in a folder of its own, and keeps tokens in another. To save time, runs draw nothing unless the test asks for `pictures`, and answer few
    examples unless it compares with other processes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(token_file, "cache_folder", lambda: tmp_path_factory.getbasetemp() / f"tokens of {tmp_path.name}")
    if "mpiexec" not in request.fixturenames:
        monkeypatch.setattr(task, "TEST_EXAMPLES", 10)
        if "pictures" not in request.fixturenames:
            monkeypatch.setattr(runs, "draw", lambda trainer, folder: [])


@pytest.fixture
def pictures():
    """See `own_folder`."""


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """4,000 characters of made-up words, the same in every session."""
    generator = np.random.default_rng(0)
    words = ["".join(generator.choice(list("abcdefghij"), size=size)) for size in generator.integers(2, 7, size=50)]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(generator.choice(words, size=1000))[:4000])
    return path


@pytest.fixture
def make_trainer(text_file):
    """A function that makes a seeded trainer from fields of the TrainingConfig, and `dropout`."""
    def make(dropout: float = 0.0, **fields) -> Trainer:
        corpus = load_corpus(str(text_file), context=32)
        training = TrainingConfig(**dict(steps=10, batch_size=8, eval_every=4, eval_windows=4) | fields)
        mg.manual_seed(training.seed)
        config = TransformerConfig(vocabulary_size=len(corpus.tokenizer), context=32, layers=2, heads=2, width=32,
                                   dropout=dropout)
        return Trainer(CausalTransformer(config), corpus, training)

    return make


@pytest.fixture
def refused(run):
    """A function that calls a command with the arguments of each row (arguments, words) and expects one line with its words."""
    def check(rows, *command, codes: tuple[int, ...] = (2,)) -> None:
        each(rows, lambda row: one_line(run(*command, *row[0]), row[1], codes))

    return check


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A function that returns the folder of a run with these flags, trained once a session: do not write to it."""
    folders = {}

    def make(*flags) -> pathlib.Path:
        flags = tuple(map(str, flags))
        if flags not in folders:
            folders[flags] = tmp_path_factory.mktemp("trained") / "run"
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                assert main(["train", *flags, "--out", str(folders[flags])]) == 0
        return folders[flags]

    return make


@pytest.fixture
def here(trained):
    """A function that copies such a run into the test's folder, by default as `here`."""
    def copy(*flags, name: str = "here") -> pathlib.Path:
        shutil.copytree(trained(*flags), name)
        return pathlib.Path(name)

    return copy


@pytest.fixture
def text_run(here, text_file) -> pathlib.Path:
    """A copy of a run on `text_file`, as `here`."""
    return here("--text", text_file, *TEXT)


@pytest.fixture
def small_model():
    """A function that makes a seeded model with a context of 16, given the size of its vocabulary."""
    def make(vocabulary_size: int) -> CausalTransformer:
        mg.manual_seed(0)
        return CausalTransformer(TransformerConfig(vocabulary_size, context=16, layers=1, heads=2, width=16)).eval()

    return make
