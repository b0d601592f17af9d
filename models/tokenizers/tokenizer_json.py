"""A tokenizer in a tokenizer.json, such as GPT-2's or Llama's, run by the library `tokenizers`."""
import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from models.extras import MissingExtra, extra, one_line
from models.tokenizers.base import REPLACEMENT, Tokenizer, utf8
from models.tokenizers.bytes import BYTE_OF

WHOLE = "tokenizer.json"
END_OF_TEXT = "<|endoftext|>"  # GPT-2's special token
MOST_IDS = 1 << 24  # the library's time and memory grow with the largest id
BLANK = "▁"  # SentencePiece's blank
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")  # SentencePiece's byte of a character without a token


class TokenizerJson(Tokenizer):
    """The tokenizer that a parsed tokenizer.json describes, without padding, truncation or dropout; ValueError if it is
    invalid. Texts end with one of `ends`, which a folder names elsewhere."""

    kind = "bpe"  # of a state, whatever the model in it

    def __init__(self, described: dict[str, Any], ends: Sequence[int] = ()):
        self.ends = tuple(ends)
        with _refusing("it is not a tokenizer.json"):
            described = described | {"padding": None, "truncation": None, "model": described["model"] | {"dropout": None}}
            if described["model"].get("continuing_subword_prefix") and "merges" in described["model"]:
                raise ValueError("byte pairs with a continuing_subword_prefix are not supported")
            ids = described["model"].get("vocab", {})
            if isinstance(ids, dict) and max(ids.values(), default=0) >= MOST_IDS:
                raise ValueError(f"a token has the id {max(ids.values())}; ids up to {MOST_IDS - 1:,} are read")
            self._tokenizer = _library().Tokenizer.from_str(json.dumps(described))
            self._described: dict[str, Any] = json.loads(self._tokenizer.to_str())
            self._tokens = {i: token for token, i in self._tokenizer.get_vocab(with_added_tokens=True).items()}
            self._size = 1 + max(self._tokens, default=-1)
        with _refusing("it does not work"):
            encoding = self._tokenizer.encode("a")
            is_added = zip(encoding.ids, encoding.special_tokens_mask)
            self.before_prompt = [i for i, _ in itertools.takewhile(lambda pair: pair[1], is_added)]
            self.shows_start = not self.before_prompt and self._tokenizer.token_to_id(END_OF_TEXT) is None
            self.decode(encoding.ids)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "TokenizerJson":
        """The tokenizer in a tokenizer.json, or in a folder with one. ValueError names a file that is invalid, OSError one
        that cannot be read."""
        file = pathlib.Path(path)
        if file.is_dir() and not (file / WHOLE).is_file():
            raise ValueError(f"{path} holds no {WHOLE}; give a folder that does. transformers makes one of other files: "
                             f"AutoTokenizer.from_pretrained({str(path)!r}).save_pretrained(NEW)")
        file = file / WHOLE if file.is_dir() else file
        try:
            with _refusing("it is not JSON in UTF-8"):
                described = json.loads(file.read_text(encoding="utf-8"))
            return cls(described)
        except ValueError as error:
            raise ValueError(f"{file} is unusable: {one_line(error, 200)}") from None

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        with _refusing("this text has no tokens"):
            (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
            return np.array(encoding.ids, np.int64)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of token ids, with special tokens by their names, and U+FFFD for ids that the vocabulary skips."""
        parts, checked = [], self.checked(ids)
        with _refusing("these tokens have no text"):
            for is_known, group in itertools.groupby(checked, self._tokens.__contains__):
                run = list(group)
                parts.append(self._tokenizer.decode(run, skip_special_tokens=False) if is_known else REPLACEMENT * len(run))
        return "".join(parts)

    def state(self) -> dict[str, Any]:
        ends = {"ends": list(self.ends)} if self.ends else {}
        return {"kind": self.kind, "tokenizer": self.described, **ends}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "TokenizerJson":
        ends = state.get("ends", [])
        if state.keys() - {"ends"} != {"kind", "tokenizer"} or not all(type(i) is int and i >= 0 for i in ends):
            raise ValueError("it must have a kind and a tokenizer, and may have the ids that end a text")
        return cls(state["tokenizer"], ends)

    @property
    def described(self) -> dict[str, Any]:
        return self._described

    @property
    def start(self) -> Sequence[int]:  # type: ignore[override]
        """The ids before every prompt, or GPT-2's end of text, or a line end."""
        if self.before_prompt:
            return self.before_prompt
        end = self._tokenizer.token_to_id(END_OF_TEXT)
        return [end] if end is not None else self.encode("\n").tolist() or [0]

    def fits(self, vocabulary_size: int) -> bool:
        """Published models often have a few extra tokens, to reach a round number."""
        return vocabulary_size >= len(self)

    def names(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [self._name(int(i)) for i in ids]

    def _name(self, i: int) -> str:
        token = self._tokens.get(i, f"token {i}")
        if self._is_byte_level and all(character in BYTE_OF for character in token):
            return bytes(BYTE_OF[character] for character in token).decode(errors="backslashreplace")
        return token.replace(BLANK, " ")

    def ends_open(self, ids: Sequence[int], text: str) -> bool:
        # adjacent SentencePiece bytes are decoded together, and one wrong byte turns all of them into U+FFFD
        return super().ends_open(ids, text) or BYTE_TOKEN.fullmatch(self._tokens.get(ids[-1], "")) is not None

    @functools.cached_property
    def _is_byte_level(self) -> bool:
        return (self.described["decoder"] or {}).get("type") == "ByteLevel"


def _library() -> types.ModuleType:
    return extra("hub", "tokenizers")


@contextlib.contextmanager
def _refusing(problem: str) -> Iterator[None]:
    """Turn whatever the library raises, or a description with wrong types, into a ValueError."""
    try:
        yield
    except (OSError, MissingExtra, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  a panic in Rust is not an Exception
        raise ValueError(f"{problem} ({one_line(error, 200)})") from None
