"""Texts for tokenizers, flags of a run that takes a moment, and a slow, obvious reference for bits per byte."""
import json
import math

import numpy as np
from hypothesis import strategies as st

import minigrad as mg

SURROGATES = st.characters(categories=("Cs",))
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SMALL_RUN = "--context", 16, "--layers", 1, "--heads", 2, "--width", 16, "--steps", 4, "--eval-every", 2, "--eval-windows", 4


def byte_pairs(text: str, size: int = 300) -> dict:
    """The content of a tokenizer.json that the library learns from a text: byte-level pairs, of GPT-2's words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text], trainer)
    return json.loads(tokenizer.to_str())


def bits_per_byte(model, tokens: np.ndarray, byte_count: int) -> float:
    """The sum of -log2 p over all tokens, window by window, per byte; the first token counts as the mean of the others."""
    bits, context = [], model.config.context
    for first in range(0, len(tokens) - 1, context):
        window = tokens[first : first + context + 1]
        logits = model(mg.tensor(window[None, :-1]))[0].detach().numpy()[0].astype(np.float64)
        for row, target in zip(logits, window[1:]):
            bits.append(-math.log2(np.exp(row[target]) / np.exp(row).sum()))
    return (sum(bits) + np.mean(bits)) / byte_count
