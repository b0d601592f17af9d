"""Tokenizers of characters and bytes, responses, bits per byte, and the flag --tokenizer."""
import json
import os
import pathlib
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
import texts
from models import checkpoint, load_corpus
from models.extras import MissingExtra
from models.generate import generate
from models.tokenizers import Bytes, TokenizerJson, Vocabulary, tokenizer_of
from refusals import all_refused, one_line
from texts import ANY_TEXT, SMALL_RUN, SURROGATES


@settings(deadline=None)
@given(ANY_TEXT.filter(bool))
def test_encode_and_decode_round_trip(text):
    vocabulary = Vocabulary.of(text)
    for tokenizer, tokens in ((Bytes(), list(text.encode())), (vocabulary, [vocabulary.symbols.index(symbol) for symbol in text])):
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int64 and ids.tolist() == tokens and tokenizer.decode(ids) == text


@settings(deadline=None)
@given(st.text(), SURROGATES, st.text())
def test_half_a_surrogate_pair_is_refused(before, half, after):
    with pytest.raises(ValueError, match=r"holds '\\ud[89a-f]..' at character \d+, a lone surrogate") as error:
        Bytes().encode(before + half + after)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(st.lists(st.integers(0, 255)))
def test_bytes_that_are_not_utf8(ids):
    assert Bytes().decode(ids) == bytes(ids).decode(errors="replace") == "".join(Bytes().stream(ids))


def test_a_character_is_streamed_once_it_is_complete():
    for ids, pieces in [
        (list("aé🙂b".encode()), ["a", "é", "🙂", "b"]),
        ([0xF0, 0x9F, 0x99], ["�"]),  # never complete
        ([0xF0, 0x9F, 97, 0xFF, 98], ["�a", "�b"]),
        (list("�x".encode()), ["�x"]),  # a real one waits for the next
        ([], []),
    ]:
        assert list(Bytes().stream(iter(ids))) == pieces
    coming = iter(list(b"ab"))
    assert next(Bytes().stream(coming)) == "a" and next(coming) == ord("b"), "nothing is read ahead"
    assert Bytes().names([97, 10, 195, 255]) == ["a", "\n", "\\xc3", "\\xff"]


def test_ids_out_of_range_are_refused():
    for tokenizer, last in ((Vocabulary("abc"), 2), (Bytes(), 255), (models.TASKS["copy"], 12)):
        assert tokenizer.decode([]) == "" and tokenizer.decode(np.array([last]))
        all_refused(tokenizer.decode, [([last, i], f"token id {i}") for i in (-1, last + 1, 2**70)], IndexError)
    all_refused(Vocabulary("abc").decode, [([3], "decode: token id 3 is out of range; expected 0 to 2")],
                IndexError)
    all_refused(Bytes().decode, [([1.5], "'float' object")], TypeError)


def test_a_state_makes_the_same_tokenizer_and_bad_states_are_refused():
    for tokenizer in (Vocabulary("\nab"), Bytes()):
        state = json.loads(json.dumps(tokenizer.state()))
        again = tokenizer_of(state)
        assert type(again) is type(tokenizer) and again.state() == state and len(again) == len(tokenizer)
    for state in [{}, {"kind": "words"}, {"kind": None}, {"kind": []}, {"kind": "bytes", "symbols": "ab"}, {"kind": "characters"},
                  {"kind": "characters", "symbols": 5}, [], None, "bytes"]:
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


def test_only_tokens_of_the_tokenizer_are_drawn(small_model):
    vocabulary, model = Vocabulary("abc"), small_model(50)
    assert set(vocabulary.respond(model, "a", tokens=100, seed=0)) == set("abc")
    assert max(generate(model, [0], 100, seed=0)) >= 3  # the model itself draws others
    assert set(generate(model, [0], 100, temperature=0, vocabulary=1)) == {0}


def test_labels_of_bytes(small_model):
    (layer,) = Bytes().look(small_model(256), "é x")[1]
    assert layer.keys == layer.queries == ["\\xc3", "\\xa9", "␣", "x"]
    with pytest.raises(ValueError, match="a prompt of 18 bytes does not fit into the model's context of 16"):
        Bytes().look(small_model(256), "é" * 9)


