"""A small text, and a model and training that take a fraction of a second."""
import numpy as np
import pytest

import minigrad as mg
from minigrad.command import main
from models import CausalTransformer, Trainer, TrainingConfig, TransformerConfig, load_corpus


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
    """A function that makes a seeded trainer; its arguments are fields of the TrainingConfig, and `dropout`."""
    def make(dropout: float = 0.0, **fields) -> Trainer:
        corpus = load_corpus(str(text_file), context=32)
        training = TrainingConfig(**dict(steps=10, batch_size=8, eval_every=4, eval_windows=4) | fields)
        mg.manual_seed(training.seed)
        config = TransformerConfig(vocabulary_size=len(corpus.tokenizer), context=32, layers=2, heads=2, width=32,
                                   dropout=dropout)
        return Trainer(CausalTransformer(config), corpus, training)

    return make


@pytest.fixture
def run(capsys):
    """A function that calls the command in this process, and returns its exit code, stdout and stderr."""
    def call(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def small_model():
    """A function that makes a seeded model of so many tokens, with a context of 16."""
    def make(vocabulary_size: int) -> CausalTransformer:
        mg.manual_seed(0)
        return CausalTransformer(TransformerConfig(vocabulary_size, context=16, layers=1, heads=2, width=16)).eval()

    return make
