"""A small transformer, as in Vaswani et al. (arXiv:1706.03762) with the norms first, that learns to reverse words.

An encoder block reads the word, a decoder block writes it from its end. Everything runs on rows (B T, C), except for
attention, on (B, H, T, D). Letters: B words, T letters each, C width, H heads, V letters in all.
"""
import math
from collections.abc import Collection

import numpy as np

import minigrad as mg
from minigrad import Tensor
from study.exercises.training.ops import Ops

V, T, C, H, HIDDEN = 11, 6, 32, 2, 64  # letter 0 is the start of each answer
EPS = 1e-5
BLOCK = 4  # rows and columns of a tile of blockwise attention
SOFTMAX, MASKED_SOFTMAX = ("scores", "softmax", "matmul"), ("scores", "masked_softmax", "matmul")


def draw_words(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random words, and the words reversed: (count, T) each."""
    words = generator.integers(1, V, (count, T))
    return words, words[:, ::-1]


class Transformer:
    """The model, on these ops. Where several would do, it uses one of `preferred`, such as rms_norm for layer_norm."""

    def __init__(self, ops: Ops, generator: np.random.Generator, preferred: Collection[str] = ()):
        self.ops, self.preferred = ops, preferred
        self.parameters: dict[str, Tensor] = {}
        for name in ("letters", "places in a word", "places in an answer"):
            self._add(name, generator.normal(size=(V if name == "letters" else T, C)))
        for name in ("encoder", "decoder", "cross"):
            self._add_norm(f"{name}.attention")
            for part in ("query", "key", "value", "out"):
                self._add_linear(f"{name}.{part}", C, C, generator)
        for name in ("encoder", "decoder"):
            self._add_norm(f"{name}.mlp")
            self._add_linear(f"{name}.expand", C, HIDDEN, generator)
            self._add_linear(f"{name}.project", HIDDEN, C, generator)
            self._add_norm(f"{name}.end")
        self._add_linear("read out", C, V, generator)

    def loss(self, words: np.ndarray, answers: np.ndarray) -> Tensor:
        """The mean cross-entropy of the next letter."""
        logits, targets = self.logits(words, answers), answers.reshape(-1)
        if self._choice("cross_entropy", "log_softmax") == "cross_entropy":
            return self.ops["cross_entropy"](logits, mg.tensor(targets))
        return -self.ops["log_softmax"](logits)[np.arange(len(targets)), targets].mean()

    def logits(self, words: np.ndarray, answers: np.ndarray) -> Tensor:
        """The scores of each letter of the answers, from those before it: (B T, V)."""
        x = self._embed(words, "places in a word")
        x = x + self._attend("encoder", n := self._norm("encoder.attention", x), n)
        memory = self._norm("encoder.end", x + self._mlp("encoder", x))

        before = np.pad(answers[:, :-1], ((0, 0), (1, 0)))
        x = self._embed(before, "places in an answer")
        x = x + self._attend("decoder", n := self._norm("decoder.attention", x), n)
        x = x + self._attend("cross", self._norm("cross.attention", x), memory)
        return self._linear("read out", self._norm("decoder.end", x + self._mlp("decoder", x)))

    def _embed(self, letters: np.ndarray, places: str) -> Tensor:
        rows = self.ops["embedding"](mg.tensor(letters.reshape(-1)), self.parameters["letters"])
        return (rows.reshape(*letters.shape, C) + self.parameters[places]).reshape(-1, C)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return self.ops["linear"](x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        norm = self._choice("layer_norm", "rms_norm")
        return self.ops[norm](x, weight, bias, EPS) if norm == "layer_norm" else self.ops[norm](x, weight, EPS) + bias

    def _mlp(self, name: str, x: Tensor) -> Tensor:
        activation = self.ops[self._choice("gelu", "gelu_tanh", "tanh")]
        return self._linear(f"{name}.project", activation(self._linear(f"{name}.expand", self._norm(f"{name}.mlp", x))))

    def _attend(self, name: str, x: Tensor, memory: Tensor) -> Tensor:
        """Attention of x to a memory; in the decoder each letter sees itself and those before it."""
        q, k, v = (self._linear(f"{name}.{part}", of).reshape(-1, T, C)
                   for part, of in (("query", x), ("key", memory), ("value", memory)))
        if name != "decoder" and self._choice("attention", "multi_head", *SOFTMAX) == "multi_head":
            out = self.ops["multi_head"](q, k, v, H)
        else:
            q, k, v = (part.reshape(-1, T, H, C // H).transpose(1, 2) for part in (q, k, v))
            out = (self._causal(q, k, v) if name == "decoder" else self._full(q, k, v)).transpose(1, 2)
        return self._linear(f"{name}.out", out.reshape(-1, C))

    def _full(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self._choice("attention", *SOFTMAX) == "attention":
            return self.ops["attention"](q, k, v)
        return self.ops["matmul"](self.ops["softmax"](self.ops["scores"](q, k)), v)

    def _causal(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        match self._choice("causal_attention", "blockwise_attention", *MASKED_SOFTMAX):
            case "causal_attention":
                return self.ops["causal_attention"](q, k, v)
            case "blockwise_attention":
                return self.ops["blockwise_attention"](q, k, v, BLOCK)
        mask = mg.tensor(np.tri(T, dtype=bool))
        return self.ops["matmul"](self.ops["masked_softmax"](self.ops["scores"](q, k), mask), v)

    def _choice(self, *names: str) -> str:
        return next((name for name in names if name in self.preferred), names[0])

    def _add(self, name: str, values: np.ndarray) -> None:
        self.parameters[name] = mg.tensor(values, requires_grad=True)

    def _add_norm(self, name: str) -> None:
        self._add(f"{name}.weight", np.ones(C))
        self._add(f"{name}.bias", np.zeros(C))

    def _add_linear(self, name: str, inputs: int, outputs: int, generator: np.random.Generator) -> None:
        self._add(f"{name}.weight", generator.normal(size=(outputs, inputs)) / math.sqrt(inputs))
        self._add(f"{name}.bias", np.zeros(outputs))
