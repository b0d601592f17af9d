"""A token for each UTF-8 byte of the text: every text can be encoded, and there is nothing to learn or store."""
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.tokenizers.base import Tokenizer, utf8


class Bytes(Tokenizer):
    """256 tokens.

    >>> Bytes().encode("né")
    array([110, 195, 169])
    >>> Bytes().decode([110, 195, 169]), Bytes().decode([110, 195])
    ('né', 'n�')
    """

    kind = unit = "bytes"
    start = (ord("\n"),)  # byte 0 is in no text

    def __len__(self) -> int:
        return 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(utf8(text), np.uint8).astype(np.int64)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return bytes(self.checked(ids)).decode(errors="replace")

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Bytes":
        if len(state) > 1:
            raise ValueError("the state of bytes is only their kind")
        return cls()

    def names(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [chr(i) if i < 128 else f"\\x{i:02x}" for i in ids]
