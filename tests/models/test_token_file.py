"""Texts of any size: pieces make up the text, and their tokens, in a file made once, are those of the text in memory."""
import itertools
import json
import os
import pathlib

import numpy as np
import pytest

from models import load_corpus, token_file
from models.data import Corpus, windows
from models.tokenizers import Bytes, Vocabulary
from models.token_file import Text, pieces
from refusals import all_refused, one_line
from small_runs import TEXT, assert_same_runs

TEXTS = {
    "words": "to be, or not to be; 42 times.\n" * 20,
    "other scripts": "Ωμέγα и альфа, così è — 日本語。 \u3000 🙂🙂 fin\n" * 20,
    "line ends": "\ufeffone\r\ntwo\rthree\n\r\n\r four\r\n" * 20,
    "no place to cut": "日本語。" * 60,
    "no place but within line ends": "x" + "\r\n" * 300,
    "blanks": " \n" * 300,
}


def written(name: str, text: str) -> str:
    pathlib.Path(name).write_bytes(text.encode())
    return name


def in_memory(*paths: str, tokenizer="characters") -> Corpus:
    """The corpus of texts, from the definitions."""
    text = "".join(pathlib.Path(path).read_text(encoding="utf-8-sig") for path in paths)
    splits = text[: int(0.9 * len(text))], text[int(0.9 * len(text)):]
    if isinstance(tokenizer, str):
        tokenizer = Vocabulary.of(text) if tokenizer == "characters" else Bytes()
    return Corpus(None, tokenizer, *map(tokenizer.encode, splits), Text.of(paths).sha256, len(splits[1].encode()))


def assert_same(one: Corpus, other: Corpus) -> None:
    assert one.tokenizer.state() == other.tokenizer.state() and one.description == other.description
    assert (one.sha256, one.validation_bytes) == (other.sha256, other.validation_bytes)
    for part in ("train", "validation"):
        np.testing.assert_array_equal(getattr(one, part)[:], getattr(other, part)[:])


def files() -> list[pathlib.Path]:
    return sorted(token_file.cache_folder().iterdir())


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_tokens_are_those_of_the_text_in_memory(monkeypatch, size):
    monkeypatch.setattr(token_file, "PIECE", size)
    monkeypatch.setattr(token_file, "TAIL", 16)
    for number, (text, kind) in enumerate(itertools.product(TEXTS.values(), ("characters", "bytes"))):
        path = written(f"{number}.txt", text)
        assert "".join(pieces([path], "")) == pathlib.Path(path).read_text(encoding="utf-8-sig")
        assert_same(load_corpus(path, tokenizer=kind), in_memory(path, tokenizer=kind))
    paths = [written("a.txt", TEXTS["line ends"]), written("b.txt", TEXTS["other scripts"])]
    corpus = load_corpus(paths)
    assert_same(corpus, in_memory(*paths))
    assert corpus.path == [os.path.abspath(path) for path in paths] and load_corpus(paths[:1]).path == os.path.abspath("a.txt")


def test_batches_and_windows_are_those_of_arrays(text_file):
    mapped, corpus = load_corpus(str(text_file)), in_memory(text_file)
    for seed in range(5):
        for one, other in zip(*(data.batch(np.random.default_rng(seed), 9, 100) for data in (mapped, corpus))):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype == np.int64
    for part, limit in itertools.product(("train", "validation"), (None, 7)):
        for pair in zip(*(windows(getattr(data, part), 30, 4, limit) for data in (mapped, corpus)), strict=True):
            np.testing.assert_array_equal(*pair)


def test_pieces_are_small_and_cut_between_words(monkeypatch):
    monkeypatch.setattr(token_file, "PIECE", 100)
    found = list(pieces([written("a.txt", TEXTS["words"])], ""))
    assert len(found) > 5 and max(map(len, found)) < 200
    assert all(one[-1].isalnum() and other[0] in " \n" for one, other in itertools.pairwise(found))


def test_ids_are_as_wide_as_the_vocabulary_needs():
    for count, width in ((1 << 16, 2), ((1 << 16) + 1, 4)):
        path = written(f"{width}.txt", "".join(map(chr, range(0x10000, 0x10000 + count))))
        assert_same(load_corpus(path), in_memory(path))
        assert count * width < max(file.stat().st_size for file in files()) < count * width + 1000


# ---- made once, whole or not at all ----

