"""A task with a known answer: its examples, and what a model makes of them.

A task of kind "sequence" has sources (B, S) and targets (B, T) of token ids, padded with PAD; a task of kind "class" has
inputs and labels (B,). All examples of a batch have the same `length`, which sets their difficulty. A part of the examples,
known by a hash, is held out of training: what a model makes of them is no memory.
"""
import dataclasses
import hashlib
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import minigrad as mg
import nn
from models.attention_maps import attention_maps, has_attention
from models.data import IGNORED, mean_loss
from models.distributed import ALONE, Alone
from models.encoder_decoder import PAD, START, STOP, looks_at_source
from models.pictures import PICTURE, LabelledMap, draw_maps, labelled
from models.training_config import TrainingConfig
from models.config import TransformerConfig
from models.translate import greedy

FIRST = 3  # the token id of a task's first symbol, after PAD, START and STOP
DEFAULTS = dict(batch_size=64, lr=2e-3, final_lr=0.0, beta2=0.98, weight_decay=0.01, decay_all=True, seed=0)  # of training
HELD_OUT = 8  # one source in so many is not for training
MOST_DRAWS = 2000  # for the rarest examples of a task, of which one in 16 is held out
TEST_EXAMPLES, TEST_SEED = 200, 1_000_000  # per length, for the accuracy
EXAMPLES, EXAMPLES_SEED = 3, 2_000_000  # shown at the end
ALIGNMENT = "alignment.png"  # shows which symbol of the source each symbol of the answer comes from
Examples = tuple[np.ndarray, np.ndarray]  # sources and targets
Make = Callable[[np.random.Generator, int, int], Examples]


