"""Texts read in pieces: nothing is lost or cut in two, and whatever is wrong with a file is told with its place."""
import gzip
import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import text_files
from models.data import read_text
from models.text_files import DOCUMENT_END, TextFile, last_cut

TEXTS = {
    "words": "to be, or not to be; 42 times.\n" * 20,
    "other scripts": "Ωμέγα и альфа, così è — 日本語。 \u3000 🙂🙂 fin\n" * 20,
    "ends of lines": "\ufeffone\r\ntwo\rthree\n\r\n\r four\r\n" * 20,
    "no place to cut": "日本語。" * 60,
    "no place but within ends of lines": "x" + "\r\n" * 300,
    "blanks": " \n" * 300,
}


def read(path, field="text") -> list[str]:
    return [text for piece in TextFile.of(str(path), field).pieces() for text in piece.texts()]


@pytest.fixture(params=[1, 7, 64, 1 << 20])
def piece_bytes(request, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", request.param)
    monkeypatch.setattr(text_files, "TAIL_BYTES", 16)
    monkeypatch.setattr(text_files, "LONGEST", 200)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_pieces_are_the_text(tmp_path, piece_bytes, name, suffix):
    path, plain = tmp_path / f"text{suffix}", tmp_path / "plain"
    plain.write_bytes(TEXTS[name].encode())
    path.write_bytes(gzip.compress(plain.read_bytes()) if suffix else plain.read_bytes())
    pieces = list(TextFile.of(str(path), "text").pieces())
    assert b"".join(piece.content for piece in pieces) == plain.read_bytes()
    sizes = [len(piece.content) for piece in pieces]
    assert [piece.offset for piece in pieces] == list(itertools.accumulate([0, *sizes[:-1]]))
    assert "".join(read(path)) == read_text(str(plain))


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
    content = text.encode() + torn
    cut = last_cut(content)
    places = [i for i in range(1, len(text)) if text[i] in " \n" and text[i - 1].isalnum()]
    if not any(byte in b" \n" for byte in torn):
        assert cut == (len(text[: places[-1]].encode()) if places else 0)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_documents_of_lines(tmp_path, piece_bytes, suffix):
    texts = ["one", "", "two\nlines", "dr\r\nei\r", "😀 é\u2028\0", "x" * 90]
    lines = [json.dumps({"id": i, "text": text}, ensure_ascii=i % 2 == 0) for i, text in enumerate(texts)]
    content = ("\ufeff" + "\r\n".join(lines[:3]) + "\n\n \n" + "\n".join(lines[3:])).encode()
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    wanted = ["one", "", "two\nlines", "dr\nei\n", "😀 é\u2028\0", "x" * 90]
    assert read(path) == [text + DOCUMENT_END for text in wanted]


@pytest.mark.parametrize("name, content, says", [
    ("a.txt", b"", "a.txt is empty"),
    ("a.txt", b"abc def " * 9 + b"\0", "a.txt is binary (byte 72 is NUL)"),
    ("a.txt", b"abc def " * 9 + b"\xff" + b" abc", "a.txt is not UTF-8 (byte 72 is 0xff)"),
    ("a.txt", b"\xef\xbb\xbfabc\xff abc", "a.txt is not UTF-8 (byte 6 is 0xff)"),
    ("a.txt", "é".encode() * 8 + b"\xc3", "a.txt is not UTF-8 (byte 16 is 0xc3)"),
    ("a.txt", b"\x80" * 999, "a.txt is not UTF-8 (byte 0 is 0x80)"),
    ("a.gz", b"plain text", "a.gz is damaged, or no .gz file (Not a gzipped file (b'pl'))"),
    ("a.gz", gzip.compress(b"abc " * 99, mtime=0)[:-9], "a.gz is damaged, or no .gz file (Compressed file ended before the end"),
    ("a.gz", gzip.compress(b"abc " * 99, mtime=0)[:-8] + bytes(8), "a.gz is damaged, or no .gz file (CRC check failed"),
    ("a.gz", gzip.compress(b"abc ", mtime=0)[:10] + b"\xff" * 20, "a.gz is damaged, or no .gz file (Error -3 while decompressing"),
    ("a.gz", gzip.compress("naïve".encode("latin-1"), mtime=0), "a.gz is not UTF-8 (byte 2 is 0xef)"),
    ("a.jsonl", b'{"text": "a"}\n\n{"text": }', "a.jsonl, line 3 is no JSON (Expecting value: line 1 column 10"),
    ("a.jsonl", b'{"text": "a"}\n{"text": "b"', "a.jsonl, line 2 is no JSON"),
    ("a.jsonl", b'{"text": "a"}\n{"text": "' + b"b" * 199 + b'"}\n', "a.jsonl, line 2 is longer than 0 MB"),
    ("a.jsonl", b'{"text": "a"}\n["text"]', "a.jsonl, line 2 is ['text'], expected an object with the field 'text'"),
    ("a.jsonl", b'{"body": "a", "id": 3}', "a.jsonl, line 1 has no field 'text', but ['body', 'id']; name"),
    ("a.jsonl", b'{"text": null}', "a.jsonl, line 1: its field 'text' is None, expected a string"),
    ("a.jsonl", b'{"text": "\\ud800"}', "a.jsonl, line 1: its field 'text' holds half of a surrogate pair (\\ud800)"),
    ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}', "a.jsonl is not UTF-8 (byte 24 is 0xff)"),
    ("a.jsonl", b"[" * 150, "a.jsonl, line 1 is no JSON"),
])
def test_bad_sources(tmp_path, monkeypatch, name, content, says):
    monkeypatch.setattr(text_files, "PIECE_BYTES", 16)
    monkeypatch.setattr(text_files, "LONGEST", 200)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read(tmp_path / name)
    assert says in str(caught.value) and str(tmp_path) in str(caught.value)


def test_deep_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match="line 1 is nested too deeply"):
        read(path)
