"""Tokenizers of characters and bytes, what all tokenizers share, and the flags that choose one."""
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
import texts
from models import checkpoint, load_corpus
from models.data import DEFAULT_SYMBOLS, default_text
from models.extras import MissingExtra
from models.generate import generate
from models.tokenizers import BytePairs, Bytes, Vocabulary, tokenizer_of
from texts import ANY_TEXT, SMALL_RUN, SURROGATES


@settings(deadline=None)
@given(ANY_TEXT)
def test_bytes_come_back(text):
    ids = Bytes().encode(text)
    assert ids.dtype == np.int64 and bytes(ids.tolist()) == text.encode() and Bytes().decode(ids) == text


@settings(deadline=None)
@given(ANY_TEXT.filter(bool))
def test_characters_come_back(text):
    vocabulary = Vocabulary.of(text)
    ids = vocabulary.encode(text)
    assert ids.dtype == np.int64 and [vocabulary.symbols[i] for i in ids] == list(text) and vocabulary.decode(ids) == text


@settings(deadline=None)
@given(st.text(), SURROGATES, st.text())
def test_half_a_surrogate_pair_is_refused(before, half, after):
    with pytest.raises(ValueError, match=r"holds '\\ud[89a-f]..' at character \d+, half of a surrogate pair") as error:
        Bytes().encode(before + half + after)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(st.lists(st.integers(0, 255)))
def test_bytes_that_are_no_utf8(ids):
    assert Bytes().decode(ids) == bytes(ids).decode(errors="replace") == "".join(Bytes().stream(ids))


def test_ids_that_are_no_bytes():
    assert Bytes().decode([97, 256, -1, 98]) == "a��b" and Bytes().decode([]) == ""


@pytest.mark.parametrize("ids, pieces", [
    (list("aé🙂b".encode()), ["a", "é", "🙂", "b"]),
    ([0xF0, 0x9F, 0x99], ["�"]),  # never whole
    ([0xF0, 0x9F, 97, 0xFF, 98], ["�a", "�b"]),
    (list("�x".encode()), ["�x"]),  # a real one waits for the next
    ([], []),
])
def test_a_character_comes_when_it_is_whole(ids, pieces):
    assert list(Bytes().stream(iter(ids))) == pieces


def test_nothing_is_read_ahead():
    coming = iter(list(b"ab"))
    assert next(Bytes().stream(coming)) == "a" and next(coming) == ord("b")


def test_names_of_bytes():
    assert Bytes().names([97, 10, 195, 255]) == ["a", "\n", "\\xc3", "\\xff"]


@pytest.mark.parametrize("tokenizer", [Vocabulary("\nab"), Bytes()], ids=["characters", "bytes"])
def test_states(tokenizer):
    state = json.loads(json.dumps(tokenizer.state()))
    again = tokenizer_of(state)
    assert type(again) is type(tokenizer) and again.state() == state and len(again) == len(tokenizer)


@pytest.mark.parametrize("state", [{}, {"kind": "words"}, {"kind": None}, {"kind": []}, {"kind": "bytes", "symbols": "ab"},
                                   {"kind": "characters"}, {"kind": "characters", "symbols": 5}, [], None, "bytes"])
def test_states_that_make_no_sense(state):
    with pytest.raises((TypeError, ValueError, KeyError)):
        tokenizer_of(state)


# ---- models ----

def test_a_response_is_the_text_of_all_tokens(small_model):
    tokenizer, model = Bytes(), small_model(256)
    for seed in range(5):
        pieces = list(tokenizer.respond(model, "né", tokens=40, seed=seed))
        ids = [*tokenizer.encode("né"), *generate(model, tokenizer.encode("né"), 40, 0.8, seed=seed)]
        assert "".join(pieces) == tokenizer.decode(ids) and pieces[:2] == ["n", "é"] and "" not in pieces
    assert next(tokenizer.respond(model)) == "\n"


def test_tokens_that_the_tokenizer_lacks_are_never_drawn(small_model):
    vocabulary, model = Vocabulary("abc"), small_model(50)
    assert set(vocabulary.respond(model, "a", tokens=100, seed=0)) == set("abc")
    assert max(generate(model, [0], 100, seed=0)) >= 3  # or nothing was shown
    assert set(generate(model, [0], 100, temperature=0, vocabulary=1)) == {0}


def test_labels_of_bytes(small_model):
    (layer,) = Bytes().look(small_model(256), "é x")[1]
    assert layer.keys == layer.queries == ["\\xc3", "\\xa9", "␣", "x"]
    with pytest.raises(ValueError, match="a prompt of 18 bytes does not fit into the model's context of 16"):
        Bytes().look(small_model(256), "é" * 9)


# ---- texts ----

def test_all_tokenizers_validate_on_the_same_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(chr(int(i)) for i in np.random.default_rng(0).integers(0x20AC, 0x20AC + 90, size=999)) + "ab")
    text = path.read_text()
    for kind in ("characters", "bytes"):
        corpus = load_corpus(str(path), tokenizer=kind)
        assert corpus.tokenizer.kind == kind and corpus.validation_bytes == len(text[900:].encode()) == 299
        assert corpus.tokenizer.decode(corpus.train) == text[:900]
        assert corpus.tokenizer.decode(corpus.validation) == text[900:]


def test_the_default_text_is_the_same_in_bytes():
    characters, in_bytes = load_corpus(), load_corpus(tokenizer="bytes")
    symbols = np.frombuffer(DEFAULT_SYMBOLS.encode(), np.uint8)
    np.testing.assert_array_equal(symbols[characters.train], in_bytes.train)
    np.testing.assert_array_equal(symbols[characters.validation], in_bytes.validation)
    assert characters.sha256 == in_bytes.sha256 and in_bytes.validation_bytes == len(in_bytes.validation)
    assert len(default_text()) == len(in_bytes.train) + len(in_bytes.validation)


