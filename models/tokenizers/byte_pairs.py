"""Byte-pair encoding: tokens learnt from a text by merging frequent pairs, or read from a tokenizer.json of the library
`tokenizers`, such as GPT-2's or Llama's.

Learnt tokenizers are byte-level: they start from the 256 bytes, so that every text can be encoded.
"""
import contextlib
import functools
import itertools
import json
import math
import os
import pathlib
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from models.extras import MissingExtra, extra, one_line
from models.tokenizers.base import REPLACEMENT, Tokenizer, utf8

BYTES = 256  # a byte-level vocabulary starts with these tokens
DEFAULT_SIZE = 1024  # of a learnt vocabulary
PIECE, BATCH = 1 << 15, 16  # characters per piece of text, pieces encoded at a time, in parallel
WHOLE, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
END_OF_TEXT = "<|endoftext|>"  # GPT-2's special token
MOST_IDS = 1 << 24  # the library's time and memory grow with the largest id
MOST_GROWTH = 1000  # the factor by which replacements may lengthen a text
BLANK = "▁"  # SentencePiece's blank
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")  # SentencePiece's byte of a character without a token

# GPT-2 writes bytes as characters: printable ones as themselves, others as those from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {
    chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in PRINTABLE)}

# A pattern splits a text into words before pairs are merged. In GPT-2's words no blank or line end follows another
# character, and a word depends on no text before it, nor, unless it is blank, on text after it. So a text cut before such a
# blank has the same tokens. With Llama 3's pattern, a line end may follow punctuation.
GPT2_WORDS: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                  r"\s+(?!\S)|\s+")
GPT2_CUT, LLAMA3_CUT = re.compile(r"\S(?=[ \n])"), re.compile(r"\S(?= )|[0-9A-Za-z](?=\n)")


class BytePairs(Tokenizer):
    """The tokenizer that a parsed tokenizer.json describes, without padding, truncation or dropout; ValueError if it is
    invalid. Texts end with one of `ends`, which a folder names elsewhere."""

    kind = "bpe"
    memory_per_byte = 40  # if each byte is a token; most texts take 10

    def __init__(self, described: dict[str, Any], ends: Sequence[int] = ()):
        self.ends = tuple(ends)
        with _refusing("it is not a tokenizer.json"):
            described = described | {"padding": None, "truncation": None, "model": described["model"] | {"dropout": None}}
            if _growth(described) > MOST_GROWTH:
                raise ValueError("its replacements make a text thousands of times as long")
            if described["model"].get("continuing_subword_prefix") and "merges" in described["model"]:
                raise ValueError("byte pairs with a continuing_subword_prefix are not supported")
            ids = described["model"].get("vocab", {})
            if isinstance(ids, dict) and max(ids.values(), default=0) >= MOST_IDS:
                raise ValueError(f"a token has the id {max(ids.values())}; ids up to {MOST_IDS - 1:,} are read")
            self._tokenizer = _library().Tokenizer.from_str(json.dumps(described))
            self.described: dict[str, Any] = json.loads(self._tokenizer.to_str())
            self._tokens = {i: token for token, i in self._tokenizer.get_vocab(with_added_tokens=True).items()}
            self._size = 1 + max(self._tokens, default=-1)
        with _refusing("it does not work"):
            encoding = self._tokenizer.encode("a")
            is_added = zip(encoding.ids, encoding.special_tokens_mask)
            self.before_prompt = [i for i, _ in itertools.takewhile(lambda pair: pair[1], is_added)]
            self.shows_start = not self.before_prompt and self._tokenizer.token_to_id(END_OF_TEXT) is None
            self.decode(encoding.ids)
        self._cut = _cut_of(self.described)
        self.is_local = self._cut is not None
        if not self.is_local:
            self.memory_per_byte = 200  # until the whole text is encoded, each token has a name and offsets

    @classmethod
    def of(cls, text: str, vocabulary_size: int = DEFAULT_SIZE) -> "BytePairs":
        """The byte-level tokenizer of a text: the 256 bytes, then the most frequent pair of tokens, again and again. It has
        fewer tokens than asked for if no pair occurs twice any more. ValueError if the vocabulary is too small."""
        if vocabulary_size < BYTES:
            raise ValueError(f"vocabulary_size must be at least {BYTES}, one for each byte, got {vocabulary_size}")
        most = BYTES + len(utf8(text)) // 2  # the library allocates as many as requested
        library = _library()
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        alphabet = library.pre_tokenizers.ByteLevel.alphabet()
        trainer = library.trainers.BpeTrainer(vocab_size=min(vocabulary_size, most), min_frequency=2,
                                              show_progress=False, initial_alphabet=alphabet)
        tokenizer.train_from_iterator(_pieces(text, GPT2_CUT), trainer)
        return cls(json.loads(tokenizer.to_str()))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "BytePairs":
        """The tokenizer in a tokenizer.json, or in a folder with one or with GPT-2's vocab.json and merges.txt. ValueError
        names an invalid file, OSError an unreadable one."""
        file = pathlib.Path(path)
        if file.is_dir():
            found = [file / name for name in (WHOLE, VOCABULARY) if (file / name).is_file()]
            if not found:
                raise ValueError(f"{path} holds no {WHOLE}, and no {VOCABULARY} with a {MERGES}; give a folder that does")
            file = found[0]
        with _blaming(file), _refusing("it is not JSON in UTF-8"):
            content = json.loads(file.read_text(encoding="utf-8"))
        if file.name == VOCABULARY:
            content = _of_gpt2(file, content)
        with _blaming(file):
            return cls(content)

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        pieces = [text] if self._cut is None else list(_pieces(text, self._cut))
        found = [np.zeros(0, np.int64)]
        with _refusing("this text has no tokens"):
            for first in range(0, len(pieces), BATCH):
                batch = self._tokenizer.encode_batch_fast(pieces[first:first + BATCH], add_special_tokens=False)
                found += [np.array(encoding.ids, np.int64) for encoding in batch]
        return np.concatenate(found)

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
    def of_state(cls, state: dict[str, Any]) -> "BytePairs":
        ends = state.get("ends", [])
        if state.keys() - {"ends"} != {"kind", "tokenizer"} or not all(type(i) is int and i >= 0 for i in ends):
            raise ValueError("it must have a kind and a tokenizer, and may have the ids that end a text")
        return cls(state["tokenizer"], ends)

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


