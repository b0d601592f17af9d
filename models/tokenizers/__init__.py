"""Tokenizers: from text to token ids and back."""
from typing import Any

from models.tokenizers.base import PICTURE_LENGTH, SAMPLE_LENGTH, TEMPERATURE, Tokenizer
from models.tokenizers.bytes import Bytes
from models.tokenizers.characters import Vocabulary
from models.tokenizers.tokenizer_json import TokenizerJson

__all__ = ["KINDS", "PICTURE_LENGTH", "SAMPLE_LENGTH", "TEMPERATURE", "Bytes", "Tokenizer", "TokenizerJson", "Vocabulary",
           "tokenizer_of"]

KINDS = Vocabulary.kind, Bytes.kind  # that need no file


def tokenizer_of(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a state; ValueError, TypeError or KeyError if it is invalid, MissingExtra if it needs a library that
    is not installed."""
    kinds: dict[str, type[Tokenizer]] = {kind.kind: kind for kind in (Vocabulary, Bytes, TokenizerJson)}
    return kinds[state["kind"]].of_state(state)