# ---- texts ----

def test_every_tokenizer_has_the_same_split(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(chr(int(i)) for i in np.random.default_rng(0).integers(0x20AC, 0x20AC + 90, size=999)) + "ab")
    text = path.read_text()
    for kind in ("characters", "bytes"):
        corpus = load_corpus(str(path), tokenizer=kind)
        assert corpus.tokenizer.kind == kind and corpus.validation_bytes == len(text[900:].encode()) == 299
        assert corpus.tokenizer.decode(corpus.train[:]) == text[:900]
        assert corpus.tokenizer.decode(corpus.validation[:]) == text[900:]
    with pytest.raises(ValueError, match="tokenizer must be characters or bytes, or a Tokenizer, got 'words'"):
        load_corpus(tokenizer="words")


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_bits_per_byte(kind, small_model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("aé🙂 b€" * 300)
    corpus = load_corpus(str(path), context=16, tokenizer=kind)
    model = small_model(len(corpus.tokenizer))
    expected = texts.bits_per_byte(model, corpus.validation, len(path.read_text()[-180:].encode()))
    for is_last in (False, True):
        measured = corpus.evaluate(model, models.TrainingConfig(eval_windows=1000, batch_size=4), is_last)
        assert measured["bits_per_byte"] == pytest.approx(expected, rel=1e-5)
    some = corpus.evaluate(model, models.TrainingConfig(eval_windows=1, batch_size=4), is_last=True)
    assert some["full_bits_per_byte"] == pytest.approx(expected, rel=1e-5)
    assert f"{some['full_bits_per_byte']:.4f} bits per byte" in corpus.summary(some)
    per_token = measured["bits_per_byte"] / measured["val_loss"]
    assert some["val_loss"] != measured["val_loss"]  # an estimate from a part of the text
    assert some["bits_per_byte"] == pytest.approx(some["val_loss"] * per_token)


# ---- the command ----

def test_a_run_on_bytes(run, tmp_path):
    (tmp_path / "text.txt").write_text("Grüße, 🙂! " * 60)
    code, out, err = run("train", "--text", "text.txt", "--tokenizer", "bytes", "--out", "one", *SMALL_RUN)
    assert code == 0 and "a vocabulary of 256 bytes" in err and "bits per byte" in out
    rows = [json.loads(line) for line in (tmp_path / "one/metrics.jsonl").read_text().splitlines()]
    assert [("bits_per_byte" in row, row["val_loss"] is not None) for row in rows] == [(False, False), (True, True)] * 2
    assert run("train", "--resume", "one", "--tokenizer", "bytes", "--steps", 5)[0] == 0
    assert run("train", "--init-from", "one", "--text", "text.txt", "--out", "two", "--steps", 2)[0] == 0
    saved, answer = checkpoint.load("two"), models.respond(models.load("two"), "ß", tokens=20, seed=3) + "\n"
    assert saved.dataset["tokenizer"] == {"kind": "bytes"} and saved.config["vocabulary_size"] == 256
    assert run("sample", "--checkpoint", "two", "--prompt", "ß", "--tokens", 20, "--seed", 3) == (0, answer, "")
    assert run("look", "two", "--prompt", "ß🙂")[0] == 0


def test_the_library_is_missing(run, text_file, monkeypatch):
    for library in ("tokenizers", "safetensors"):
        monkeypatch.setitem(sys.modules, library, None)
    for call in (lambda: TokenizerJson({"model": {}}), lambda: tokenizer_of({"kind": "bpe", "tokenizer": {"model": {}}, "ends": []})):
        with pytest.raises(MissingExtra, match=r'needs tokenizers, which .*: pip install "minigrad-transformers\[hub\]"'):
            call()
    pathlib.Path("tokenizer.json").write_text('{"model": {}}')
    one_line(run("train", "--text", text_file, "--tokenizer", "tokenizer.json"), "minigrad: error: this needs tokenizers", codes=(1,))
    one_line(run("export", "starter", "--to", "folder"), "minigrad: error: this needs safetensors", codes=(1,))
    assert not os.path.exists("runs") and not os.path.exists("folder")
