"""A tokenizer.json: encoding and decoding against the library `tokenizers`, files, states and runs."""
import copy
import functools
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from models import CheckpointError, checkpoint, hub, token_file
from models.data import default_text
from models.generate import generate
from models.tokenizers import TokenizerJson, tokenizer_of
from refusals import all_refused
from texts import ANY_TEXT, SMALL_RUN, byte_pairs

tokenizers = pytest.importorskip("tokenizers")


def learnt(pre_tokenizer, decoder):
    """A tokenizers.Tokenizer trained on TEXT."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=500, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                  r"\s+(?!\S)|\s+")


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
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(byte_pairs(TEXT, 500)))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


TEXT = default_text()[:30_000] + "naïve 🙂 日本語 Größe 🙂 日本 Größe\n" * 20 + "Yes.\nNo.\n" * 99
KINDS = {make.__name__: make for make in (like_gpt2, like_llama3, like_llama2, with_metaspace)}


@functools.cache
def made(kind: str):
    """(A tokenizers.Tokenizer, the same as TokenizerJson)"""
    tokenizer = KINDS[kind]()
    return tokenizer, TokenizerJson(json.loads(tokenizer.to_str()))


@functools.cache
def own() -> TokenizerJson:
    return TokenizerJson(byte_pairs(TEXT, 400))


# Characters that decide where words begin and end, and where a text can be cut
AWKWARD = [" ", "  ", "\n", "\r\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2028", "\u3000", "\u200b", "a", "Z", "é", "ſ",
           "ß", "語", "🙂", "👩\u200d👩", "e\u0301", "1", "²", "٣", "1234", "'s", "'LL", "'", "_", ".", ".\n", "...", "»", "<|endoftext|>",
           "<|begin_of_text|>", "▁", "\0", "�", "the", " the", "def"]
AWKWARD_TEXT = st.one_of(ANY_TEXT, st.lists(st.sampled_from(AWKWARD), max_size=60).map("".join))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_texts_are_the_librarys(kind):
    library, tokenizer = made(kind)

    @settings(deadline=None)
    @given(AWKWARD_TEXT, st.lists(st.integers(0, len(tokenizer) - 1), max_size=40))
    def check(text, any_ids):
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int64 and ids.tolist() == library.encode(text, add_special_tokens=False).ids
        assert kind in ("like_llama2", "with_metaspace") or tokenizer.decode(ids) == text
        for given_ids in (ids.tolist(), any_ids):
            expected = library.decode(given_ids, skip_special_tokens=False)
            assert "".join(tokenizer.stream(given_ids)) == tokenizer.decode(given_ids) == expected

    check()


@settings(deadline=None)
@given(st.lists(st.sampled_from(" |  |\n|\n\n|\t|\xa0|\u3000|a|Z|é|ß|語|🙂|e\u0301|1|²|1234|'s|'LL|'|_|.|.\n|...|the| the|def".split("|")),
                min_size=1, max_size=60).map("".join))
def test_byte_pairs_do_not_depend_on_where_a_text_is_cut(text):
    described = byte_pairs("the cat .\n def 1234\n" * 9)
    llama3 = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    for tokenizer in TokenizerJson(described), TokenizerJson(described | {"pre_tokenizer": llama3}):
        places = [i for i in range(len(text) + 1) if (cut := token_file.CUT.match(text[: i + 1])) and cut.end() == i]
        ids = [tokenizer.encode(text[i:j]) for i, j in itertools.pairwise([0, *places, len(text)])]
        np.testing.assert_array_equal(np.concatenate(ids), tokenizer.encode(text))


def test_a_character_is_streamed_once_it_is_complete():
    for kind, text, pieces in [
        ("like_gpt2", "a🙃b", ["a", "🙃", "b"]),  # which has no token
        ("like_llama2", "a 🙃b c", ["a", " ", "🙃b", " ", "c"]),  # here bytes side by side wait for the next that is none
    ]:
        tokenizer = made(kind)[1]
        assert list(tokenizer.stream(tokenizer.encode(text))) == pieces


def test_a_lone_surrogate_and_unknown_ids_are_refused():
    all_refused(own().encode, [(text, "a lone surrogate") for text in ("\ud800", "a\udfffb", "\ud83d\n")])
    all_refused(own().decode, [([1, i], f"decode: token id {i} is out of range") for i in (-1, len(own()), 2**70)], IndexError)


def test_names_of_tokens():
    tokenizer = made("like_llama3")[1]
    assert tokenizer.names(tokenizer.encode("the é🙃")) == ["the", " ", "\\xc3", "\\xa9", "\\xf0\\x9f", "\\x99", "\\x83"]
    assert tokenizer.names(tokenizer.before_prompt) == ["<|begin_of_text|>"]
    assert made("like_llama2")[1].names([1, 3 + 0xC3, 259]) == ["<s>", "<0xC3>", " "]
    a = own().encode("a")[0]
    skipping = own().state()["tokenizer"]
    skipping["model"]["vocab"]["ü"] = len(own()) + 2
    assert TokenizerJson(skipping).decode([a, len(own()), len(own()) + 1, a]) == "a��a" and own().decode([]) == ""
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

def test_a_file_and_its_folder(tmp_path):
    library, tokenizer = made("like_gpt2")
    library.save(str(tmp_path / "tokenizer.json"))
    for found in TokenizerJson.read(tmp_path), TokenizerJson.read(tmp_path / "tokenizer.json"), hub.read_tokenizer(tmp_path):
        assert found.state() == tokenizer.state() and len(found) == len(tokenizer)


def test_bad_files(tmp_path):
    def read(name_and_content):
        name, content = name_and_content
        folder = tmp_path / f"{name} {len(content)}"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        return TokenizerJson.read(folder)

    all_refused(read, [((name, content), says) for name, content, says in [
        ("else.json", b"", "holds no tokenizer.json; give a folder that does"),
        *(("tokenizer.json", content, "tokenizer.json is unusable: it is not JSON in UTF-8") for content in (
            b"", b"\xff{}", b"[" * 100_000)),
        *(("tokenizer.json", content, "tokenizer.json is unusable: it is not a tokenizer.json") for content in (b"{}", b"5"))]])
    all_refused(TokenizerJson.read, [(tmp_path / "none.json", "none.json")], FileNotFoundError)


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
    tokenizer = TokenizerJson(json.loads(library.to_str()))
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


NESTED = functools.reduce(lambda inner, _: {"type": "Sequence", "normalizers": [inner]}, range(300), {"type": "NFC"})


HOSTILE_PARTS = [
    ({"normalizer": NESTED}, "recursion limit"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}}, "it is not a tokenizer.json"),
    ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "it does not work (chunk size"),  # a panic
    ({"model": {"type": "WordLevel", "vocab": {"b": 0}, "unk_token": "x"}}, "it does not work"),
    ({"model": {"type": "WordLevel", "vocab": {"a": 1 << 24}, "unk_token": "a"}}, "a token has the id 16777216; ids up to 16,777,215 are read"),
    ({"model": {"vocab": {"a": 0, "b": 1 << 24}, "merges": []}}, "a token has the id 16777216"),
]


def test_hostile_parts():
    all_refused(lambda change: TokenizerJson(own().state()["tokenizer"] | change), HOSTILE_PARTS)
    tokenizer = TokenizerJson({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "x"}})
    with pytest.raises(ValueError, match="this text has no tokens .*UNK"):
        tokenizer.encode("b")


# ---- runs ----

def test_a_run(run, refused, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_pairs(TEXT)))
    arguments = "train", "--text", "text.txt", "--tokenizer", "tokenizer.json"
    code, out, err = run(*arguments, "--out", "one", *SMALL_RUN)
    assert code == 0 and "a vocabulary of 300 tokens" in err and "bits per byte" in out
    saved, model = checkpoint.load("one"), models.load("one")
    assert saved.config["vocabulary_size"] == 300 and saved.dataset["tokenizer"]["kind"] == "bpe"
    answer = models.respond(model, "日本🙃", tokens=20, seed=3) + "\n"
    assert answer.startswith("日本🙃")
    assert run("sample", "--checkpoint", "one", "--prompt", "日本🙃", "--tokens", 20, "--seed", 3) == (0, answer, "")
    (tmp_path / "others").mkdir()
    (tmp_path / "others/tokenizer.json").write_text(json.dumps(saved.dataset["tokenizer"]["tokenizer"]))
    for command in (["look", "one", "--prompt", "日本🙃"],
                    ["train", "--resume", "one", "--tokenizer", "tokenizer.json", "--vocabulary-size", 300, "--steps", 5],
                    ["train", "--init-from", "one", "--text", "text.txt", "--out", "two", "--steps", 1],
                    ["train", "--resume", "one", "--tokenizer", "others", "--steps", 6],
                    ["train", "--text", "text.txt", "--tokenizer", "others", "--out", "three", *SMALL_RUN]):
        assert run(*command)[0] == 0, command
    assert all(checkpoint.load(name).dataset == saved.dataset for name in ("one", "two", "three"))
    made("like_gpt2")[0].save("others/tokenizer.json")
    refused([(["--vocabulary-size", 255], "--vocabulary-size is 255, but the tokenizer has 300 tokens; leave the flag out"),
             (["--resume", "one", "--tokenizer", "others"], "--tokenizer is others, but one/checkpoint.npz was trained with bpe"),
             (["--resume", "one", "--vocabulary-size", 301], "--vocabulary-size is 301, but one/checkpoint.npz was")], *arguments)


def test_hostile_checkpoints(here, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_pairs(TEXT)))
    here("--text", "text.txt", "--tokenizer", "tokenizer.json", *SMALL_RUN, name="run")
    good = checkpoint.load("run")
    state = good.dataset["tokenizer"]
    for other, says in ((state | {"tokenizer": {}}, "its dataset.tokenizer is"), (state | {"more": 1}, "its dataset.tokenizer is"),
                        ({"kind": "bpe"}, "its dataset.tokenizer is"),
                        (state | {"tokenizer": state["tokenizer"] | {"normalizer": NESTED}}, "its dataset.tokenizer is"),
                        (TokenizerJson(byte_pairs(TEXT, 301)).state(), "its model has 300 tokens, its tokenizer 301"),
                        ({"kind": "bytes"}, "its model has 300 tokens, its tokenizer 256")):
        good.dataset["tokenizer"] = other
        checkpoint.save("run", good)
        all_refused(models.load, [("run", says)], CheckpointError)
    good.dataset["tokenizer"] = TokenizerJson(byte_pairs(TEXT, 290)).state()  # the model has ten more, which are never drawn
    checkpoint.save("run", good)
    model = models.load("run")
    assert "�" not in models.respond(model, "a", tokens=5, temperature=0)
