"""BytePairs, learnt here or by others: encoding against the library `tokenizers`, learning, decoding, files, states and runs."""
import copy
import functools
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from models import CheckpointError, checkpoint, load_corpus
from models.data import default_text
from models.generate import generate
from models.tokenizers import BytePairs, byte_pairs, tokenizer_of
from models.tokenizers.byte_pairs import LLAMA3_PATTERN
from refusals import all_refused
from texts import ANY_TEXT, SMALL_RUN, SURROGATES

tokenizers = pytest.importorskip("tokenizers")


def added(content: str, number: int, **flags: bool) -> dict:
    return dict(id=number, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) | flags


def learnt(pre_tokenizer, decoder, size: int = 500):
    """A tokenizers.Tokenizer trained on TEXT."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def like_llama3():
    """Llama 3's pattern, byte-level pairs, and a token before each text."""
    pre = tokenizers.pre_tokenizers
    split = pre.Split(tokenizers.Regex(LLAMA3_PATTERN), "isolated")
    tokenizer = learnt(pre.Sequence([split, pre.ByteLevel(add_prefix_space=False, use_regex=False)]), tokenizers.decoders.ByteLevel())
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))])
    return tokenizer


def like_llama2():
    """Like SentencePiece: no words, ▁ for blanks and before the text, and bytes for characters without a token."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdehlorwé", "▁h", "lo", "▁▁"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab={name: i for i, name in enumerate(names)}, merges=[("▁", "h"), ("l", "o"), ("▁", "▁")], unk_token="<unk>",
        byte_fallback=True, fuse_unk=True))
    normalizers, decoders = tokenizers.normalizers, tokenizers.decoders
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def with_metaspace():
    return learnt(tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace())


def like_gpt2():
    tokenizer = learnt(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel())
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


TEXT = default_text()[:30_000] + "naïve 🙂 日本語 Größe 🙂 日本 Größe\n" * 20 + "Yes.\nNo.\n" * 99
KINDS = {make.__name__: make for make in (like_gpt2, like_llama3, like_llama2, with_metaspace)}


@functools.cache
def made(kind: str):
    """(A tokenizers.Tokenizer, the same as BytePairs)"""
    tokenizer = KINDS[kind]()
    return tokenizer, BytePairs(json.loads(tokenizer.to_str()))


@functools.cache
def own() -> BytePairs:
    return BytePairs.of(TEXT, 400)


# Characters that decide where words begin and end, and where a text can be cut
AWKWARD = [" ", "  ", "\n", "\r\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2028", "\u3000", "\u200b", "a", "Z", "é", "ſ",
           "ß", "語", "🙂", "👩\u200d👩", "e\u0301", "1", "²", "٣", "1234", "'s", "'LL", "'", "_", ".", ".\n", "...", "»", "<|endoftext|>",
           "<|begin_of_text|>", "▁", "\0", "�", "the", " the", "def"]
AWKWARD_TEXT = st.one_of(ANY_TEXT, st.lists(st.sampled_from(AWKWARD), max_size=60).map("".join))


@settings(deadline=None)
@given(AWKWARD_TEXT)
def test_encode_and_decode_round_trip(text):
    for tokenizer in (own(), made("like_gpt2")[1], made("like_llama3")[1]):
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int64 and tokenizer.decode(ids) == text == "".join(tokenizer.stream(ids))


@settings(deadline=None)
@given(AWKWARD_TEXT)
def test_tokens_are_the_librarys_wherever_the_text_is_cut(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_pairs, "PIECE", 1)  # cuts wherever that is allowed
        patch.setattr(byte_pairs, "BATCH", 3)
        for kind in KINDS:
            library, tokenizer = made(kind)
            assert tokenizer.encode(text).tolist() == library.encode(text, add_special_tokens=False).ids, kind


def test_tokens_of_a_long_text_with_broken_utf8_are_the_librarys():
    generator = random.Random(0)
    content = bytearray((TEXT * 8).encode())
    for place in generator.sample(range(len(content)), 2000):
        content[place] = generator.randrange(256)
    text = content.decode(errors="replace")
    assert text.count("�") > 500 and len(text) > 3 * byte_pairs.PIECE
    library, tokenizer = made("like_gpt2")
    assert tokenizer.encode(text).tolist() == library.encode(text).ids
    assert len(list(byte_pairs._pieces(text, tokenizer._cut))) > 3


def test_which_tokenizers_cut_texts(monkeypatch):
    for kind, cuts in [("like_gpt2", True), ("like_llama3", True), ("like_llama2", False), ("with_metaspace", False)]:
        assert (made(kind)[1]._cut is not None) == made(kind)[1].is_local == cuts
    monkeypatch.setattr(byte_pairs, "PIECE", 1)
    tokenizer = made("like_llama3")[1]
    assert tokenizer.names(tokenizer.encode("Yes.\nNo.\nYes.\n"))[-2:] == ["Yes", ".\n"], "its words may end with a line"


@pytest.mark.parametrize("change", [
    {"normalizer": {"type": "Lowercase"}},
    {"added_tokens": [added("the cat", 500)]},
    {"added_tokens": [added("cat", 500, rstrip=True)]},
    {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    {"pre_tokenizer": None},
])
def test_texts_are_not_cut_where_that_would_change_tokens(change):
    described = own().state()["tokenizer"] | change
    tokenizer, library = BytePairs(described), tokenizers.Tokenizer.from_str(json.dumps(described))
    text = "the cat  sat on the cat\n" * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_pairs, "PIECE", 1)
        assert tokenizer.encode(text).tolist() == library.encode(text).ids
    assert tokenizer._cut is None


# ---- learning ----

def slow_pairs(words: dict[tuple[str, ...], int], count: int) -> list[tuple[str, str]]:
    """The first pairs to be joined, each the most frequent one."""
    found = []
    for _ in range(count):
        pairs = {}
        for word, times in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] = pairs.get(pair, 0) + times
        best = max(pairs, key=pairs.get)
        assert list(pairs.values()).count(pairs[best]) == 1  # the text must leave no choice
        found.append(best)
        joined = {}
        for word, times in words.items():
            parts = list(word)
            for i in range(len(parts) - 1, 0, -1):
                if (parts[i - 1], parts[i]) == best:
                    parts[i - 1 : i + 1] = ["".join(best)]
            joined[tuple(parts)] = joined.get(tuple(parts), 0) + times
        words = joined
    return found


def test_the_most_frequent_pairs_are_joined():
    words = {"ab": 7, "abc": 5, "abcd": 3, "dab": 2}
    text = "".join(f"{word}\n" * times for word, times in words.items())
    pairs = slow_pairs({tuple(word): times for word, times in words.items()}, 3)
    tokenizer = BytePairs.of(text, 256 + 3)
    assert [tuple(pair) for pair in tokenizer.state()["tokenizer"]["model"]["merges"]] == pairs
    assert len(tokenizer) == 259 and tokenizer.names([256, 257, 258]) == ["".join(pair) for pair in pairs]


def test_learning_does_not_depend_on_the_pieces(monkeypatch):
    state = own().state()
    monkeypatch.setattr(byte_pairs, "PIECE", 10)
    assert BytePairs.of(TEXT, 400).state() == state


def test_the_vocabulary_size():
    for text, size, length in [("", 256, 256), ("", 999, 256), ("a", 999, 256), ("ab", 999, 256), ("abab", 999, 257),
                               ("🙂" * 2, 10 ** 12, 259), ("ab ab ab", 256, 256)]:
        tokenizer = BytePairs.of(text, size)
        assert len(tokenizer) == length and tokenizer.decode(tokenizer.encode(text + "ñ")) == text + "ñ"
    all_refused(lambda size: BytePairs.of("abc", size), [
        (size, f"vocabulary_size must be at least 256, one for each byte, got {size}") for size in (-1, 0, 1, 255)])


@settings(deadline=None)
@given(st.text(), SURROGATES, st.text())
def test_half_a_surrogate_pair_is_refused(before, half, after):
    for call in (own().encode, BytePairs.of):
        with pytest.raises(ValueError, match="a lone surrogate"):
            call(before + half + after)


# ---- decoding ----

@pytest.mark.parametrize("kind", KINDS)
def test_streamed_and_decoded_text_are_the_librarys(kind):
    library, tokenizer = made(kind)

    @settings(deadline=None)
    @given(st.lists(st.integers(0, len(tokenizer) - 1), max_size=40), st.lists(st.sampled_from(AWKWARD), max_size=9))
    def check(ids, words):
        for given_ids in (ids, library.encode("".join(words)).ids):
            text = library.decode(given_ids, skip_special_tokens=False)
            assert "".join(tokenizer.stream(given_ids)) == tokenizer.decode(given_ids) == text

    check()


def test_a_character_is_streamed_once_it_is_complete():
    for kind, text, pieces in [
        ("like_gpt2", "a🙃b", ["a", "🙃", "b"]),  # which has no token
        ("like_llama2", "a 🙃b c", ["a", " ", "🙃b", " ", "c"]),  # here bytes side by side wait for the next that is none
    ]:
        tokenizer = made(kind)[1]
        assert list(tokenizer.stream(tokenizer.encode(text))) == pieces


def test_names_of_tokens_and_of_unknown_ids():
    tokenizer = made("like_llama3")[1]
    assert tokenizer.names(tokenizer.encode("the é🙃")) == ["the", " ", "\\xc3", "\\xa9", "\\xf0\\x9f", "\\x99", "\\x83"]
    assert tokenizer.names(tokenizer.before_prompt) == ["<|begin_of_text|>"]
    assert made("like_llama2")[1].names([1, 3 + 0xC3, 259]) == ["<s>", "<0xC3>", " "]
    a = own().encode("a")[0]
    skipping = own().state()["tokenizer"]
    skipping["model"]["vocab"]["ü"] = len(own()) + 2
    assert BytePairs(skipping).decode([a, len(own()), len(own()) + 1, a]) == "a��a" and own().decode([]) == ""
    all_refused(own().decode, [([a, i], f"decode: token id {i} is out of range") for i in (-1, len(own()), 2**70)], IndexError)
    assert own().names([10 ** 6]) == ["token 1000000"]


def test_the_tokens_before_a_text():
    for kind, start, before in (("like_gpt2", "<|endoftext|>", ""), ("like_llama3", "<|begin_of_text|>", "<|begin_of_text|>"),
                                ("like_llama2", "<s>", "<s>")):
        tokenizer = made(kind)[1]
        assert (tokenizer.decode(tokenizer.start), tokenizer.decode(tokenizer.before_prompt)) == (start, before)
    assert own().decode(own().start) == "\n" and own().before_prompt == []


def test_a_response_begins_with_the_tokenizers_first_token(small_model):
    tokenizer = made("like_llama3")[1]
    model = small_model(len(tokenizer) + 7)  # rounded up
    ids = [*tokenizer.before_prompt, *tokenizer.encode("the é")]
    chosen = list(generate(model, ids, 30, 0.8, seed=1, vocabulary=len(tokenizer)))
    assert "".join(tokenizer.respond(model, "the é", tokens=30, seed=1)) == tokenizer.decode([*ids[1:], *chosen])
    unasked = list(generate(model, tokenizer.start, 30, 0.8, seed=1, vocabulary=len(tokenizer)))
    assert "".join(tokenizer.respond(model, tokens=30, seed=1)) == tokenizer.decode(unasked)  # the first token is no text
    (layer,) = tokenizer.look(model, "the é")[1]
    assert layer.keys == ["<|begin_of_text|>", "the", "␣", "\\xc3", "\\xa9"]


# ---- files and states ----

def test_files_of_gpt2(tmp_path):
    library, tokenizer = made("like_gpt2")
    library.model.save(str(tmp_path))  # without <|endoftext|>, which stands in GPT-2's vocabulary
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary | {"<|endoftext|>": len(vocabulary)}))
    text = TEXT[:3000] + "<|endoftext|>é"
    for path in (tmp_path, tmp_path / "vocab.json"):
        found = BytePairs.read(path)
        assert len(found) == len(tokenizer) and found.encode(text).tolist() == library.encode(text).ids and found._cut
        assert found.decode(found.encode(text)) == text and found.decode(found.start) == "<|endoftext|>"
    library.save(str(tmp_path / "tokenizer.json"))
    assert BytePairs.read(tmp_path).state() == BytePairs.read(tmp_path / "tokenizer.json").state() == tokenizer.state()


def test_bad_files(tmp_path):
    def read(name_and_content):
        name, content = name_and_content
        folder = tmp_path / f"{name} {len(content)}"
        folder.mkdir(exist_ok=True)
        if name in ("merges.txt", "vocab.json"):
            (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
            (folder / "merges.txt").write_text("#version: 0.2\na b\n")
        (folder / name).write_bytes(content)
        return BytePairs.read(folder)

    all_refused(read, [((name, content), says) for name, content, says in [
        ("else.json", b"", "holds no tokenizer.json, and no vocab.json with a merges.txt"),
        *(("tokenizer.json", content, "tokenizer.json is unusable: it is not JSON in UTF-8") for content in (
            b"", b"\xff{}", b"[" * 100_000)),
        *(("tokenizer.json", content, "tokenizer.json is unusable: it is not a tokenizer.json") for content in (b"{}", b"5")),
        ("vocab.json", b"[]", "vocab.json is unusable: it must hold tokens and their ids"),
        ("vocab.json", b'{"a": "b", "b": 1, "ab": 2}', "vocab.json is unusable: it is not a tokenizer.json"),
        *((name, content, f"merges.txt is unusable: line {line}, expected two tokens with a blank between, which are in vocab.json")
          for name, content, line in [
              ("vocab.json", b'{"a": 0}', "2 is 'a b'"), ("vocab.json", b'{"a": 0, "b": 1}', "2 is 'a b'"),
              *(("merges.txt", content, line) for content, line in (
                  (b"a b\n\na b c", "3 is 'a b c'"), (b"a", "1 is 'a'"), (b"a\tb", "1 is 'a\\tb'"), (b"a x", "1 is 'a x'")))]),
        ("merges.txt", b"a \xff", "merges.txt is unusable: 'utf-8' codec can't decode byte 0xff")]])
    (tmp_path / "vocab.json").write_text("{}")
    for path, missing in ((tmp_path, "merges.txt"), (tmp_path / "none.json", "none.json")):
        all_refused(BytePairs.read, [(path, missing)], FileNotFoundError)


def test_a_state_makes_the_same_tokenizer():
    for kind in KINDS:
        tokenizer = made(kind)[1]
        again = tokenizer_of(json.loads(json.dumps(tokenizer.state())))
        assert again.state() == tokenizer.state() and len(again) == len(tokenizer) and again.kind == "bpe"
        assert again.encode(TEXT[:500]).tolist() == tokenizer.encode(TEXT[:500]).tolist()


def test_padding_truncation_and_dropout_are_ignored():
    library = tokenizers.Tokenizer.from_str(json.dumps(own().state()["tokenizer"]))
    library.enable_padding(length=10 ** 12)
    library.enable_truncation(2)
    library.model.dropout = 0.9
    tokenizer = BytePairs(json.loads(library.to_str()))
    assert tokenizer.encode(TEXT).tolist() == own().encode(TEXT).tolist() and tokenizer.state() == own().state()


VALUES = [None, True, -1, 1.5, 10 ** 7, 10 ** 400, float("nan"), "", "x", "\ud800", [], ["a"], {}, {"a": 1}, {"type": "BPE"}]
PARTS = ["version", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "padding", "truncation",
         "model.type", "model.vocab", "model.merges", "model.dropout", "model.unk_token", "model.continuing_subword_prefix",
         "pre_tokenizer.type", "pre_tokenizer.use_regex", "decoder.type"]


def test_hostile_values():
    """Each is refused in one line or makes a tokenizer that works."""
    for part, value in itertools.product(PARTS, VALUES):
        state = copy.deepcopy(own().state())
        *above, name = part.split(".")
        functools.reduce(dict.__getitem__, above, state["tokenizer"])[name] = value
        try:
            tokenizer = tokenizer_of(state)
            assert isinstance(tokenizer.decode(tokenizer.encode("a 🙂\n")), str) and len(tokenizer) >= 0
            json.dumps(tokenizer.state())
        except ValueError as error:
            assert "\n" not in str(error) and len(str(error)) < 500


def bomb(part: str, inner: str, count: int) -> dict:
    """Each part doubles the text."""
    return {"type": "Sequence", part: [{"type": inner, "pattern": {"String": "a"}, "content": "aa"}] * count}


NESTED = functools.reduce(lambda inner, _: {"type": "Sequence", "normalizers": [inner]}, range(300), {"type": "NFC"})


HOSTILE_PARTS = [
    ({"normalizer": bomb("normalizers", "Replace", 11)}, "thousands of times as long"),
    ({"decoder": bomb("decoders", "Replace", 11)}, "thousands of times as long"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 10 ** 6}}, "thousands of times as long"),
    ({"normalizer": NESTED}, "recursion limit"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}}, "it is not a tokenizer.json"),
    ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "it does not work (chunk size"),  # a panic
    ({"model": {"type": "WordLevel", "vocab": {"b": 0}, "unk_token": "x"}}, "it does not work"),
    ({"model": {"type": "WordLevel", "vocab": {"a": 1 << 24}, "unk_token": "a"}}, "a token has the id 16777216; ids up to 16,777,215 are read"),
    ({"model": {"vocab": {"a": 0, "b": 1 << 24}, "merges": []}}, "a token has the id 16777216"),
]


def test_hostile_parts():
    all_refused(lambda change: BytePairs(own().state()["tokenizer"] | change), HOSTILE_PARTS)
    tokenizer = BytePairs({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "x"}})
    with pytest.raises(ValueError, match="this text has no tokens .*UNK"):
        tokenizer.encode("b")


# ---- runs ----

def test_byte_pairs_are_learnt_from_the_training_text_alone(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abc " * 225 + "xyz " * 25)
    corpus = load_corpus(str(path), context=4, tokenizer="bpe")
    assert corpus.tokenizer.state() == BytePairs.of("abc " * 225).state()
    assert corpus.tokenizer.decode(corpus.validation) == "xyz " * 25 and corpus.validation_bytes == 100
    with pytest.raises(ValueError, match="vocabulary_size is 300, but this text gives only 259 tokens: .* ask for fewer"):
        load_corpus(str(path), tokenizer="bpe", vocabulary_size=300)
    assert len(load_corpus(str(path), context=4, tokenizer="bpe", vocabulary_size=259).tokenizer) == 259
    with pytest.raises(ValueError, match=r"its 1000 characters make 226 tokens for training and 100 for validation"):
        load_corpus(str(path), context=200, tokenizer="bpe")


def test_a_run(run, refused, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = "train", "--text", "text.txt", "--tokenizer", "bpe"
    code, out, err = run(*arguments, "--vocabulary-size", 300, "--out", "one", *SMALL_RUN)
    assert code == 0 and "a vocabulary of 300 tokens" in err and "bits per byte" in out
    saved, model = checkpoint.load("one"), models.load("one")
    assert saved.config["vocabulary_size"] == 300 and saved.dataset["tokenizer"]["kind"] == "bpe"
    answer = models.respond(model, "日本🙃", tokens=20, seed=3) + "\n"
    assert answer.startswith("日本🙃")
    assert run("sample", "--checkpoint", "one", "--prompt", "日本🙃", "--tokens", 20, "--seed", 3) == (0, answer, "")
    (tmp_path / "others").mkdir()
    (tmp_path / "others/tokenizer.json").write_text(json.dumps(saved.dataset["tokenizer"]["tokenizer"]))
    for command in (["look", "one", "--prompt", "日本🙃"],
                    ["train", "--resume", "one", "--tokenizer", "bpe", "--vocabulary-size", 300, "--steps", 5],
                    ["train", "--init-from", "one", "--text", "text.txt", "--out", "two", "--steps", 1],
                    ["train", "--resume", "one", "--tokenizer", "others", "--steps", 6],
                    ["train", "--text", "text.txt", "--tokenizer", "others", "--out", "three", *SMALL_RUN]):
        assert run(*command)[0] == 0, command
    assert all(checkpoint.load(name).dataset == saved.dataset for name in ("one", "two", "three"))
    made("like_gpt2")[0].save("others/tokenizer.json")
    refused([(["--vocabulary-size", 255], "vocabulary_size must be at least 256"),
             (["--vocabulary-size", 9999], "vocabulary_size is 9999, but this text gives only"),
             (["--resume", "one", "--tokenizer", "others"], "--tokenizer is others, but one/checkpoint.npz was trained with bpe"),
             (["--resume", "one", "--vocabulary-size", 301], "--vocabulary-size is 301, but one/checkpoint.npz was")], *arguments)


def test_hostile_checkpoints(here, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    here("--text", "text.txt", "--tokenizer", "bpe", "--vocabulary-size", 300, *SMALL_RUN, name="run")
    good = checkpoint.load("run")
    state = good.dataset["tokenizer"]
    for other, says in ((state | {"tokenizer": {}}, "its dataset.tokenizer is"), (state | {"more": 1}, "its dataset.tokenizer is"),
                        ({"kind": "bpe"}, "its dataset.tokenizer is"),
                        (state | {"tokenizer": state["tokenizer"] | {"normalizer": NESTED}}, "its dataset.tokenizer is"),
                        (BytePairs.of(TEXT, 301).state(), "its model has 300 tokens, its tokenizer 301"),
                        ({"kind": "bytes"}, "its model has 300 tokens, its tokenizer 256")):
        good.dataset["tokenizer"] = other
        checkpoint.save("run", good)
        all_refused(models.load, [("run", says)], CheckpointError)
    good.dataset["tokenizer"] = BytePairs.of(TEXT, 290).state()  # the model has ten more, which are never drawn
    checkpoint.save("run", good)
    model = models.load("run")
    assert "�" not in models.respond(model, "a", tokens=5, temperature=0)