@dataclasses.dataclass(frozen=True)
class Task:
    """Something to learn, with what a Trainer needs of it.

    >>> from models.tasks import TASKS
    >>> task = TASKS["reverse"]
    >>> source, target = task.make(np.random.default_rng(0), 1, 4)
    >>> task.decode(source[0]), task.decode(target[0])
    ('i g f c', 'c f g i')
    """

    name: str
    description: str
    symbols: tuple[str, ...]  # of the tokens from FIRST on; if empty, sources are images
    make: Make  # (generator, count, length) -> examples
    lengths: tuple[int, int]  # the shortest and the longest in training
    classes: tuple[str, ...] = ()  # of a task of kind "class"
    pooling: str = "mean"  # the input of a classifier's head: the mean over the tokens, or the last one
    positions: str = "learned"  # with which a transformer can learn it
    steps: int = 1500  # more than a small transformer needs

    @property
    def kind(self) -> str:
        """Is the answer a "class" or a "sequence"?"""
        return "class" if self.classes else "sequence"

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids."""
        return FIRST + len(self.symbols)

    @property
    def ignored(self) -> int:
        """A target that does not count."""
        return IGNORED if self.classes else PAD

    @property
    def config(self) -> TransformerConfig:
        """The config of a small model that learns it."""
        return TransformerConfig(vocabulary_size=self.vocabulary_size, context=32, layers=2, heads=4, width=64,
                                 positions=self.positions)

    @property
    def defaults(self) -> dict[str, Any]:
        """The fields of a TrainingConfig."""
        return DEFAULTS | {"steps": self.steps}

    # ---- text ----

    def encode(self, text: str) -> np.ndarray:
        """The token ids of a source; blanks between one-character symbols are optional. ValueError names unknown ones."""
        if not self.symbols:
            raise ValueError(f"the sources of task {self.name!r} are images, not text")
        symbols = text.split() if max(map(len, self.symbols)) > 1 else list("".join(text.split()))
        unknown = [symbol for symbol in symbols if symbol not in self.symbols]
        if unknown or not symbols:
            raise ValueError(f"expected symbols of task {self.name!r}, which are {' '.join(self.symbols)}; got "
                             f"{' '.join(map(repr, dict.fromkeys(unknown))) or 'none'}")
        return np.array([FIRST + self.symbols.index(symbol) for symbol in symbols])

    def decode(self, ids: np.ndarray) -> str:
        """The symbols of token ids, up to the first STOP, without padding; IndexError if an id is out of range."""
        known: list[int] = list(map(int, ids))
        if unknown := [i for i in known if not 0 <= i < self.vocabulary_size]:
            raise IndexError(f"task {self.name!r} has no token id {unknown[0]}, expected 0 to {self.vocabulary_size - 1}")
        known = known[: known.index(STOP)] if STOP in known else known
        return " ".join(self.symbols[i - FIRST] for i in known if i >= FIRST)

    def respond(self, model: nn.Module, prompt: str | None = None, **sampling: Any) -> Iterator[str]:
        """The model's answer to a source."""
        if sampling:
            raise ValueError(f"{next(iter(sampling))} makes no sense with task {self.name!r}: its answer is the likeliest")
        return iter([self.say(self._answer_to(model, self.encode(prompt or "")[None])[0])])

    def say(self, answer: np.ndarray) -> str:
        """An answer or a target in words."""
        return self.classes[answer] if self.classes else self.decode(answer)

    # ---- training ----

    def batch(self, generator: np.random.Generator, size: int, context: int) -> tuple[np.ndarray, ...]:
        """The next arguments of the model, with the targets last; all examples have one length."""
        length = int(generator.integers(self.lengths[0], self.lengths[1] + 1))
        return self.arguments(self.draw(generator, size, length, is_new=False))

    def draw(self, generator: np.random.Generator, count: int, length: int, is_new: bool) -> Examples:
        """Examples that are new, as they are held out of training, or that are not. ValueError if there are none."""
        if not self.lengths[0] <= length <= self.lengths[1]:
            return self.make(generator, count, length)  # all are new
        found: list[Examples] = []
        missing = count
        for _ in range(MOST_DRAWS):
            examples = self.make(generator, missing, length)
            kept = is_held_out(examples[0]) == is_new
            found.append((examples[0][kept], examples[1][kept]))
            missing -= int(np.count_nonzero(kept))
            if not missing:
                sources, targets = map(np.concatenate, zip(*found))
                return sources, targets
        lacking = "held out of" if is_new else "left for"
        raise ValueError(f"task {self.name!r} has too few examples of length {length}: none is {lacking} training, and one "
                         f"in {HELD_OUT} should be held out; give lengths that have more")

    def arguments(self, examples: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arguments of the task's models."""
        source, target = examples
        return (source, target) if self.classes else (source, *inputs_and_targets(target))

    def check_context(self, model: nn.Module) -> None:
        """ValueError if the longest examples do not fit into the model's context."""
        model.eval()
        try:
            with mg.no_grad():
                model(*map(mg.tensor, self.arguments(self.examples(1))))
        except ValueError as error:
            raise ValueError(f"the examples of task {self.name!r} do not fit into --context {model.config.context} "
                             f"({error})") from None

    # ---- what the model can do ----

    def answer(self, model: Any, source: np.ndarray, most: int) -> np.ndarray:
        """Classes (B,), or token ids (B, at most `most`), for sources."""
        if not self.classes:
            return greedy(model, source, most)
        with mg.no_grad():
            logits, _ = model(mg.tensor(source))
        return logits.array.argmax(axis=1)

    def _answer_to(self, model: nn.Module, source: np.ndarray) -> np.ndarray:
        """The answer to sources of any length; ValueError if they do not fit into the model's context together."""
        length = source.shape[1]
        try:
            return self.answer(model, source, length + 1)
        except ValueError:
            raise ValueError(f"a source of {length} symbols and its answer do not fit into the model's context of "
                             f"{model.config.context}") from None

    def is_right(self, model: nn.Module, examples: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Whether each answer is entirely right, (B,)."""
        source, target = examples
        if self.classes:
            return self.answer(model, source, 1) == target
        _, wanted = inputs_and_targets(target)
        answer = self.answer(model, source, wanted.shape[1])
        answer = np.pad(answer, ((0, 0), (0, wanted.shape[1] - answer.shape[1])))
        return (answer == wanted).all(axis=1)

    def accuracy(self, model: nn.Module, count: int = 500, seed: int = TEST_SEED, length: int | None = None) -> float:
        """The fraction of new examples whose whole answer is right, at all training lengths or at one."""
        generator = np.random.default_rng(seed)
        lengths = range(self.lengths[0], self.lengths[1] + 1) if length is None else [length]
        model.eval()
        right = [self.is_right(model, self.draw(generator, -(-count // len(lengths)), n, is_new=True)) for n in lengths]
        return float(np.concatenate(right).mean())

    def evaluate(self, model: nn.Module, training: TrainingConfig, is_last: bool, ranks: Alone = ALONE) -> dict[str, Any]:
        """The mean loss over new examples of all lengths; the last time also the accuracy at each length."""
        generator, lengths = np.random.default_rng(TEST_SEED), range(self.lengths[0], self.lengths[1] + 1)
        count = -(-training.eval_windows // len(lengths))
        batches = (self.arguments(self.draw(generator, count, length, is_new=True)) for length in lengths)
        loss, _ = mean_loss(model, batches, self.ignored, ranks)
        if not is_last:
            return {"val_loss": loss}
        fractions = [self.accuracy(model, TEST_EXAMPLES, length=length) if i % ranks.size == ranks.rank else 0.0
                     for i, length in enumerate(lengths)]
        by_length = dict(zip(lengths, ranks.sum(fractions).tolist()))
        return {"val_loss": loss, "accuracy": float(np.mean(list(by_length.values()))), "accuracy_by_length": by_length}

    def summary(self, measured: dict[str, Any]) -> str:
        """The last evaluation as text."""
        rows = [f"  length {length}: {fraction:7.1%}" for length, fraction in measured["accuracy_by_length"].items()]
        return "\n".join(["whole answers that are right, to sources held out of training:", *rows,
                          f"  overall:  {measured['accuracy']:7.1%}"])

    def sample(self, model: nn.Module, seed: int) -> str:
        """A few examples: source, expected answer, and the model's. They are the same for all seeds."""
        source, target = self.examples(EXAMPLES)
        answers = self.answer(model, source, target.shape[-1] + 1)
        return "\n\n".join(f"source: {self.decode(source[i]) if self.symbols else 'an image'}\n"
                           f"wanted: {self.say(target[i])}\ngot:    {self.say(answers[i])}" for i in range(EXAMPLES))

    def examples(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """New examples of the greatest training length."""
        return self.draw(np.random.default_rng(EXAMPLES_SEED), count, self.lengths[1], is_new=True)

    def look(self, model: nn.Module, prompt: str | None = None) -> tuple[str, list[LabelledMap]]:
        """(A title with a source, by default an example, and the model's answer; the attention maps). ValueError if the
        source does not fit, or the model has no attention."""
        source = self.examples(1)[0] if prompt is None else self.encode(prompt)[None]
        answer = self._answer_to(model, source)
        inputs = [] if self.classes else [decoder_inputs(answer)]
        maps = attention_maps(model, source, *inputs)
        read = self._names(source[0]) if self.symbols else patches(next(iter(maps.values())).shape[-1])
        written = self._names(inputs[0][0]) if inputs else []

        def axes(path):
            if looks_at_source(path):
                return (written if path.startswith("decoder") else ["", *written]), read  # "" is an RNN's first state
            own = {"encoder": read, "decoder": written, "model": read + written}[path.partition(".")[0]]
            return own, own

        title = f"{self.name}: {' '.join(read) if self.symbols else 'an image'} → {self.say(answer[0])}"
        return title, labelled({path: weights[0] for path, weights in maps.items()}, axes)

    def illustrate(self, model: nn.Module, folder: pathlib.Path) -> list[str]:
        """Draw where the model looks in an example: all layers and heads, and if its decoder attends to the source, the
        alignment. Returns the names of the pictures."""
        if not has_attention(model):
            return []
        title, maps = self.look(model)
        draw_maps(maps, title, folder / PICTURE)
        alignment = None if self.classes else self._alignment(model, self.examples(1)[0])
        if alignment is None:
            return [PICTURE]
        draw_maps([alignment], path=folder / ALIGNMENT)
        return [PICTURE, ALIGNMENT]

    def _alignment(self, model: nn.Module, source: np.ndarray) -> LabelledMap | None:
        """Where a Seq2Seq looks in the source for each symbol of its answer: the mean of the last layer's heads."""
        answer = self._answer_to(model, source)
        weights = model.attention_map(mg.tensor(source), mg.tensor(decoder_inputs(answer)))  # (1, T, S)
        if weights is None:
            return None
        return LabelledMap(f"{self.name}, last layer", 1, weights, self._names(answer[0]), self._names(source[0]),
                           ["mean of the heads"])

    def _names(self, ids: np.ndarray) -> list[str]:
        """The labels of tokens on an axis."""
        return [{PAD: "pad", START: "start", STOP: "stop"}.get(token) or self.symbols[token - FIRST]
                for token in ids.tolist()]

    def identity(self) -> dict[str, Any]:
        """What identifies it in a checkpoint."""
        return {"task": self.name}


def is_held_out(sources: np.ndarray) -> np.ndarray:
    """Whether each source is not for training, (B,): by a hash, so that this holds in every run and process."""
    digests = [hashlib.blake2b(source.tobytes(), digest_size=1).digest()[0] for source in sources]
    return np.array(digests) % HELD_OUT == 0


def decoder_inputs(answer: np.ndarray) -> np.ndarray:
    """The decoder's inputs for an answer (B, T): START, and all but the last token."""
    return np.hstack([np.full((len(answer), 1), START), answer[:, :-1]])


def patches(count: int) -> list[str]:
    """The names of the patches of a square image: row and column.

    >>> patches(4)
    ['1,1', '1,2', '2,1', '2,2']
    """
    side = math.isqrt(count)
    return [f"{i // side + 1},{i % side + 1}" for i in range(count)]


def inputs_and_targets(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a decoder's inputs (B, T + 1), its targets): START and the target, the target and STOP.

    >>> inputs_and_targets(np.array([[5, 6, 0]]))
    (array([[1, 5, 6, 0]]), array([[5, 6, 2, 0]]))
    """
    inputs = np.pad(target, ((0, 0), (1, 0)), constant_values=START)
    targets = np.pad(target, ((0, 0), (0, 1)), constant_values=PAD)
    targets[np.arange(len(target)), np.count_nonzero(target, axis=1)] = STOP
    return inputs, targets