def _growth(described: Any) -> int:
    """The factor by which all replacements together may lengthen a text."""
    if not isinstance(described, (dict, list)):
        return 1
    own = len(described["content"]) if isinstance(described, dict) and described.get("type") == "Replace" else 1
    return max(1, own) * math.prod(map(_growth, described.values() if isinstance(described, dict) else described))


@contextlib.contextmanager
def _blaming(file: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file} is unusable: {one_line(error, 200)}") from None


def _of_gpt2(file: pathlib.Path, tokens: dict[str, int]) -> dict[str, Any]:
    """GPT-2's two files, of which `tokens` are the content of the first, as the content of a tokenizer.json."""
    with _blaming(file):
        if not isinstance(tokens, dict):
            raise ValueError("it must hold tokens and their ids")
    merges = file.with_name(MERGES)
    with _blaming(merges):
        pairs = _pairs(merges.read_text(encoding="utf-8"), tokens)
    special = {"id": tokens.get(END_OF_TEXT), "content": END_OF_TEXT, "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "added_tokens": [special] if END_OF_TEXT in tokens else [], "pre_tokenizer": GPT2_WORDS,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": tokens, "merges": pairs}}


def _pairs(merges: str, tokens: dict[str, int]) -> list[list[str]]:
    """The pairs of a merges.txt; ValueError names a line that is none."""
    pairs = []
    for number, line in enumerate(merges.split("\n"), start=1):
        if line and not line.startswith("#version"):
            pair = line.split(" ")
            if len(pair) != 2 or not {*pair, "".join(pair)} <= tokens.keys():
                raise ValueError(f"line {number} is {line!r:.60}, expected two tokens with a blank between, which are in "
                                 f"{VOCABULARY}, as is their text without the blank")
            pairs.append(pair)
    return pairs


def _cut_of(described: dict[str, Any]) -> re.Pattern | None:
    """Where a text can be cut; None if that is unknown, or special tokens may extend over blanks."""
    for token in described["added_tokens"]:
        if token["rstrip"] or re.search(r"\s", token["content"]):
            return None
    if described["normalizer"]:
        return None
    words = described["pre_tokenizer"] or {}
    if words == GPT2_WORDS:
        return GPT2_CUT
    split, *others = words.get("pretokenizers", [None])
    is_llama3 = split == {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated",
                          "invert": False} and others == [GPT2_WORDS | {"use_regex": False}]
    return LLAMA3_CUT if is_llama3 else None


def _pieces(text: str, cut: re.Pattern) -> Iterator[str]:
    """The text in pieces of at least PIECE characters."""
    start = 0
    while start < len(text):
        found = cut.search(text, start + PIECE)
        end = found.end() if found else len(text)
        yield text[start:end]
        start = end
