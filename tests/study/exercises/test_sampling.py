"""`minigrad exercises sample`: a trained model writes with a student's probabilities of the next token."""
import pathlib

import pytest
from small_runs import COPY

import models
from minigrad.command import main
from models.generate import generate
from study.exercises.course import COURSE

RIGHT = f"import numpy as np\n{COURSE['next_token'].source}"
LIKELIEST = RIGHT.replace("return kept / kept.sum()", "return 1.0 * (p == p.max())")
PROMPT = "--prompt", "module "


@pytest.fixture
def run(exercises, in_this_process):
    """A function that writes an answer and samples with it."""
    def call(answer: str, *flags: object) -> tuple[int, str, str]:
        pathlib.Path("next_token.py").write_text(answer)
        return exercises("sample", "next_token.py", *flags)

    return call


def test_the_starter_writes_with_an_answer_and_draws_as_it_says(run):
    code, out, err = run(RIGHT, *PROMPT, "--tokens", 30, "--seed", 3)
    assert code == 0 and err.startswith("starter, the small model that comes with minigrad (`minigrad train` makes your own):\n")  # kernels may compile
    verdict, _, text = out.partition("\n")
    assert verdict == "next_token: right" and text.startswith("module ") and len(text) == len("module ") + 30 + 1
    assert run(RIGHT, *PROMPT, "--tokens", 30, "--seed", 4)[1] != out


def test_a_wrong_answer_writes_too(run):
    code, out, _ = run(LIKELIEST, *PROMPT, "--tokens", 30)
    verdict, says, text = out.split("\n", 2)
    assert code == 1 and "only the likeliest token is kept" in verdict and "used all the same" in says
    assert text == models.respond(models.load("starter"), "module ", tokens=30, temperature=0) + "\n"


def test_generate_takes_another_way_to_choose():
    model, given = models.load("starter"), []

    def choose(logits):
        given.append(logits.shape)
        return logits.argmin(axis=-1)

    tokens = list(generate(model, [5, 6], 3, vocabulary=90, choose=choose))
    assert given == [(1, 90)] * 3 and all(token < 90 for token in tokens)
    assert tokens != list(generate(model, [5, 6], 3, temperature=0))


@pytest.mark.parametrize("returned, says", [
    ("p[1:]", "expected as many numbers"), ("-p", "expected as many"), ("0 * p", "not all 0"), ("p * np.nan", "expected"),
    ("None", "no probabilities"), ("p if len(p) < 50 else 1 / p[[0]][1]", "next_token: IndexError: index 1 is out of bounds"),
])
def test_what_are_no_probabilities_ends_the_text(run, returned, says):
    code, _, err = run(RIGHT.replace("kept / kept.sum()", returned), *PROMPT)
    assert code == 1 and says in err and "Traceback" not in err


@pytest.mark.parametrize("flags, says", [
    (("--temperature", 0), "expected --temperature above 0"), (("--top-p", 1.1), "--top-p above 0 and at most 1"),
    (("--seed", -1), "--seed from 0"), (("--checkpoint", "nowhere"), "nowhere"), (("--prompt", "é"), "'é'"),
])
def test_what_it_refuses(run, flags, says):
    code, _, err = run(RIGHT, *flags)
    assert code in (1, 2) and says in err and "Traceback" not in err


def test_an_answer_that_cannot_run_writes_nothing(run):
    code, out, _ = run("def other(x): return x\n")
    assert code == 1 and out.startswith("next_token: error: ") and out.count("\n") == 1


def test_it_refuses_a_model_that_learnt_a_task(run):
    assert main([str(flag) for flag in ("train", *COPY, "--out", "copied")]) == 0
    code, _, err = run(RIGHT, "--checkpoint", "copied")
    assert code == 2 and err.endswith("was trained on task 'copy'; give a run that was trained on a text\n")
