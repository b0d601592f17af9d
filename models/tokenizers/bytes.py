"""A token for each UTF-8 byte of the text: every text can be encoded, and there is nothing to learn or store."""
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.tokenizers.base import Tokenizer, tokenizer_json, utf8

# GPT-2 and tokenizer.json write bytes as characters: printable ones as themselves, others as those from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {
    chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in PRINTABLE)}


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

    @property
    def described(self) -> dict[str, Any]:
        """Byte pairs without merges."""
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return tokenizer_json({"type": "BPE", "vocab": BYTE_OF, "merges": []}, level, level)

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Bytes":
        if len(state) > 1:
            raise ValueError("the state of bytes is only their kind")
        return cls()

    def names(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [chr(i) if i < 128 else f"\\x{i:02x}" for i in ids]
