"""Training on a task: the models that can learn it, a loop, and how often they are right."""
import dataclasses
import functools
import math
import numbers
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from models.encoder_decoder import Classifier, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.tasks import PATCH_SIZE, Task, inputs_and_targets
from models.transformer import CausalTransformer, TransformerConfig, check_choice, check_whole, initialise
from models.translate import greedy


class CausalTranslator(Seq2Seq):
    """A causal transformer that reads the source and goes on with the target: nothing but predicting the next token."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.model = CausalTransformer(config)
        initialise(self, config.layers, std=1 / math.sqrt(config.width))

    def encode(self, source: Tensor) -> Tensor:
        return source

    def decode(self, memory: Tensor, padding: Tensor, inputs: Tensor, weights: list | None = None) -> Tensor:
        logits, _ = self.model(mg.cat([memory, inputs], dim=1))
        return logits[:, memory.shape[1] :]


SEQUENCE_MODELS = {
    "encoder-decoder": EncoderDecoder,
    "causal": CausalTranslator,
    "rnn": functools.partial(RecurrentSeq2Seq, attends=False),
    "rnn-attention": functools.partial(RecurrentSeq2Seq, attends=True),
}
CLASS_MODELS = {"encoder": True, "no-attention": False}  # does it attend?
MODELS = *SEQUENCE_MODELS, *CLASS_MODELS


@dataclasses.dataclass(frozen=True)
class TaskTraining:
    """How a model learns a task; ValueError names the field that makes no sense."""

    steps: int = 1500  # how often the parameters are updated
    batch_size: int = 64  # B, examples in a batch
    final_batch_size: int | None = None  # grows to this size, in doublings, if it is given
    accumulation: int = 1  # batches whose gradients are averaged for an update
    lr: float = 2e-3  # the highest learning rate
    warmup_steps: int = 100  # steps in which the learning rate rises from 0
    annealing: str = "cosine"  # how it falls then: cosine, linear, quadratic, steps or constant
    max_grad_norm: float = 1.0  # longer gradients are scaled down to this length
    label_smoothing: float = 0.0  # the share of probability that goes to wrong answers
    seed: int = 0  # of initialisation and examples

    def __post_init__(self):
        for name in ("steps", "batch_size", "accumulation"):
            check_whole(name, getattr(self, name))
        check_choice("annealing", self.annealing, nn.optim.ANNEALING)
        if self.final_batch_size is not None:
            check_whole("final_batch_size", self.final_batch_size, least=self.batch_size)
        for name in ("warmup_steps", "seed"):
            check_whole(name, getattr(self, name), least=0)
        for name, least, most, holds in (("lr", "more than 0", "at most 1", lambda x: 0 < x <= 1),
                                         ("max_grad_norm", "more than 0", "finite", lambda x: 0 < x < math.inf),
                                         ("label_smoothing", "at least 0", "less than 1", lambda x: 0 <= x < 1)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not holds(value):
                raise ValueError(f"{name} must be {least} and {most}, got {value!r}")

    def batch_size_at(self, step: int) -> int:
        """Doubles at equal distances from batch_size to final_batch_size.

        >>> [TaskTraining(steps=8, batch_size=4, final_batch_size=16).batch_size_at(step) for step in range(8)]
        [4, 4, 4, 8, 8, 8, 16, 16]
        """
        if self.final_batch_size is None:
            return self.batch_size
        doublings = int(np.log2(self.final_batch_size / self.batch_size))
        return min(self.batch_size << (step * (doublings + 1) // self.steps), self.final_batch_size)


def make_model(task: Task, name: str, config: TransformerConfig | None = None, seed: int = 0) -> nn.Module:
    """A model of this name for the task; ValueError if it cannot do such a task."""
    known = SEQUENCE_MODELS if task.kind == "sequence" else CLASS_MODELS
    if name not in known:
        raise ValueError(f"task {task.name!r} makes a {task.kind}, so model must be one of {', '.join(known)}, got "
                         f"{name!r}")
    mg.manual_seed(seed)
    config = config or TransformerConfig(context=32, layers=2, heads=4, width=64)
    config = dataclasses.replace(config, vocabulary_size=task.vocabulary_size)
    if task.kind == "sequence":
        return known[name](config)
    make_tokens = None if task.symbols else nn.PatchEmbedding(PATCH_SIZE, 1, config.width).to(config.dtype)
    return Classifier(config, len(task.classes), task.pooling, known[name], make_tokens)


def arguments(task: Task, examples: tuple[np.ndarray, np.ndarray]) -> list[Tensor]:
    """What the task's models are called with: the last is what they have to say."""
    source, target = examples
    if task.kind == "class":
        return [mg.tensor(source), mg.tensor(target)]
    return [mg.tensor(array) for array in (source, *inputs_and_targets(target))]


def train(task: Task, model: nn.Module, training: TaskTraining,
          report: Callable[[int, float], None] = lambda step, loss: None, length: int | None = None) -> list[float]:
    """Train the model; the loss of each step. `report` is called with the number of steps done and the loss."""
    optimizer = nn.optim.AdamW(model.parameters(), lr=training.lr, weight_decay=0.01, betas=(0.9, 0.98),
                               max_grad_norm=training.max_grad_norm)
    generator = np.random.default_rng(training.seed)
    smoothing = {"label_smoothing": training.label_smoothing} if task.kind == "sequence" else {}

    @mg.compile
    def loss_and_gradients(*inputs):
        loss = model(*inputs, **smoothing)[1] / training.accumulation
        loss.backward()
        return loss

    losses = []
    model.train()
    for step in range(training.steps):
        lr = nn.optim.warmup_annealing(step, training.annealing,
                                       warmup_steps=min(training.warmup_steps, training.steps),
                                       total_steps=training.steps, peak=training.lr)
        for group in optimizer.param_groups:
            group["lr"] = lr
        total = 0.0
        for _ in range(training.accumulation):
            n = task.lengths_at_random(generator) if length is None else length
            examples = task.make(generator, training.batch_size_at(step), n)
            total += loss_and_gradients(*arguments(task, examples)).item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
        report(step + 1, total)
    model.eval()
    return losses


def accuracy(task: Task, model: nn.Module, count: int = 500, seed: int = 1_000_000, length: int | None = None) -> float:
    """The share of new examples whose whole answer is right; at all lengths of training, or at one."""
    generator = np.random.default_rng(seed)
    lengths = range(task.lengths[0], task.lengths[1] + 1) if length is None else [length]
    model.eval()
    right = [is_right(task, model, task.make(generator, -(-count // len(lengths)), n)) for n in lengths]
    return float(np.concatenate(right).mean())


def is_right(task: Task, model: nn.Module, examples: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Whether each answer is right, (B,)."""
    source, target = examples
    if task.kind == "class":
        with mg.no_grad():
            logits, _ = model(mg.tensor(source))
        return logits.array.argmax(axis=1) == target
    _, wanted = inputs_and_targets(target)
    answer = greedy(model, source, wanted.shape[1])
    answer = np.pad(answer, ((0, 0), (0, wanted.shape[1] - answer.shape[1])))
    return (answer == wanted).all(axis=1)
