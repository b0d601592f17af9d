"""A token for each character of a text."""
import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.tokenizers.base import Tokenizer, tokenizer_json, utf8


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

    kind = unit = "characters"
    symbols: str

    @classmethod
    def of(cls, text: str) -> "Vocabulary":
        """The vocabulary of all characters in a text."""
        return cls("".join(sorted(set(text))))

    def __post_init__(self) -> None:
        if not self.symbols or list(self.symbols) != sorted(set(self.symbols)):
            raise ValueError("the symbols of a vocabulary must be distinct, in ascending order, and at least one")

    def __len__(self) -> int:
        return len(self.symbols)

    @functools.cached_property
    def _ids(self) -> np.ndarray:
        """The id of each code point, or -1."""
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

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return "".join(self.symbols[i] for i in self.checked(ids))

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "symbols": self.symbols}

    @property
    def described(self) -> dict[str, Any]:
        """Each character is a word; without an unknown word, others are refused, as here."""
        words = {"type": "WordLevel", "vocab": {symbol: i for i, symbol in enumerate(self.symbols)}, "unk_token": ""}
        apart = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
        return tokenizer_json(words, apart, {"type": "Fuse"})

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Vocabulary":
        if not isinstance(state["symbols"], str):
            raise TypeError(f"symbols must be a str, got {state['symbols']!r}")
        utf8(state["symbols"])
        return cls(state["symbols"])


def code_points(text: str) -> np.ndarray:
    """The Unicode code point of each character, (len(text),) uint32."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
