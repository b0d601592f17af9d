"""Hugging Face folders that are damaged, hostile or of an unknown model, and bad exports: one line of error, nothing written."""
import json
import os
import resource
import shutil
import struct
import tracemalloc

import numpy as np
import pytest

import models
import nn
from models import hub
from models.checkpoint import CheckpointError
from models.tokenizers import Vocabulary
from models import CausalTransformer, TransformerConfig
from refusals import all_refused
from small_runs import COPY

safetensors = pytest.importorskip("safetensors")
from safetensors.numpy import load_file, save_file  # noqa: E402

SMALL = TransformerConfig(vocabulary_size=5, context=8, layers=2, heads=2, width=8)
LLAMA = dict(bias=False, norm="rms_norm", positions="rotary", activation="swiglu")
WTE, WPE, LN_F = "transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.weight"
INDEX, ONE = "model.safetensors.index.json", "model.safetensors"


@pytest.fixture
def folder(tmp_path):
    """A function that writes the folder of a small model with these changes of its config."""
    def make(name: str = "folder", **changes):
        hub.write(CausalTransformer(TransformerConfig(**vars(SMALL) | changes)), tmp_path / name, Vocabulary("abcde"))
        return tmp_path / name

    return make


def refusal(path) -> str:
    """The error that loading a folder raises: one line that names the folder or a file of it, without much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as caught:
            models.load(path)
        assert tracemalloc.get_traced_memory()[1] < 15_000_000
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert "\n" not in message and str(path) in message and len(message) < 900
    return message


def assert_refused(path, rows) -> None:
    """Rows (a function that damages a folder, words of the error)."""
    wrong = []
    for i, (damage, says) in enumerate(rows):
        copy = shutil.copytree(path, path.with_name(f"damaged {i}"))
        damage(copy)
        if says not in (message := refusal(copy)):
            wrong.append(f"{i}: {message}; expected {says!r}")
    assert not wrong, "\n".join(wrong)


def fields(file="config.json", **changes):
    """The damage: set fields of a JSON file; `...` removes one."""
    def damage(path):
        content = json.loads((path / file).read_text()) | changes
        (path / file).write_text(json.dumps({name: value for name, value in content.items() if value is not ...}))

    return damage


def content(file, text: bytes):
    return lambda path: (path / file).write_bytes(text)


def rewritten(change):
    """The damage: other tensors in the file, as `change` leaves them in place."""
    def damage(path):
        tensors = {name: tensor.copy() for name, tensor in load_file(path / ONE).items()}
        change(tensors)
        save_file(tensors, path / ONE)

    return damage


def renamed(old, new):
    return lambda path: (path / old).rename(path / new)


def in_shards(change=lambda places: None, damage=lambda path: None):
    """The damage: the tensors in three files, with an index whose places are changed."""
    def all_of(path):
        tensors, places = load_file(path / ONE), {}
        for i in range(3):
            shard = dict(list(tensors.items())[i::3])
            save_file(shard, path / f"{i}.safetensors")
            places |= dict.fromkeys(shard, f"{i}.safetensors")
        (path / ONE).unlink()
        changed = change(places)
        (path / INDEX).write_text(json.dumps({"weight_map": places if changed is None else changed}))
        damage(path)

    return all_of


def chain(*damages):
    return lambda path: [damage(path) for damage in damages]


GPT2S = [
    (fields(model_type="bert"), "has model_type 'bert', supported are gpt2, llama"),
    (fields(model_type=...), "has model_type None"),
    (fields(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx is True, supported is False"),
    (fields(scale_attn_weights=False), "scale_attn_weights is False, supported is True"),
    (fields(activation_function="quick_gelu"), "activation_function is 'quick_gelu', supported are gelu_pytorch_tanh, "),
    (fields(activation_function=["relu"]), "activation_function is ['relu'], supported are gelu_pytorch_tanh, "),
    (fields(resid_pdrop=0.5), "embd_pdrop is 0.0, but resid_pdrop is 0.5: they must agree"),
    (fields(sliding_window=7, x=1), "sliding_window is 7, which is not supported; x is 1"),
    (fields(layer_norm_epsilon=10 ** 400), "norm_eps must be more than 0 and less than 1, got ..."),
    (fields(n_head=3), "heads must divide width, got heads 3 and width 8"),
    (fields(quantization_config={"bits": 4}), "quantization_config is {'bits': 4}, which is not supported"),
    (fields(auto_map={"AutoModel": "code.py"}), "auto_map is {'AutoModel': 'code.py'}, which is not supported"),
    *((fields(**changes), "has many more") for changes in (  # a model of an absurd size is not built
        {"n_embd": 10 ** 8, "n_head": 1}, {"n_layer": 9999}, {"vocab_size": 10 ** 9}, {"n_positions": 10 ** 9}, {"n_inner": 10 ** 9})),
]
LLAMAS = [
    (fields(attention_bias=True), "mlp_bias is False, but attention_bias is True"),
    (fields(hidden_act="gelu"), "hidden_act is 'gelu', supported are swish, silu"),
    (fields(attention_dropout=0.1), "attention_dropout is 0.1, supported is 0.0"),
    (fields(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}), "rope_type is 'yarn'"),
    (fields(rope_parameters=..., rope_scaling={"type": "dynamic", "factor": 2.0}), "rope_type is 'dynamic'"),
    (fields(rope_parameters={"rope_type": ["linear"]}), "rope_type is ['linear']"),
    (fields(rope_type="yarn"), "rope_type is 'yarn', which is not supported"),
    (fields(rope_parameters=["linear"]), "describes an unsupported model"),
    (fields(rope_parameters={"rope_type": "linear", "factor": "two"}, rope_theta=...), "rotary_scaling must be"),
    (fields(rope_parameters={"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}), "rotary_scaling must be"),
    (fields(rope_parameters={"rope_type": "default", "beta_fast": 4.0}), "beta_fast is 4.0, which is not supported"),
    (fields(rope_parameters={"rope_type": "default"}, rope_scaling={"rope_type": "linear", "factor": 2.0}), "rope_type is 'default', and in another place 'linear': they must agree"),
    (fields(rope_theta=5.5, rope_parameters={"rope_theta": 1e4}), "rope_theta is 5.5, and in another place 10000.0: they must agree"),
    (fields(partial_rotary_factor=0.5), "partial_rotary_factor is 0.5, supported is 1.0"),
    (fields(rope_parameters={"partial_rotary_factor": 0.5}), "partial_rotary_factor is 0.5, supported is 1.0"),
]
TENSORS = [
    (rewritten(lambda tensors: tensors.update(extra=tensors.pop(WTE))), f"{WTE} is missing, expected (5, 8) in F64, F32, F16, BF16"),
    (rewritten(lambda tensors: tensors.update(extra=np.zeros(0, np.float32))), "extra is F32 (0,), expected none"),
    (rewritten(lambda tensors: tensors.update({WPE: tensors[WPE].reshape(4, 16)})), f"{WPE} is F32 (4, 16), expected (8, 8) in F64, F32, F16, BF16"),
    (rewritten(lambda tensors: tensors.update({LN_F: tensors[LN_F].astype(np.int32)})), f"{LN_F} is I32 (8,), expected (8,) in F64"),
    *((rewritten(lambda tensors, value=value: tensors[WTE].put(-1, value)), f"{WTE} contains NaN or infinity") for value in (np.nan, np.inf, -np.inf)),
    *((renamed(ONE, name), f"neither {ONE} nor {INDEX}; is the download complete? A pickle") for name in ("pytorch_model.bin", "x.pth")),
]
FILES = [  # and more in the library's own tests
    *(content(ONE, text) for text in (b"", b"1234567", struct.pack("<Q", 2 ** 63), struct.pack("<Q", 50) + b"{}", b"PK\3\4 a zip, such as a pickle")),
    lambda path: os.truncate(path / ONE, 900),
]
SHARDS = [
    *((in_shards(lambda places, name=name: places.update({WTE: name})), "which is not a .safetensors file in this folder") for name in (
        "../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "model.bin", "a\\b.safetensors", "c:d", "")),
    (in_shards(lambda places: places.update({WTE: "9.safetensors"})), "9.safetensors: No such file or directory"),
    (in_shards(lambda places: places.update(absent="0.safetensors")), "says that absent is in 0.safetensors, which is wrong"),
    (in_shards(lambda places: places.update({WTE: "2.safetensors"})), f"says that {WTE} is in 2.safetensors, which is wrong"),
    *((in_shards(lambda places, value=value: value), 'has no "weight_map" of tensors and their files') for value in ({WTE: 7}, 7)),
    (in_shards(damage=lambda path: shutil.copy(path / "0.safetensors", path / "1.safetensors")), "which is wrong"),
    (in_shards(damage=content("1.safetensors", b"")), "1.safetensors is damaged"),
]
NOT_JSON = [(b"", "Expecting value"), (b"{", "Expecting property name"), (b'{"\xff": 1}', "codec can't decode"), (b"[" * 100_000, "recursion"),
            (b"[1]", "not a mapping")]
PLACES_OF_JSON = [
    *((content("config.json", text), says) for text, says in NOT_JSON),
    *((in_shards(damage=content(INDEX, text)), says) for text, says in NOT_JSON),
    (lambda path: (path / "config.json").unlink(), "holds no checkpoint.npz"),
    *((chain(lambda path, file=file: (path / file).unlink(), lambda path, file=file: os.mkfifo(path / file)),
       "a folder, pipe, socket or device, not a file") for file in ("config.json", ONE)),
]


def test_damaged_and_hostile_folders_are_refused(folder):
    assert_refused(folder(), [*GPT2S, *TENSORS, *SHARDS, *PLACES_OF_JSON,
                              *((damage, f"{ONE} is damaged, or not a safetensors file; download it again (") for damage in FILES)])


def test_other_llamas_are_refused(folder):
    assert_refused(folder(**LLAMA), LLAMAS)


VALUES = [None, True, -1, 1.5, 10 ** 400, float("nan"), "x", ["a"], {"a": 1}, [[0, 1]]]


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "generation_config.json"])
def test_whatever_is_changed_is_read_or_refused(file, folder):
    pytest.importorskip("tokenizers")
    random = np.random.default_rng(0)
    path = folder() / file
    good = path.read_bytes()
    entries = json.loads(good)
    for i in range(60):
        place = random.integers(min(len(good), 2000))
        changed = {**entries, random.choice(list(entries)): VALUES[random.integers(len(VALUES))]}
        text = good[:place] if i % 3 == 0 else good[:place] + random.bytes(1) + good[place + 1 :]
        path.write_bytes(json.dumps(changed).encode() if i % 3 == 2 else text)
        try:
            models.load(path.parent)
        except CheckpointError as error:
            assert "\n" not in str(error) and len(str(error)) < 900


def test_read_outs_and_tensors_that_are_there_twice(folder):
    assert_refused(folder(tied=False), [
        (fields(tie_word_embeddings=True), "differs from the token embedding"),
        (rewritten(lambda tensors: tensors.update({"wte.weight": tensors.pop("lm_head.weight")})),
         "holds tensors twice, with 'transformer.' before their names and without"),
    ])


# ---- tokenizers ----

def test_bad_tokenizers(folder):
    pytest.importorskip("tokenizers")
    path, name = folder(), "tokenizer.json"
    others = [(fields(name, **Vocabulary(symbols).described), f"has a tokenizer of {len(symbols)} tokens, which does not fit its model of 5")
              for symbols in ("abcd", "abcdef")]
    assert_refused(path, [*others, (fields(name, model=7), "is not a tokenizer"), (content(name, b"{}"), "is not a tokenizer"),
                          (fields(name, model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "the tokenizer in "),
                          *((content(name, text), says) for text, says in NOT_JSON),
                          *((chain(fields(name, decoder=None), content("generation_config.json", text)), says) for text, says in NOT_JSON)])


def test_no_tokenizer(folder, refused, tmp_path):
    path = folder()
    (path / "tokenizer.json").unlink()
    assert models.load(path).tokenizer is None
    with pytest.raises(ValueError, match="has no tokenizer"):
        models.respond(models.load(path), "abc")
    refused([(command, "has no tokenizer.json") for command in (
        ["sample", "--checkpoint", path], ["look", path, "--prompt", "a"],
        ["train", "--init-from", path, "--out", tmp_path / "run"])], codes=(1,))
    assert not (tmp_path / "run").exists()


def test_the_name_of_the_current_folder_is_not_empty(folder, monkeypatch):
    monkeypatch.chdir(folder())
    assert models.load(".").config == SMALL
    with pytest.raises(CheckpointError, match="the name of the run is empty; give the folder of a run"):
        models.load("")


# ---- export and --init-from ----

def test_models_that_no_family_can_express(tmp_path):
    all_refused(lambda changes: hub.write(CausalTransformer(TransformerConfig(**vars(SMALL) | changes)), tmp_path / "out"), [
        (dict(placement="post"), "gpt2 does not have placement='post'; llama does not have placement='post', "),
        (dict(positions="relative"), "gpt2 does not have positions='relative'; "),
        (dict(positions="rotary"), "gpt2 does not have positions='rotary'; llama does not have activation='gelu', norm='layer_norm'"),
        (dict(bias=False), "gpt2 does not have bias=False"), (dict(final_norm=False), "gpt2 does not have final_norm=False"),
        (dict(head_size=6), "gpt2 does not have head_size=6"), (dict(key_value_heads=1), "gpt2 does not have key_value_heads=1"),
        (LLAMA | dict(dropout=0.5), "llama does not have dropout=0.5"),
        (LLAMA | dict(activation="silu"), "llama does not have activation='silu'"),
        (dict(heads=3, width=8, head_size=2), "heads must divide width"),
    ], CheckpointError)
    model = CausalTransformer(SMALL)
    model.more = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="gpt2 has no tensors for more.bias, more.weight"):
        hub.write(model, tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten_or_left_half_written(folder, tmp_path, monkeypatch, run):
    path = folder()
    before = sorted(os.listdir(path))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (path, "file", "link", ".", "..", "/", "folder/..", "file/new"):
        code, _, err = run("export", path, "--to", taken)
        assert code == 1 and "cannot make the folder" in err and "choose another name" in err
    model, (soft, hard) = models.load(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(CheckpointError, match="cannot write .*: .*File too large.*; free some"):
            hub.write(model, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    monkeypatch.setattr(hub.folder.weights, "write_json", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(CheckpointError, match="cannot write .*: No space left; free some"):
        hub.write(model, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"] and sorted(os.listdir(path)) == before


def test_numbers_too_large_for_float16(folder, tmp_path):
    model = models.load(folder())
    model.ln_f.weight.data[3] = 70_000.0
    with pytest.raises(CheckpointError, match="transformer.ln_f.weight has numbers up to 7e.04, too large for float16"):
        hub.write(model, tmp_path / "out", dtype="float16")
    assert not (tmp_path / "out").exists()
    hub.write(model, tmp_path / "out", dtype="bfloat16")


def test_a_task_is_not_exported(refused, here, tmp_path):
    out = tmp_path / "out"
    refused([([here(*COPY), "--to", out], "was trained on task 'copy'; only text models can be exported")], "export", codes=(1,))
    assert not out.exists()


def test_training_keeps_the_config(folder, refused, tmp_path):
    (tmp_path / "text").write_text("abcde" * 100)
    refused([
        (["--text", "text", "--context", 9], "a context of at most 8, not 9"),
        (["--text", "text", "--layers", 1], "has layers 2, not 1"),
        (["--text", "text", "--activation", "relu", "--norm-eps", 0.5], "has activation 'gelu', not 'relu', norm_eps 1e-05, not 0.5"),
        (["--task", "copy"], "gpt2 has no tensors for model.blocks.0."),
    ], "train", "--init-from", folder(), "--out", "run", codes=(1, 2))
