"""Tokenizers: from text to token ids and back."""
from typing import Any

from models.tokenizers.base import PICTURE_LENGTH, SAMPLE_LENGTH, TEMPERATURE, Tokenizer
from models.tokenizers.byte_pairs import BytePairs
from models.tokenizers.bytes import Bytes
from models.tokenizers.characters import Vocabulary

__all__ = ["PICTURE_LENGTH", "SAMPLE_LENGTH", "TEMPERATURE", "TOKENIZERS", "BytePairs", "Bytes", "Tokenizer", "Vocabulary",
           "tokenizer_of"]

TOKENIZERS: dict[str, type[Tokenizer]] = {tokenizer.kind: tokenizer for tokenizer in (Vocabulary, Bytes, BytePairs)}


def tokenizer_of(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a state; ValueError, TypeError or KeyError if it is invalid, MissingExtra if it needs a library that
    is not installed."""
    return TOKENIZERS[state["kind"]].of_state(state)
