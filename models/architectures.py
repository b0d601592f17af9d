"""The table of models that can be trained, by what they learn."""
import dataclasses
import functools
import math
from collections.abc import Callable

import minigrad as mg
import nn
from minigrad import Tensor
from models.encoder_decoder import Classifier, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.task import Task
from models.tasks import PATCH_SIZE
from models.config import TransformerConfig
from models.transformer import CausalTransformer, initialise


class CausalSeq2Seq(Seq2Seq):
    """A causal transformer that reads the source and continues with the target: plain next-token prediction."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.model: CausalTransformer = CausalTransformer(config)
        initialise(self, config.layers, std=1 / math.sqrt(config.width))

    def encode(self, source: Tensor) -> Tensor:
        return source

    def decode(self, memory: Tensor, padding: Tensor, inputs: Tensor) -> Tensor:
        length, context = memory.shape[1] + inputs.shape[1], self.config.context
        if length > context:
            raise ValueError(f"source and target have {length} tokens, but the model's context is {context}; build it with "
                             "a larger context")
        is_skipped = mg.cat([padding, mg.zeros_like(inputs, dtype=bool)], dim=1)
        order = is_skipped.argsort(1)  # padding comes last, where nothing sees it
        logits, _ = self.model(mg.cat([memory, inputs], dim=1).gather(1, order))
        return logits[mg.arange(len(inputs))[:, None], order.argsort(1)[:, memory.shape[1] :]]


def _classifier(task: Task, config: TransformerConfig, attends: bool) -> Classifier:
    make_tokens = None if task.symbols else nn.PatchEmbedding(PATCH_SIZE, 1, config.width).to(config.dtype)
    return Classifier(config, len(task.classes), task.pooling, attends, make_tokens)


Make = Callable[[Task | None, TransformerConfig], nn.Module]
ARCHITECTURES: dict[str, dict[str, Make]] = {  # by the kind of task; the first of each kind is the default
    "text": {"causal": lambda task, config: CausalTransformer(config)},
    "sequence": {
        "encoder-decoder": lambda task, config: EncoderDecoder(config),
        "causal": lambda task, config: CausalSeq2Seq(config),
        "rnn": lambda task, config: RecurrentSeq2Seq(config, attends=False),
        "rnn-attention": lambda task, config: RecurrentSeq2Seq(config, attends=True),
    },
    "class": {
        "encoder": functools.partial(_classifier, attends=True),
        "no-attention": functools.partial(_classifier, attends=False),
    },
}


def architecture_for(task: Task | None, name: str | None, config: TransformerConfig) -> str:
    """The given or default architecture; ValueError if it cannot learn the task (None stands for a text)."""
    known = ARCHITECTURES[task.kind if task else "text"]
    name = next(iter(known)) if name is None else name
    if name not in known:
        learnt = f"task {task.name!r} outputs a {task.kind}" if task else "the data is a text"
        raise ValueError(f"{learnt}, so model must be one of {', '.join(known)}, got {name!r}")
    if name == "encoder-decoder" and config.layers == 0:
        raise ValueError("an encoder-decoder without layers never sees its source; layers must be at least 1, got 0")
    return name


def make_model(task: Task | None, architecture: str | None, config: TransformerConfig,
               seed: int | None = 0) -> nn.Module:
    """A model that can learn the task (None stands for a text), with parameters drawn from the seed, or if it is None from
    the generator as it is; ValueError if this architecture cannot."""
    kind, name = task.kind if task else "text", architecture_for(task, architecture, config)
    if task:
        config = dataclasses.replace(config, vocabulary_size=task.vocabulary_size)
    if seed is not None:
        mg.manual_seed(seed)
    return ARCHITECTURES[kind][name](task, config)
