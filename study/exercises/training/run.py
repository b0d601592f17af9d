"""Training the transformer: the loss after each step, and how many words it can reverse in the end."""
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

import minigrad as mg
from nn.optim import Adam
from study.exercises.training.answers import CannotTrain
from study.exercises.training.ops import LIBRARY, Ops
from study.exercises.training.transformer import Transformer, draw_words

STEPS, RATE, BATCH = 200, 3e-3, 16
TESTED = 500  # words


@dataclass
class Run:
    """What came of training."""

    losses: list[float] = field(default_factory=list)  # before each step, on new words
    reversed: float = 0.0  # how many new words it reverses without a mistake, from 0 to 1
    failed: str = ""  # why it could not go on

    @property
    def last(self) -> float:
        """The mean loss of the last tenth of the steps."""
        return float(np.mean(self.losses[-max(len(self.losses) // 10, 1):])) if self.losses else math.nan


def train(ops: Ops, seed: int, preferred: Collection[str] = (), steps: int = STEPS, seconds: float = math.inf,
          show: Callable[[int, float], None] = lambda step, loss: None) -> Run:
    """Train on these ops, for at most this many seconds. The same seed draws the same model and words."""
    generator = np.random.default_rng(seed)
    model = Transformer(ops, generator, preferred)
    optimizer, run, end = Adam(model.parameters.values(), lr=RATE), Run(), time.monotonic() + seconds
    for step in range(steps):
        loss = model.loss(*draw_words(generator, BATCH))
        run.losses.append(loss.item())
        show(step, run.losses[-1])
        if not math.isfinite(run.losses[-1]):
            run.failed = f"the loss is {run.losses[-1]} at step {step}"
            break
        if time.monotonic() > end:
            break
        optimizer.zero_grad()
        try:
            loss.backward()
        except CannotTrain as error:
            run.failed = f"at step {step}, {error}"
            break
        optimizer.step()
    words, answers = draw_words(np.random.default_rng(seed + 1), TESTED)
    with mg.no_grad():
        given = model.logits(words, answers).numpy().argmax(-1).reshape(answers.shape)
    run.reversed = float((given == answers).all(axis=1).mean())
    return run


def ops_used(preferred: Collection[str]) -> set[str]:
    """The ops that the model calls."""
    called = set()

    def recorded(name: str) -> Callable:
        def op(*inputs):
            called.add(name)
            return LIBRARY[name](*inputs)
        return op

    generator = np.random.default_rng(0)
    Transformer({name: recorded(name) for name in LIBRARY}, generator, preferred).loss(*draw_words(generator, 1))
    return called
