"""Texts, vocabularies, splits and batches."""
import hashlib
import os
import socket

import numpy as np
import pytest

from models.data import DEFAULT_SYMBOLS, IGNORED, Corpus, Vocabulary, default_text, load_corpus, windows


def test_default_corpus_has_96_symbols_and_a_fixed_split():
    corpus = load_corpus()
    assert len(DEFAULT_SYMBOLS) == len(corpus.tokenizer) == 96
    assert set(default_text()) <= set(DEFAULT_SYMBOLS)
    assert len(corpus.train) == int(0.9 * len(default_text())) > 300_000
    text = corpus.tokenizer.decode(corpus.train) + corpus.tokenizer.decode(corpus.validation)
    assert text == default_text()
    assert corpus.sha256 == load_corpus().sha256


def test_text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("naïve Ωmega\n" * 20, encoding="utf-8")
    corpus = load_corpus(str(path), context=8)
    assert corpus.tokenizer.symbols == "\n aegmnvïΩ"
    assert (len(corpus.train), len(corpus.validation)) == (216, 24)
    assert corpus.tokenizer.decode(corpus.train[:12]) == "naïve Ωmega\n"
    assert corpus.path == str(path) and corpus.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("content, says", [
    (b"", "is empty"),
    (b"abc\0def" * 100, "binary (byte 3 is NUL)"),
    ("für".encode("latin-1") * 100, "not UTF-8 (byte 1 is 0xfc)"),
    (b"a" * 80, "too short: its 80 characters make 72 tokens for training and 8 for validation"),
])
def test_bad_text(tmp_path, content, says):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load_corpus(str(path), context=8)
    assert says in str(caught.value) and str(path) in str(caught.value)


def test_lines_end_as_open_has_them_end(tmp_path):
    path, unix = tmp_path / "text.txt", tmp_path / "unix.txt"
    path.write_bytes(b"one\r\ntwo\rthree\n\r\r\n" * 10)
    unix.write_text(path.read_text())
    corpus, plain = load_corpus(str(path)), load_corpus(str(unix))
    assert corpus.tokenizer.decode(corpus.train[:14]) == "one\ntwo\nthree\n"
    assert corpus.tokenizer.symbols == plain.tokenizer.symbols and corpus.sha256 == plain.sha256


@pytest.mark.parametrize("path", ["pipe", "socket", os.devnull])
def test_a_text_that_is_no_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(ValueError, match=f"{path} is a pipe, socket or device; write its text into a file"):
            load_corpus(path)


def test_shortest_text_that_will_do(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a" * 90)
    assert len(load_corpus(str(path), context=8).validation) == 9


def test_vocabulary_round_trip_and_unknown_characters():
    vocabulary = Vocabulary.of("hello, wörld 🙂")
    assert vocabulary.decode(vocabulary.encode("wörld 🙂")) == "wörld 🙂"
    assert vocabulary.encode("").shape == (0,)
    with pytest.raises(ValueError, match="no 'x' 'é'; it knows these"):
        vocabulary.encode("xéx")


@pytest.mark.parametrize("symbols", ["", "ba", "aa"])
def test_bad_vocabulary(symbols):
    with pytest.raises(ValueError, match="ascending order"):
        Vocabulary(symbols)


def test_batches_shift_by_one_reach_both_ends_and_depend_on_the_generator_alone():
    corpus = Corpus(None, Vocabulary("a"), np.arange(12), np.arange(3), "", 3)
    generator = np.random.default_rng(1)
    drawn = [corpus.batch(generator, 3, 4) for _ in range(50)]
    assert all(inputs.shape == (3, 4) and (targets == inputs + 1).all() for inputs, targets in drawn)
    assert {int(row[0]) for inputs, _ in drawn for row in inputs} == set(range(8))  # 0 .. 12 - 4 - 1
    np.testing.assert_array_equal(corpus.batch(np.random.default_rng(1), 3, 4), drawn[0])


def test_a_corpus_in_a_given_vocabulary(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abba" * 20)
    corpus = load_corpus(str(path), tokenizer=Vocabulary("\nabc"))
    assert corpus.tokenizer.symbols == "\nabc" and corpus.train[:4].tolist() == [1, 2, 2, 1]
    with pytest.raises(ValueError, match="the vocabulary has no 'b'"):
        load_corpus(str(path), tokenizer=Vocabulary("a"))


@pytest.mark.parametrize("length", [2, 5, 6, 7, 20, 21, 22])
def test_windows_take_every_target_once(length):
    pairs = [(inputs[targets != IGNORED], targets[targets != IGNORED])
             for inputs, targets in windows(np.arange(length), context=5, batch_size=3)]
    inputs, targets = map(np.concatenate, zip(*pairs))
    np.testing.assert_array_equal(inputs, np.arange(length - 1))
    np.testing.assert_array_equal(targets, np.arange(1, length))


def test_limited_windows_are_spread_over_the_split():
    starts = [int(row[0]) for inputs, _ in windows(np.arange(1001), 10, 2, limit=3) for row in inputs]
    assert starts == [0, 490, 990]