def test_a_file_is_made_once_and_again_when_text_or_tokenizer_change():
    path = written("a.txt", TEXTS["words"])
    assert_same(load_corpus(path), in_memory(path))
    (made,) = files()
    inode, before = made.stat().st_ino, os.stat(path)
    assert_same(load_corpus(os.path.abspath(path)), in_memory(path))
    assert made.stat().st_ino == inode
    running = load_corpus(path)
    written(path, TEXTS["words"].replace("42", "24"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.path.getsize(path) == before.st_size
    assert_same(load_corpus(path), in_memory(path))
    assert files() == [made] and made.stat().st_ino != inode, "it takes the place of the old one"
    assert "42" in running.tokenizer.decode(running.train[:]), "which a running training keeps"
    for tokenizer in ("bytes", Vocabulary.of(TEXTS["words"] + "XYZ")):
        assert_same(load_corpus(path, tokenizer=tokenizer), in_memory(path, tokenizer=tokenizer))
    assert len(files()) == 2


class Killed(BaseException):
    pass


@pytest.mark.parametrize("name", ["replace", "fsync"])
@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")])
def test_a_file_is_whole_or_not_there(monkeypatch, name, error):
    path = written("a.txt", TEXTS["words"])

    def fail(*arguments):
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(os, name, fail)
        load_corpus(path)
    assert files() == []
    assert_same(load_corpus(path), in_memory(path))


def test_a_damaged_file_is_made_again():
    path = written("a.txt", TEXTS["words"])
    load_corpus(path)
    (made,) = files()
    good = made.read_bytes()
    header = json.loads(good[-8 - int.from_bytes(good[-8:], "little"):-8])
    start = len(good) - 8 - int.from_bytes(good[-8:], "little")
    others = [json.dumps(header | change).encode() for change in ({"counts": [1, 2, 3]}, {"counts": [1, 2]}, {"counts": None}, {"more": 1},
                                                                   {"dtype": "object"}, {"counts": [-1, 559]})] + [b"[]", b"{", b"5"]
    for content in (*(good[:size] for size in range(0, len(good), 97)), good[1:], good[:-8] + b"\xff" * 8, good[:-8] + bytes(8),
                    *(good[:start] + other + len(other).to_bytes(8, "little") for other in others)):
        made.write_bytes(content)
        assert_same(load_corpus(path), in_memory(path))
        assert made.read_bytes() == good


def test_without_a_cache_folder(monkeypatch):
    path = written("a.txt", TEXTS["words"])
    monkeypatch.setattr(token_file, "cache_folder", lambda: pathlib.Path("a.txt", "texts"))
    assert_same(load_corpus(path), in_memory(path))


def test_bad_texts(monkeypatch):
    monkeypatch.setattr(token_file, "PIECE", 16)
    all_refused(lambda content: load_corpus(written("a.txt", "") and pathlib.Path("a.txt").write_bytes(content) and "a.txt"), [
        (b"abc def " * 9999 + b"\0", "a.txt is binary (byte 79992 is NUL)"), (b"\x89PNG\0", "a.txt is binary (byte 4 is NUL)"),
        (b"abc def " * 9999 + b"\xff abc", "a.txt is not UTF-8 (byte 79992 is 0xff)"),
        (b"\xef\xbb\xbfabc\xff abc", "a.txt is not UTF-8 (byte 6 is 0xff)"),
        ("é".encode() * 8 + b"\xc3", "a.txt is not UTF-8 (byte 16 is 0xc3)"), (b"\x80" * 99, "a.txt is not UTF-8 (byte 0 is 0x80)")])
    text = Text.of([written("a.txt", "abc " * 99)])
    written("a.txt", "abd " * 99)
    with pytest.raises(ValueError, match="a.txt changed while it was read; try again"):
        token_file.tokens_of(text, Bytes(), 9)
    assert files() == []


def test_a_run_on_several_texts(run, text_file):
    text = text_file.read_text()
    one, two, whole = written("one.txt", text[:2000]), written("two.txt", text[2000:]), written("whole.txt", text)
    for out, *paths in (("r", one, two), ("s", whole)):
        assert run("train", "--text", *paths, *TEXT, "--out", out)[0] == 0
    assert_same_runs("r", "s")
    assert run("train", "--resume", "r", "--steps", 8)[0] == 0
    written("two.txt", text[2000:-1] + "a")
    one_line(run("train", "--resume", "r", "--steps", 9), f"{os.path.abspath(one)} and {os.path.abspath(two)} is not the text that r was", (2,))
    assert run("train", "--resume", "r", "--text", whole, "--steps", 9)[0] == 0