def test_unknown_kinds():
    with pytest.raises(ValueError, match="tokenizer must be characters, bytes or bpe, got 'words'"):
        load_corpus(tokenizer="words")


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_bits_per_byte(kind, small_model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("aé🙂 b€" * 300)
    corpus = load_corpus(str(path), context=16, tokenizer=kind)
    training = models.TrainingConfig(eval_windows=1000, batch_size=4)
    model = small_model(len(corpus.tokenizer))
    for is_last in (False, True):
        measured = corpus.evaluate(model, training, is_last)
        expected = texts.bits_per_byte(model, corpus.validation, len(path.read_text()[-180:].encode()))
        assert measured["bits_per_byte"] == pytest.approx(expected, rel=1e-5)
    assert f"{measured['bits_per_byte']:.4f} bits per byte" in corpus.summary(measured)
    some = corpus.evaluate(model, models.TrainingConfig(eval_windows=1, batch_size=4), is_last=False)
    per_token = measured["bits_per_byte"] / measured["val_loss"]
    assert some["val_loss"] != measured["val_loss"]  # of a part, which stands for all
    assert some["bits_per_byte"] == pytest.approx(some["val_loss"] * per_token)


# ---- the command ----

@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("Grüße, 🙂! " * 60)
    return tmp_path


def test_a_run_on_bytes(run, in_folder):
    code, out, err = run("train", "--text", "text.txt", "--tokenizer", "bytes", "--out", "one", *SMALL_RUN)
    assert code == 0 and "a vocabulary of 256 bytes" in err and "bits per byte" in out
    saved = checkpoint.load("one")
    assert saved.dataset["tokenizer"] == {"kind": "bytes"} and saved.config["vocabulary_size"] == 256
    rows = [json.loads(line) for line in (in_folder / "one/metrics.jsonl").read_text().splitlines()]
    assert [("bits_per_byte" in row, row["val_loss"] is not None) for row in rows] == [(False, False), (True, True)] * 2
    assert (in_folder / "one/checkpoint.best.npz").exists()
    assert run("train", "--resume", "one", "--tokenizer", "bytes", "--steps", 5)[0] == 0
    assert run("train", "--init-from", "one", "--text", "text.txt", "--out", "two", "--steps", 2)[0] == 0
    assert checkpoint.load("two").dataset["tokenizer"] == {"kind": "bytes"}
    model = models.load("two")
    assert isinstance(model.tokenizer, Bytes)
    code, out, err = run("sample", "--checkpoint", "two", "--prompt", "ß", "--tokens", 20, "--seed", 3)
    assert (code, err) == (0, "") and out == models.respond(model, "ß", tokens=20, seed=3) + "\n"
    assert run("look", "two", "--prompt", "ß🙂")[0] == 0


@pytest.mark.parametrize("arguments, says", [
    (["--tokenizer", "words"], "--tokenizer is 'words', which is none of characters, bytes, bpe, and no file or folder"),
    (["--tokenizer", ""], "--tokenizer is empty; choose characters, bytes, bpe, or a file or folder"),
    (["--tokenizer", "bytes", "--vocabulary-size", 300], "--vocabulary-size is 300, but the tokenizer has 256 tokens"),
    (["--task", "copy", "--tokenizer", "bytes"], "--tokenizer makes no sense with --task copy"),
    (["--init-from", "one", "--tokenizer", "bytes"], "--tokenizer makes no sense with --init-from one"),
    (["--init-from", "task"], "task/checkpoint.npz is from another architecture"),
    (["--resume", "one", "--tokenizer", "bytes"], "--tokenizer is bytes, but one/checkpoint.npz was trained with characters"),
    (["--resume", "task", "--tokenizer", "bytes"], "--tokenizer makes no sense with task/checkpoint.npz, which is of task"),
])
def test_flags_that_contradict(run, in_folder, arguments, says):
    if "one" in arguments:
        assert run("train", "--text", "text.txt", "--out", "one", *SMALL_RUN)[0] == 0
    if "task" in arguments:
        assert run("train", "--task", "copy", "--model", "causal", "--out", "task", "--steps", 1, "--width", 16, "--layers", 1)[0] == 0
    code, out, err = run("train", *arguments)
    assert code in (1, 2) and (out, err.count("\n")) == ("", 1) and says in err


def test_the_library_is_missing(run, in_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for call in (lambda: BytePairs.of("ab"), lambda: tokenizer_of({"kind": "bpe", "tokenizer": {"model": {}}, "ends": []})):
        with pytest.raises(MissingExtra, match=r'needs tokenizers, which .*: pip install "minigrad\[hub\]"'):
            call()
    code, out, err = run("train", "--text", "text.txt", "--tokenizer", "bpe")
    assert (code, out) == (1, "") and err.startswith("minigrad: error: this needs tokenizers") and err.count("\n") == 1
    assert not (in_folder / "runs").exists()


def test_a_text_that_is_too_long_for_the_memory(run, in_folder, monkeypatch):
    monkeypatch.setattr("models.commands.train.memory_size", lambda: 20e9)
    monkeypatch.setattr("os.path.getsize", lambda path: 10 ** 9)
    for arguments, fits in (([], True), (["--tokenizer", "bytes"], True), (["--tokenizer", "bpe"], False)):
        code, _, err = run("train", "--text", "text.txt", "--context", 10 ** 5, "--batch-size", 1, *arguments)
        assert code == 2 and ("text.txt is too short" if fits else "text.txt takes about 40 GB to read, and this") in err
