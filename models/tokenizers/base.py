"""What all tokenizers have: text in, token ids out, and back; also token by token, as a model says them."""
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import nn
from models.attention_maps import attention_maps
from models.generate import generate
from models.pictures import LabelledMap, labelled, visible

SAMPLE_LENGTH, TEMPERATURE = 300, 0.8  # of a sample, in tokens
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # stands for bytes that are no UTF-8, and for ids that are no token


class Tokenizer:
    """Base of all tokenizers: a subclass has encode, decode, a length (ids are below it) and a state."""

    kind: ClassVar[str]  # its key in TOKENIZERS
    unit: ClassVar[str] = "tokens"  # what a text is measured in
    memory_per_byte: int = 16  # that it takes to make ids of a text, at most
    is_local: bool = True  # has a text the tokens of its parts, cut between a letter or digit and a blank or line end?
    ends: tuple[int, ...] = ()  # the ids after which a text is over

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__()")

    def encode(self, text: str) -> np.ndarray:
        """Token ids (int64) of a text; ValueError if it has none for a part of it."""
        raise NotImplementedError(f"{type(self).__name__} has no encode()")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a sequence of token ids; bytes that are not UTF-8 become U+FFFD."""
        raise NotImplementedError(f"{type(self).__name__} has no decode()")

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it, in JSON's types: its `kind`, and what `of_state` makes it of again."""
        raise NotImplementedError(f"{type(self).__name__} has no state()")

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Tokenizer":
        """The tokenizer of a state; ValueError, TypeError or KeyError if it makes no sense."""
        raise NotImplementedError(f"{cls.__name__} has no of_state()")

    @property
    def start(self) -> list[int]:
        """The ids that a model continues if nobody gives it a prompt."""
        return [0]

    @property
    def before_prompt(self) -> list[int]:
        """The ids that the models of this tokenizer expect in front of every prompt."""
        return []

    @property
    def shows_start(self) -> bool:
        """Is `start` a part of the text?"""
        return True

    def fits(self, vocabulary_size: int) -> bool:
        """Can a model with so many tokens have this tokenizer?"""
        return vocabulary_size == len(self)

    def names(self, ids: Sequence[int]) -> list[str]:
        """What each token is called, alone; bytes that are no character by their numbers."""
        return [self.decode([i]) for i in ids]

    def ends_open(self, ids: Sequence[int], text: str) -> bool:
        """May the end of this text of these ids turn into another with the next id?"""
        return text.endswith(REPLACEMENT)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids that come one by one: joined, it is that of `decode`. A character of several tokens comes with
        the last of them; bytes that turn out not to be UTF-8 come with the character after them, or at the end.

        Each piece is what the new tokens add to the text of the few before them, since a token may look otherwise at the
        beginning of a text (there SentencePiece has no blank).
        """
        known, new = [], []
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
        """The prompt (by default `start`) and its continuation, as it comes, until the text ends; `sampling` as in
        `generate`."""
        before, ids = (self.before_prompt, self.encode(prompt).tolist()) if prompt is not None else (
            ([], self.start) if self.shows_start else (self.start, []))
        continuation = generate(model, before + ids, tokens, temperature, vocabulary=len(self), ends=self.ends, **sampling)
        return self.stream(itertools.chain(ids, continuation))

    def look(self, model: nn.Module, prompt: str | None = None) -> tuple[str, list[LabelledMap]]:
        """(A title, the attention maps of a model that reads the prompt). ValueError if it cannot, or has none."""
        if not prompt:
            raise ValueError("there is no text to read; give at least one character with --prompt")
        ids, context = np.array(self.before_prompt + self.encode(prompt).tolist()), model.config.context
        if len(ids) > context:
            raise ValueError(f"a prompt of {len(ids)} {self.unit} does not fit into the model's context of {context}")
        return "", self.maps(model, ids)

    def maps(self, model: nn.Module, ids: np.ndarray) -> list[LabelledMap]:
        """The attention maps of a model that reads these tokens."""
        symbols = visible(self.names(ids))
        return labelled(attention_maps(model, ids), lambda path: (symbols, symbols))


def utf8(text: str) -> bytes:
    """The bytes of a text; ValueError if it holds a lone surrogate, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text holds {text[error.start]!r} at character {error.start}, a lone surrogate, which "
                         "UTF-8 does not have; leave it out") from None
