"""A tiny model that the page trains, with the backward that is chosen there: one head of causal attention, which reads a
word of four letters and a stop, and writes the word from its end.

minigrad traces one example, and the page evaluates the trees of its loss and of its gradients for a batch of words. Both
draw the words by the same rule, so their losses are the same.
"""
from collections.abc import Iterator
from typing import Any

import numpy as np

import minigrad as mg
import nn.functional as F
from minigrad import Tensor
from minigrad.tracing.expressed import Expressed
from study.page.attention import Head, named, projected
from study.page.mistakes import Mistake

STOP_AND_LETTERS = ">abcde"
LETTERS, TOKENS, C, CLASSES = 4, 8, 8, len(STOP_AND_LETTERS)  # in a word; read, of abcd>dcb; wide
BATCH, STEPS, RATE = 16, 200, 0.05  # of Adam
PARAMETERS = {"letters": (CLASSES, C), "places": (TOKENS, C), "w_q": (C, C), "w_k": (C, C), "w_v": (C, C),
              "w_o": (C, CLASSES)}
HEAD = Head({name: np.zeros(shape) for name, shape in {**PARAMETERS, "x": (TOKENS, C)}.items()},
            np.zeros((TOKENS, CLASSES)))
FACTOR, PRIME = 16807, 2**31 - 1  # of the random numbers (Park and Miller, doi:10.1145/63039.63042)


def start(seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters before training."""
    generator = np.random.default_rng(seed)
    return {name: (generator.normal(size=shape) / (C ** 0.5 if name.startswith("w_") else 1)).round(2)
            for name, shape in PARAMETERS.items()}


def words() -> Iterator[list[int]]:
    """Random words without end.

    >>> word = next(words())
    >>> "".join(STOP_AND_LETTERS[letter] for letter in word)
    'cedd'
    """
    state = 1
    while True:
        word = []
        for _ in range(LETTERS):
            state = state * FACTOR % PRIME
            word.append(1 + state % (CLASSES - 1))
        yield word


def example(word: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(TOKENS, CLASSES) each: 1 at what is read, and at what is to follow in the answer."""
    there, back = np.eye(CLASSES)[[*word, 0, *word[:0:-1]]], np.zeros((TOKENS, CLASSES))
    back[LETTERS:] = np.eye(CLASSES)[word[::-1]]
    return there, back


def loss_of(parameters: dict[str, Tensor], read: np.ndarray, expected: np.ndarray) -> Tensor:
    """The mean cross-entropy of the answer's letters; of many examples, (B, TOKENS, CLASSES), too."""
    there = mg.tensor(read)
    x = there @ parameters["letters"] + parameters["places"]
    output = projected(HEAD, parameters, x, HEAD.factor)
    logits, follows = output.reshape(-1, CLASSES), mg.tensor(expected.reshape(-1, CLASSES))
    loss = F.cross_entropy(logits, follows, reduction="none").sum() / expected.sum()
    return loss


def expressions(mistakes: list[Mistake]) -> dict[str, Any]:
    """The trees of an example's loss and gradients, and the backwards of mistakes that can be chosen, for the page."""
    parameters, read = start(), ("there", "follows", "logits", "loss", "scores", "weights")
    tensors = {name: named(name, mg.tensor(array, requires_grad=True)) for name, array in parameters.items()}
    with mg.textbook(), mg.trace() as trace:
        loss_of(tensors, *example(next(words()))).backward()
    others = {mistake.name: mistake.of(HEAD) for mistake in mistakes if mistake.fits(HEAD, trace)}
    made = Expressed(trace.steps, trace.tensors, others)
    return made.table.as_dict({
        "values": {name: made.values[name] for name in (*parameters, *read)},
        "gradients": {name: made.gradients[name] for name in (*parameters, "weights", "masked_scores", "loss")},
        "choices": made.choices, "start": {name: array.ravel().tolist() for name, array in parameters.items()},
        "letters": STOP_AND_LETTERS, "word": LETTERS, "batch": BATCH, "steps": STEPS, "rate": RATE})
