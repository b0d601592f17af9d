"""The table of tasks; they need no download."""
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from models.task import FIRST, Examples, Make, Task

IMAGE_SIZE, PATCH_SIZE = 8, 2  # pixels of the striped images
LETTERS = tuple("abcdefghij")
DIGITS = tuple("0123456789")
KEYS, VALUES = LETTERS[:5], DIGITS[:4]


def letters_to(answer: Callable[[np.ndarray], np.ndarray]) -> Make:
    """Random letters, and their answer."""
    def make(generator: Generator, count: int, length: int) -> Examples:
        source = generator.integers(FIRST, FIRST + len(LETTERS), (count, length))
        return source, answer(source).copy()

    return make


def digits_of(numbers: np.ndarray, width: int) -> np.ndarray:
    """(count,) -> (count, width): decimal digits, as token ids."""
    return numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10 + FIRST


def addition(generator: Generator, count: int, length: int) -> Examples:
    a, b = generator.integers(0, 10**length, (2, count))
    plus = np.full((count, 1), FIRST + len(DIGITS))
    return np.hstack([digits_of(a, length), plus, digits_of(b, length)]), digits_of(a + b, length + 1)


def parity(generator: Generator, count: int, length: int) -> Examples:
    bits = generator.integers(0, 2, (count, length))
    return bits + FIRST, bits.cumsum(axis=1) % 2 + FIRST


def induction(generator: Generator, count: int, length: int) -> Examples:
    """`length` pairs of a letter and a digit, then one of the letters: which digit followed it?"""
    letters = generator.permuted(np.tile(np.arange(len(KEYS)), (count, 1)), axis=1)[:, :length]
    digits = generator.integers(0, len(VALUES), (count, length))
    asked = generator.integers(0, length, count)
    rows = np.arange(count)
    pairs = np.stack([letters, digits + len(KEYS)], axis=2).reshape(count, 2 * length)
    return np.hstack([pairs, letters[rows, asked][:, None]]) + FIRST, digits[rows, asked]


NOUNS, ADJECTIVES, VERBS = ("dog", "cat", "bird", "fish"), ("big", "red", "old", "shy"), ("saw", "fed", "bit", "met")
ENGLISH = ("the", *ADJECTIVES, *NOUNS, *VERBS)
TOY = tuple(f"{noun}-la" for noun in NOUNS) + tuple(f"{adjective}-o" for adjective in ADJECTIVES) + (
    "did", *(f"{verb}-i" for verb in VERBS))


def translation(generator: Generator, count: int, length: int) -> Examples:
    """the ADJECTIVE NOUN VERB the ADJECTIVE NOUN; length 2 drops the last adjective, length 1 both. In the other language
    the article is part of the noun, adjectives follow it, and a separate word marks the past: 7 words become 6."""
    adjectives = generator.integers(0, 4, (count, 2))
    nouns, verbs = generator.integers(0, 4, (count, 2)), generator.integers(0, 4, count)
    the, did = np.zeros(count, int), np.full(count, 8)
    source, target = [], []
    for i in range(2):
        is_described = length > i + 1 or length > 2
        source += [the] + [1 + adjectives[:, i]] * is_described + [5 + nouns[:, i]]
        target += [nouns[:, i]] + [4 + adjectives[:, i]] * is_described
        if i == 0:
            source.append(9 + verbs)
            target += [did, 9 + verbs]
    return np.stack(source, axis=1) + FIRST, np.stack(target, axis=1) + FIRST + len(ENGLISH)


GOOD, BAD = ("good", "fine", "great", "fun"), ("bad", "dull", "poor", "sad")
NEUTRAL = "film", "plot", "cast", "it", "was"
SENTIMENT = ("not", *GOOD, *BAD, *NEUTRAL)


def sentiment(generator: Generator, count: int, length: int) -> Examples:
    """One judgement among neutral words; "not" before it inverts it."""
    words = generator.integers(1 + len(GOOD) + len(BAD), len(SENTIMENT), (count, length))
    place, is_good, is_negated = generator.integers(1, length, count), *generator.integers(0, 2, (2, count))
    rows = np.arange(count)
    words[rows, place] = generator.integers(1, 1 + len(GOOD), count) + len(GOOD) * (1 - is_good)
    words[rows, place - 1] = np.where(is_negated, 0, words[rows, place - 1])
    return words + FIRST, is_good ^ is_negated


RIVER, MONEY = ("river", "water", "shore", "boat"), ("money", "loan", "cash", "account")
BANK = ("bank", *RIVER, *MONEY, "the", "a", "near", "to", "went", "saw")


def bank(generator: Generator, count: int, length: int) -> Examples:
    """Neutral words, one revealing word, and "bank" at the end: of the river, or of the money?"""
    words = generator.integers(1 + len(RIVER) + len(MONEY), len(BANK), (count, length))
    is_money = generator.integers(0, 2, count)
    words[np.arange(count), generator.integers(0, length - 1, count)] = 1 + generator.integers(0, 4, count) + 4 * is_money
    words[:, -1] = 0
    return words + FIRST, is_money


def stripes(generator: Generator, count: int, length: int) -> Examples:
    """Noisy images (count, 1, 8, 8) of stripes with period 4: horizontal, vertical, or along either diagonal."""
    rows, columns = np.indices((IMAGE_SIZE, IMAGE_SIZE))
    directions = np.stack([rows, columns, rows + columns, rows - columns])
    label, shift = generator.integers(0, 4, (2, count))
    bright = (directions[label] + shift[:, None, None]) % 4 < 2
    return (bright + 0.3 * generator.standard_normal(bright.shape)).astype(np.float32)[:, None], label


TASKS = {task.name: task for task in (
    Task("copy", "write the letters again", LETTERS, letters_to(lambda letters: letters), (3, 8)),
    Task("reverse", "write the letters backwards", LETTERS, letters_to(lambda letters: letters[:, ::-1]), (3, 8)),
    Task("sort", "write the letters in alphabetical order", LETTERS, letters_to(lambda letters: np.sort(letters, axis=1)),
         (3, 8)),
    Task("addition", "add two numbers", (*DIGITS, "+"), addition, (1, 2)),
    Task("parity", "write the parity of the bits so far", ("0", "1"), parity, (3, 8)),
    Task("translation", "7 words of one language to 6 of another", ENGLISH + TOY, translation, (1, 3)),
    Task("induction", "which digit followed this letter?", KEYS + VALUES, induction, (2, 4), VALUES, "last",
         positions="rotary", steps=4000),
    Task("sentiment", "was it good or bad?", SENTIMENT, sentiment, (4, 8), ("bad", "good")),
    Task("bank", "the bank of the river, or of the money?", BANK, bank, (4, 8), ("river", "money"), "last"),
    Task("stripes", "how do the stripes run?", (), stripes, (1, 1), ("lie", "stand", "rise", "fall")),
)}
