"""The base class of tokenizers: from text to token ids and back, also token by token as a model generates them."""
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import nn
from models.attention_maps import attention_maps
from models.generate import generate
from models.pictures import LabelledMap, labelled, visible
from models.config import check_whole

SAMPLE_LENGTH, TEMPERATURE = 300, 0.8  # defaults for samples
PICTURE_LENGTH = 32  # tokens of a text whose attention is drawn
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # for bytes that are not UTF-8, and ids that a vocabulary skips


class Tokenizer:
    """Base class of tokenizers: a subclass has encode, decode, a length (ids are below it) and a state."""

    kind: ClassVar[str]  # names it in a state
    unit: ClassVar[str] = "tokens"
    ends: tuple[int, ...] = ()  # the ids that end a text
    before_prompt: Sequence[int] = ()  # the ids that models expect in front of every prompt
    start: Sequence[int] = (0,)  # the ids that a model continues without a prompt
    shows_start: bool = True  # are these part of the text?

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__()")

    def encode(self, text: str) -> np.ndarray:
        """Token ids (int64) of a text; ValueError if a part of it has none."""
        raise NotImplementedError(f"{type(self).__name__} has no encode()")

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of a sequence of token ids; bytes that are not UTF-8 become U+FFFD. IndexError as for `checked`."""
        raise NotImplementedError(f"{type(self).__name__} has no decode()")

    def checked(self, ids: Sequence[int] | np.ndarray) -> list[int]:
        """The ids as a list; IndexError names one that is out of range."""
        known, size = list(map(operator.index, ids)), len(self)
        for i in known:
            if not 0 <= i < size:
                raise IndexError(f"decode: token id {i} is out of range; expected 0 to {size - 1}")
        return known

    def state(self) -> dict[str, Any]:
        """Its `kind` and what else `of_state` needs to rebuild it, in JSON's types."""
        raise NotImplementedError(f"{type(self).__name__} has no state()")

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Tokenizer":
        """The tokenizer of a state; ValueError, TypeError or KeyError if it is invalid."""
        raise NotImplementedError(f"{cls.__name__} has no of_state()")

    @property
    def described(self) -> dict[str, Any]:
        """The content of a tokenizer.json with which the library `tokenizers` gives the same ids."""
        raise NotImplementedError(f"{type(self).__name__} has no described")

    def fits(self, vocabulary_size: int) -> bool:
        """Can a model with this vocabulary size use this tokenizer?"""
        return vocabulary_size == len(self)

    def names(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """The text of each token alone; incomplete characters as the numbers of their bytes."""
        return [self.decode([i]) for i in ids]

    def ends_open(self, ids: Sequence[int], text: str) -> bool:
        """Could the next id change the end of this text of these ids?"""
        return text.endswith(REPLACEMENT)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids that come one by one; the pieces joined equal `decode`. A character of several tokens comes with
        the last of them; bytes that are not UTF-8 come with the next character, or at the end.

        Each piece is what new tokens add to the text of the few before them, since a token may look different at the start
        of a text (SentencePiece drops the blank there).
        """
        known: list[int] = []
        new: list[int] = []
        for i in ids:
            new.append(int(i))
            text = self.decode(known + new)
            if self.ends_open(new, text):
                continue
            if piece := text[len(self.decode(known)):]:
                yield piece
            known, new = (new if self.decode(new) else known + new), []
        if new:
            yield self.decode(known + new)[len(self.decode(known)):]

    def respond(self, model: nn.Module, prompt: str | None = None, tokens: int = SAMPLE_LENGTH,
                temperature: float = TEMPERATURE, **sampling: Any) -> Iterator[str]:
        """Stream the prompt (by default `start`) and its continuation, until the text ends; `sampling` as in `generate`."""
        check_whole("tokens", tokens)
        hidden, shown = (self.before_prompt, self.encode(prompt).tolist()) if prompt is not None else (
            ([], self.start) if self.shows_start else (self.start, []))
        continuation = generate(model, [*hidden, *shown], tokens, temperature, vocabulary=len(self), ends=self.ends,
                                **sampling)
        return self.stream(itertools.chain(shown, continuation))

    def look(self, model: nn.Module, prompt: str | None = None) -> tuple[str, list[LabelledMap]]:
        """(A title, the attention maps of a model that reads the prompt, by default a text of its own). ValueError if it
        does not fit, or the model has no attention."""
        title = ""
        if prompt is None:
            prompt = self.own_text(model, PICTURE_LENGTH)
            title = repr(prompt)
        if not prompt:
            raise ValueError("there is no text to read; give at least one character with --prompt")
        ids, context = np.array([*self.before_prompt, *self.encode(prompt).tolist()]), model.config.context
        if len(ids) > context:
            raise ValueError(f"a prompt of {len(ids)} {self.unit} does not fit into the model's context of {context}")
        return title, self.maps(model, ids)

    def own_text(self, model: nn.Module, tokens: int) -> str:
        """A text that a model knows: what it writes without a prompt, always taking the likeliest token, or drawing if all
        of these are blanks. As many tokens or, for a model with a short context, half of it; "" if it is blank."""
        count = min(tokens, model.config.context // 2)
        ways: list[dict[str, Any]] = [{"temperature": 0.0}, *({"seed": seed} for seed in range(8))]
        texts = ("".join(self.respond(model, tokens=count, **way)).replace(REPLACEMENT, "").strip() for way in ways)
        return next(filter(None, texts), "")

    def maps(self, model: nn.Module, ids: np.ndarray) -> list[LabelledMap]:
        """The attention maps of a model that reads these tokens."""
        symbols = visible(self.names(ids))
        return labelled(attention_maps(model, ids), lambda path: (symbols, symbols))


def tokenizer_json(model: dict[str, Any], pre_tokenizer: dict[str, Any], decoder: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder, "model": model}


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text; ValueError for a lone surrogate, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text holds {text[error.start]!r} at character {error.start}, a lone surrogate, which "
                         "UTF-8 does not have; leave it out") from None
