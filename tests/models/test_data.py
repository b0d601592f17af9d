"""Texts: vocabularies, splits, batches and windows; errors name the place in the file."""
import hashlib
import os
import socket

import numpy as np
import pytest

from models.data import DEFAULT_SYMBOLS, IGNORED, Corpus, Vocabulary, default_text, load_corpus, windows
from refusals import all_refused


def test_default_corpus_has_96_symbols_and_a_fixed_split():
    corpus = load_corpus()
    assert len(DEFAULT_SYMBOLS) == len(corpus.tokenizer) == 96
    assert set(default_text()) <= set(DEFAULT_SYMBOLS)
    assert len(corpus.train) == int(0.9 * len(default_text())) > 300_000
    assert corpus.tokenizer.decode(corpus.train) + corpus.tokenizer.decode(corpus.validation) == default_text()
    assert corpus.sha256 == load_corpus().sha256
    in_bytes, symbols = load_corpus(tokenizer="bytes"), np.frombuffer(DEFAULT_SYMBOLS.encode(), np.uint8)
    np.testing.assert_array_equal(symbols[corpus.train], in_bytes.train)
    np.testing.assert_array_equal(symbols[corpus.validation], in_bytes.validation)
    assert corpus.sha256 == in_bytes.sha256 and in_bytes.validation_bytes == len(in_bytes.validation)


def test_a_text_file(tmp_path):
    path, unix = tmp_path / "text.txt", tmp_path / "unix.txt"
    path.write_text("naïve Ωmega\n" * 20, encoding="utf-8")
    corpus = load_corpus(str(path), context=8)
    assert corpus.tokenizer.symbols == "\n aegmnvïΩ"
    assert (len(corpus.train), len(corpus.validation)) == (216, 24)
    assert corpus.tokenizer.decode(corpus.train[:12]) == "naïve Ωmega\n"
    assert corpus.path == str(path) and corpus.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"one\r\ntwo\rthree\n\r\r\n" * 10)
    unix.write_text(path.read_text())  # with the line ends of open()
    corpus, plain = load_corpus(str(path)), load_corpus(str(unix))
    assert corpus.tokenizer.decode(corpus.train[:14]) == "one\ntwo\nthree\n"
    assert corpus.tokenizer.symbols == plain.tokenizer.symbols and corpus.sha256 == plain.sha256
    path.write_text("a" * 90)
    assert len(load_corpus(str(path), context=8).validation) == 9, "the shortest text allowed"
    path.write_text("abba" * 20)
    corpus = load_corpus(str(path), tokenizer=Vocabulary("\nabc"))
    assert corpus.tokenizer.symbols == "\nabc" and corpus.train[:4].tolist() == [1, 2, 2, 1]
    with pytest.raises(ValueError, match="the vocabulary has no 'b'"):
        load_corpus(str(path), tokenizer=Vocabulary("a"))


def test_bad_texts():
    os.mkfifo("pipe")
    for name, content in (("empty", b""), ("binary", b"abc\0def" * 100), ("latin", "für".encode("latin-1") * 100), ("short", b"a" * 80)):
        with open(name, "wb") as file:
            file.write(content)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        all_refused(lambda path: load_corpus(path, context=8), [
            ("empty", "empty is empty"), ("binary", "binary is binary (byte 3 is NUL)"), ("latin", "latin is not UTF-8 (byte 1 is 0xfc)"),
            ("short", "short is too short: its 80 characters make 72 tokens for training and 8 for validation"),
            *((path, f"{path} is a pipe, socket or device; write its text into a file") for path in ("pipe", "socket", os.devnull))])


def test_vocabulary_round_trip_and_unknown_characters():
    vocabulary = Vocabulary.of("hello, wörld 🙂")
    assert vocabulary.decode(vocabulary.encode("wörld 🙂")) == "wörld 🙂" and vocabulary.encode("").shape == (0,)
    all_refused(vocabulary.encode, [("xéx", "no 'x' 'é'; it knows these")])
    all_refused(Vocabulary, [(symbols, "ascending order") for symbols in ("", "ba", "aa")])


def test_batches_shift_targets_by_one_and_reach_both_ends_of_the_text():
    corpus = Corpus(None, Vocabulary("a"), np.arange(12), np.arange(3), "", 3)
    generator = np.random.default_rng(1)
    drawn = [corpus.batch(generator, 3, 4) for _ in range(50)]
    assert all(inputs.shape == (3, 4) and (targets == inputs + 1).all() for inputs, targets in drawn)
    assert {int(row[0]) for inputs, _ in drawn for row in inputs} == set(range(8))  # 0 .. 12 - 4 - 1
    np.testing.assert_array_equal(corpus.batch(np.random.default_rng(1), 3, 4), drawn[0])


def test_windows_have_every_target_once_or_are_spread_evenly():
    for length in (2, 5, 6, 7, 20, 21, 22):
        pairs = [(inputs[targets != IGNORED], targets[targets != IGNORED])
                 for inputs, targets in windows(np.arange(length), context=5, batch_size=3)]
        inputs, targets = map(np.concatenate, zip(*pairs))
        np.testing.assert_array_equal(inputs, np.arange(length - 1))
        np.testing.assert_array_equal(targets, np.arange(1, length))
    starts = [int(row[0]) for inputs, _ in windows(np.arange(1001), 10, 2, limit=3) for row in inputs]
    assert starts == [0, 490, 990]
