"""Tokenizers: how a text becomes token ids, and back."""
import dataclasses
import functools
import itertools
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

import nn
from models.attention_maps import attention_maps
from models.generate import generate
from models.pictures import LabelledMap, labelled, visible

SAMPLE_LENGTH, TEMPERATURE = 300, 0.8  # of a sample, in tokens


class Tokenizer:
    """Base of all tokenizers: a subclass has encode, decode, a length (the number of different tokens) and a state."""

    kind: ClassVar[str]  # its key in TOKENIZERS

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__()")

    def encode(self, text: str) -> np.ndarray:
        """Token ids (int64) of a text; ValueError if it has none for a part of it."""
        raise NotImplementedError(f"{type(self).__name__} has no encode()")

    def decode(self, ids) -> str:
        """The text of a sequence of token ids; bytes that are not UTF-8 become U+FFFD."""
        raise NotImplementedError(f"{type(self).__name__} has no decode()")

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it, in JSON's types: its `kind`, and what `of_state` makes it of again."""
        raise NotImplementedError(f"{type(self).__name__} has no state()")

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Tokenizer":
        """The tokenizer of a state; ValueError or TypeError if it makes no sense."""
        raise NotImplementedError(f"{cls.__name__} has no of_state()")

    def respond(self, model: nn.Module, prompt: str | None = None, tokens: int = SAMPLE_LENGTH,
                temperature: float = TEMPERATURE, **sampling: Any) -> Iterator[str]:
        """The prompt (by default the first token) and its continuation, token by token; `sampling` as in `generate`."""
        prompt = self.decode([0]) if prompt is None else prompt
        ids = generate(model, self.encode(prompt), tokens, temperature, **sampling)
        return itertools.chain([prompt], (self.decode([i]) for i in ids))

    def look(self, model: nn.Module, prompt: str | None = None) -> tuple[str, list[LabelledMap]]:
        """(A title, the attention maps of a model that reads the prompt). ValueError if it cannot, or has none."""
        if not prompt:
            raise ValueError("there is no text to read; give at least one character with --prompt")
        ids, context = self.encode(prompt), model.config.context
        if len(ids) > context:
            raise ValueError(f"a prompt of {len(ids)} characters does not fit into the model's context of {context}")
        symbols = visible([self.decode([i]) for i in ids])
        return "", labelled(attention_maps(model, ids), lambda path: (symbols, symbols))


@dataclasses.dataclass(frozen=True)
class Vocabulary(Tokenizer):
    """One token id for each character; the ids follow the order of the code points.

    >>> vocabulary = Vocabulary.of("banana")
    >>> vocabulary.symbols, vocabulary.encode("nab")
    ('abn', array([2, 0, 1]))
    >>> vocabulary.decode([1, 0, 2])
    'ban'
    >>> vocabulary.encode("bandana")
    Traceback (most recent call last):
    ...
    ValueError: the vocabulary has no 'd'; it knows these 3: 'abn'
    """

    kind = "characters"
    symbols: str

    @classmethod
    def of(cls, text: str) -> "Vocabulary":
        """The vocabulary of all characters in a text."""
        return cls("".join(sorted(set(text))))

    def __post_init__(self):
        if not self.symbols or list(self.symbols) != sorted(set(self.symbols)):
            raise ValueError("the symbols of a vocabulary must be in ascending order, each once, and at least one")

    def __len__(self) -> int:
        return len(self.symbols)

    @functools.cached_property
    def _ids(self) -> np.ndarray:
        """The id of each code point there is, -1 for those without."""
        ids = np.full(sys.maxunicode + 1, -1)
        ids[code_points(self.symbols)] = np.arange(len(self))
        return ids

    def encode(self, text: str) -> np.ndarray:
        """Token ids (int64) of a text; ValueError names the characters that the vocabulary lacks."""
        points = code_points(text)
        ids = self._ids[points]
        unknown = points[ids < 0]
        if unknown.size:
            names = " ".join(repr(chr(point)) for point in dict.fromkeys(unknown.tolist()))
            raise ValueError(f"the vocabulary has no {names}; it knows these {len(self)}: {self.symbols!r}")
        return ids

    def decode(self, ids) -> str:
        """The text of a sequence of token ids."""
        return "".join(self.symbols[i] for i in ids)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "symbols": self.symbols}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Vocabulary":
        state["symbols"].encode()  # half of a surrogate pair has not been written
        return cls(state["symbols"])


def code_points(text: str) -> np.ndarray:
    """The Unicode code point of each character, (len(text),) uint32."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")


TOKENIZERS: dict[str, type[Tokenizer]] = {tokenizer.kind: tokenizer for tokenizer in (Vocabulary,)}


def tokenizer_of(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer whose state this is; ValueError, TypeError or KeyError if it makes no sense."""
    return TOKENIZERS[state["kind"]].of_state(state)
