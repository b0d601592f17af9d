"""Texts in memory or read in pieces: vocabularies, splits, batches and windows; errors name the place in the file."""
import gzip
import hashlib
import itertools
import json
import os
import re
import socket

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import text_files
from models.data import DEFAULT_SYMBOLS, IGNORED, Corpus, Vocabulary, default_text, load_corpus, read_text, windows
from models.text_files import DOCUMENT_END, TextFile, last_cut
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


# ---- in pieces ----

TEXTS = {
    "words": "to be, or not to be; 42 times.\n" * 20,
    "other scripts": "Ωμέγα и альфа, così è — 日本語。 \u3000 🙂🙂 fin\n" * 20,
    "line ends": "\ufeffone\r\ntwo\rthree\n\r\n\r four\r\n" * 20,
    "no place to cut": "日本語。" * 60,
    "no place but within line ends": "x" + "\r\n" * 300,
    "blanks": " \n" * 300,
}


def read(path, field="text") -> list[str]:
    return [text for piece in TextFile.of(str(path), field).pieces() for text in piece.texts()]


@pytest.fixture(params=[1, 7, 64, 1 << 20])
def piece_bytes(request, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", request.param)
    monkeypatch.setattr(text_files, "TAIL_BYTES", 16)
    monkeypatch.setattr(text_files, "LONGEST", 200)


def test_pieces_make_up_the_text(tmp_path, piece_bytes):
    for (name, text), suffix in itertools.product(TEXTS.items(), ("", ".gz")):
        path, plain = tmp_path / f"text{suffix}", tmp_path / "plain"
        plain.write_bytes(text.encode())
        path.write_bytes(gzip.compress(plain.read_bytes()) if suffix else plain.read_bytes())
        pieces = list(TextFile.of(str(path), "text").pieces())
        assert b"".join(piece.content for piece in pieces) == plain.read_bytes(), name
        sizes = [len(piece.content) for piece in pieces]
        assert [piece.offset for piece in pieces] == list(itertools.accumulate([0, *sizes[:-1]]))
        assert "".join(read(path)) == read_text(str(plain)), name


def test_documents_in_jsonl(tmp_path, piece_bytes):
    texts = ["one", "", "two\nlines", "dr\r\nei\r", "😀 é\u2028\0", "x" * 90]
    lines = [json.dumps({"id": i, "text": text}, ensure_ascii=i % 2 == 0) for i, text in enumerate(texts)]
    content = ("\ufeff" + "\r\n".join(lines[:3]) + "\n\n \n" + "\n".join(lines[3:])).encode()
    for name, packed in (("a.jsonl", content), ("a.jsonl.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(packed)
        wanted = ["one", "", "two\nlines", "dr\nei\n", "😀 é\u2028\0", "x" * 90]
        assert read(tmp_path / name) == [text + DOCUMENT_END for text in wanted]


def test_pieces_are_small_and_cut_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", 100)
    path = tmp_path / "text"
    path.write_text(TEXTS["words"])
    pieces = [piece.content for piece in TextFile.of(str(path), "text").pieces()]
    assert len(pieces) > 5 and max(map(len, pieces)) < 200
    assert all(re.search(rb"[a-z0-9]$", piece) for piece in pieces[:-1])
    assert all(re.match(rb"[ \n]", piece) for piece in pieces[1:])


@settings(max_examples=200, deadline=None)
@given(st.text("ab1 \n.,é日\u3000🙂", max_size=30), st.binary(max_size=3))
def test_the_last_cut(text, torn):
    cut = last_cut(text.encode() + torn)
    places = [i for i in range(1, len(text)) if text[i] in " \n" and text[i - 1].isalnum()]
    if not any(byte in b" \n" for byte in torn):
        assert cut == (len(text[: places[-1]].encode()) if places else 0)


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def test_bad_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", 16)
    monkeypatch.setattr(text_files, "LONGEST", 200)

    def read_content(name_and_content):
        name, content = name_and_content
        (tmp_path / name).write_bytes(content)
        return read(tmp_path / name)

    all_refused(read_content, [((name, content), f"{tmp_path}/{name}{says}") for name, content, says in [
        ("a.txt", b"", " is empty"),
        ("a.txt", b"abc def " * 9 + b"\0", " is binary (byte 72 is NUL)"),
        ("a.txt", b"abc def " * 9 + b"\xff" + b" abc", " is not UTF-8 (byte 72 is 0xff)"),
        ("a.txt", b"\xef\xbb\xbfabc\xff abc", " is not UTF-8 (byte 6 is 0xff)"),
        ("a.txt", "é".encode() * 8 + b"\xc3", " is not UTF-8 (byte 16 is 0xc3)"),
        ("a.txt", b"\x80" * 999, " is not UTF-8 (byte 0 is 0x80)"),
        ("a.gz", b"plain text", " is damaged, or not a .gz file (Not a gzipped file (b'pl'))"),
        ("a.gz", packed(b"abc " * 99)[:-9], " is damaged, or not a .gz file (Compressed file ended before the end"),
        ("a.gz", packed(b"abc " * 99)[:-8] + bytes(8), " is damaged, or not a .gz file (CRC check failed"),
        ("a.gz", packed(b"abc ")[:10] + b"\xff" * 20, " is damaged, or not a .gz file (Error -3 while decompressing"),
        ("a.gz", packed("naïve".encode("latin-1")), " is not UTF-8 (byte 2 is 0xef)"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": }', ", line 3 is not JSON (Expecting value: line 1 column 10"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b"', ", line 2 is not JSON"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "' + b"b" * 199 + b'"}\n', ", line 2 is longer than 0 MB"),
        ("a.jsonl", b'{"text": "a"}\n["text"]', ", line 2 is ['text'], expected an object with the field 'text'"),
        ("a.jsonl", b'{"body": "a", "id": 3}', ", line 1 has no field 'text', only ['body', 'id']; name"),
        ("a.jsonl", b'{"text": null}', ", line 1: its field 'text' is None, expected a string"),
        ("a.jsonl", b'{"text": "\\ud800"}', ", line 1: its field 'text' has a lone surrogate (\\ud800)"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}', " is not UTF-8 (byte 24 is 0xff)"),
        ("a.jsonl", b"[" * 150, ", line 1 is not JSON"),
    ]])
    monkeypatch.undo()
    all_refused(read_content, [(("a.jsonl", b"[" * 200_000), "line 1 is nested too deeply")])
