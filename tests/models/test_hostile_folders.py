"""Hugging Face folders that are damaged, hostile or of an unknown model, and bad exports: one line of error, nothing written."""
import contextlib
import json
import os
import struct
import sys
import tracemalloc

import numpy as np
import pytest

import models
from models import hub
from models.checkpoint import CheckpointError
from models.tokenizers import Vocabulary
from models import CausalTransformer, TransformerConfig
from refusals import all_refused
from small_runs import COPY

safetensors = pytest.importorskip("safetensors")

SMALL = TransformerConfig(vocabulary_size=5, context=8, layers=2, heads=2, width=8)
LLAMA = dict(bias=False, norm="rms_norm", positions="rotary", activation="swiglu")
WTE, WPE = "transformer.wte.weight", "transformer.wpe.weight"
INDEX, ONE = "model.safetensors.index.json", "model.safetensors"


@pytest.fixture
def folder(tmp_path):
    """A function that writes the folder of a small model with these changes of its config."""
    def make(shard_size: int = hub.SHARD_SIZE, **changes):
        path = tmp_path / "folder"
        hub.write(CausalTransformer(TransformerConfig(**vars(SMALL) | changes)), path, Vocabulary("abcde"),
                  shard_size=shard_size)
        return path

    return make


def change_json(path, **changes) -> None:
    """Set fields of a JSON file; `...` removes one."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not ...}))


def parts_of(path) -> tuple[dict, bytes]:
    """(The header, the numbers) of a safetensors file."""
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), content[end:]


def put_together(path, header, numbers: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers)


def change_header(path, change) -> None:
    header, numbers = parts_of(path)
    put_together(path, change(header) or header, numbers)


def refusal(path) -> str:
    """The error that loading a folder raises: one line that names the folder or a file of it."""
    with pytest.raises(CheckpointError) as caught:
        models.load(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message and len(message) < 800
    return message


def assert_refused(path, rows) -> None:
    """Rows (changes of config.json, words of the error)."""
    good, wrong = (path / "config.json").read_bytes(), []
    for changes, says in rows:
        change_json(path / "config.json", **changes)
        if says not in (message := refusal(path)):
            wrong.append(f"{changes}: {message}; expected {says!r}")
        (path / "config.json").write_bytes(good)
    assert not wrong, "\n".join(wrong)


# ---- config.json ----

OTHER_MODELS = [
    ({"model_type": "bert"}, "has model_type 'bert', supported are gpt2, llama"),
    ({"model_type": ["gpt2"]}, "has model_type ['gpt2'], supported are gpt2, llama"),
    ({"model_type": ...}, "has model_type None"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True, supported is False"),
    ({"scale_attn_weights": False}, "scale_attn_weights is False, supported is True"),
    ({"activation_function": "quick_gelu"}, "activation_function is 'quick_gelu', supported are gelu_new, "),
    ({"activation_function": ["relu"]}, "activation_function is ['relu'], supported are gelu_new, "),
    ({"resid_pdrop": 0.5}, "embd_pdrop is 0.0, but resid_pdrop is 0.5: they must agree"),
    ({"n_head": 3}, "heads must divide width, got heads 3 and width 8"),
    ({"n_head": "2"}, "heads must be a whole number from 1 to 1000000000, got '2'"),
    ({"n_layer": -1}, "layers must be a whole number from 0 to 10000, got -1"),
    ({"layer_norm_epsilon": float("nan")}, "norm_eps must be more than 0 and less than 1, got nan"),
    ({"layer_norm_epsilon": 10 ** 400}, "int too large to convert to float"),
    ({"tie_word_embeddings": "yes"}, "tied must be True or False, got 'yes'"),
    ({"quantization_config": {"bits": 4}}, "quantization_config.bits is 4, which is not supported"),
    ({"sliding_window": 7, "x": 1}, "sliding_window is 7, which is not supported; x is 1"),
    ({"auto_map": {"AutoModel": "code.py"}}, "auto_map.AutoModel is 'code.py', which is not supported"),
]
OTHER_LLAMAS = [
    ({"attention_bias": True}, "mlp_bias is False, but attention_bias is True"),
    ({"hidden_act": "gelu"}, "hidden_act is 'gelu', supported are silu, swish"),
    ({"attention_dropout": 0.1}, "attention_dropout is 0.1, supported is 0.0"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}}, "rope_type is 'yarn'"),
    ({"rope_parameters": ..., "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling.rope_type is 'dynamic'"),
    ({"rope_parameters": {"rope_type": "linear", "factor": "two"}, "rope_theta": ...}, "rotary_scaling must be"),
    ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "rotary_scaling must be"),
    ({"rope_parameters": {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}}, "rotary_scaling must be"),
    ({"rope_theta": 5.5}, "rope_parameters.rope_theta is 10000.0, but rope_theta is 5.5"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, supported is 1.0"),
    ({"num_key_value_heads": 3}, "key_value_heads must divide heads, got 3 and 2"),
    ({"head_dim": 3, "num_key_value_heads": 1}, "rotates pairs of features"),
]


def test_configs_of_other_models(folder, tmp_path):
    assert_refused(folder(), OTHER_MODELS)
    (tmp_path / "folder").rename(tmp_path / "gpt2")
    assert_refused(folder(**LLAMA), OTHER_LLAMAS)


def test_files_that_are_not_json(folder):
    path = folder(shard_size=1000)
    change_json(path / "tokenizer.json", decoder=None)  # so that it is no vocabulary of ours
    for file in ("config.json", INDEX, "generation_config.json", "tokenizer.json"):
        good = (path / file).read_bytes()
        for content, says in [(b"", "is not JSON"), (b"{", "is not JSON"), (b"\xff\xfe", "is not JSON"), (b"[" * 100_000, "is not JSON"),
                              (b"[1]", "does not hold a JSON object"),
                              (b" " * 11_000_000, "has 11,000,000 bytes; at most 10,000,000 are read")]:
            if file != "tokenizer.json" or len(content) < 1_000_000:  # which may be longer
                (path / file).write_bytes(content)
                assert says in refusal(path), file
        (path / file).write_bytes(good)


@contextlib.contextmanager
def little_memory():
    tracemalloc.start()
    yield
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_model_of_an_absurd_size_is_not_built(folder):
    path = folder()
    with little_memory():
        assert_refused(path, [(changes, "has many more") for changes in (
            {"n_embd": 10 ** 8, "n_head": 1}, {"n_layer": 9999}, {"vocab_size": 10 ** 9}, {"n_positions": 10 ** 9}, {"n_inner": 10 ** 9})])


def test_a_config_that_is_a_pipe_or_missing(folder):
    path = folder()
    (path / "config.json").unlink()
    assert "holds no checkpoint.npz" in refusal(path)
    os.mkfifo(path / "config.json")
    assert "is a folder, pipe, socket or device, not a file" in refusal(path)


# ---- tensors ----

def test_all_tensors_that_do_not_fit_are_listed(folder):
    path = folder()

    def change(header):
        header["extra"] = header.pop(WTE)
        header[WPE]["shape"] = [4, 16]
        for i in range(2):
            header[f"another.{i}"] = header.pop(f"transformer.h.{i}.mlp.c_fc.weight")
            header[f"yet_another.{i}"] = header.pop(f"transformer.h.{i}.mlp.c_proj.weight")
        header["transformer.ln_f.weight"]["dtype"] = "I32"

    change_header(path / ONE, change)
    message = refusal(path)
    assert ("missing: transformer.wte.weight (5, 8), transformer.h.0.mlp.c_fc.weight (8, 32), "
            "transformer.h.0.mlp.c_proj.weight (32, 8), transformer.h.1.mlp.c_fc.weight (8, 32), "
            "transformer.h.1.mlp.c_proj.weight (32, 8)") in message
    extra = message.partition("not expected: ")[2].partition("; ")[0]
    assert sorted(name.removeprefix("transformer.") for name in extra.split(", ")) == [
        "another.0", "another.1", "extra", "yet_another.0", "yet_another.1"]
    assert "transformer.wpe.weight is (4, 16), expected (8, 8)" in message
    assert "transformer.ln_f.weight is I32" in message


def test_nan_and_infinity(folder):
    path = folder()
    header, numbers = parts_of(path / ONE)
    _, end = header["transformer.h.1.ln_2.bias"]["data_offsets"]
    for value in (np.nan, np.inf, -np.inf):
        put_together(path / ONE, header, numbers[:end - 4] + np.float32(value).tobytes() + numbers[end:])
        assert "transformer.h.1.ln_2.bias contains NaN or infinity" in refusal(path)


def test_a_read_out_that_is_not_tied_and_a_tensor_that_is_there_twice(folder):
    path = folder(tied=False)
    change_json(path / "config.json", tie_word_embeddings=True)
    assert "differs from the token embedding" in refusal(path)
    change_json(path / "config.json", tie_word_embeddings=False)
    change_header(path / ONE, lambda header: header | {"wte.weight": header.pop("lm_head.weight")})
    assert "holds tensors twice, with 'transformer.' before their names and without" in refusal(path)


def test_a_pickle(folder):
    path, last = folder(), ONE
    for name in ("pytorch_model.bin", "consolidated.00.pth"):
        (path / last).rename(path / name)
        message, last = refusal(path), name
        assert f"has its weights in {name}, a pickle" in message and "save_pretrained(NEW_FOLDER)" in message
    (path / name).unlink()
    assert f"neither {ONE} nor {INDEX}" in refusal(path)


# ---- safetensors files ----

def test_hostile_headers(folder):
    """The library itself checks dtypes, shapes and places."""
    path = folder()
    tensor = {"dtype": "F32", "shape": [5, 8], "data_offsets": [0, 160]}
    headers = [{WTE: tensor | {"data_offsets": [4, 164]}}, {WTE: tensor | {"data_offsets": [0, 10 ** 12]}}, b"[1, 2, 3]", b'{"a": ',
               b'{"\xff": 1}', b'{"a":' * 5000, f'{{"{WTE}": {json.dumps(tensor)}, "{WTE}": {json.dumps(tensor)}}}'.encode()]
    for header in headers:
        put_together(path / ONE, header, bytes(160))
        message = refusal(path)
        assert f"{path / ONE} is damaged, or not a safetensors file (" in message and "download it again" in message, header
    for content in [b"", b"1234567", struct.pack("<Q", 2 ** 63), struct.pack("<Q", 50) + b"{}",
                    struct.pack("<Q", 99_000_000) + bytes(100), b"PK\3\4 a zip, such as a pickle of PyTorch's"]:
        (path / ONE).write_bytes(content)
        assert "is damaged, or not a safetensors file (" in refusal(path)
    with open(path / ONE, "wb") as file:  # as large as the library would read
        file.write(struct.pack("<Q", 99_000_000) + b"{")
        file.truncate(99_000_008)
    with little_memory():
        assert "a header of 99,000,000 bytes" in refusal(path)


# ---- shards ----

def test_bad_shards(folder, tmp_path):
    path = folder(shard_size=1000)
    index = json.loads((path / INDEX).read_text())
    places = index["weight_map"]
    assert len(set(places.values())) > 2
    for name in ("../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "model.bin", "a\\b.safetensors", "c:d", ""):
        (tmp_path / "secret.safetensors").write_bytes(b"")
        change_json(path / INDEX, weight_map=places | {WTE: name})
        assert "which is not a .safetensors file in this folder" in refusal(path)
    first, second = sorted(set(places.values()))[:2]
    change_json(path / INDEX, weight_map=places | {WTE: "model-9.safetensors"})
    assert "lacks model-9.safetensors, which" in refusal(path)
    change_json(path / INDEX, weight_map=places | {"absent": first})
    assert f"says that absent is in {first}, which is wrong" in refusal(path)
    change_json(path / INDEX, weight_map=places | {next(name for name in places if places[name] == first): second})
    assert f"is in {second}, which is wrong" in refusal(path)
    change_json(path / INDEX, weight_map={WTE: 7})
    assert 'has no "weight_map" of tensors and their files' in refusal(path)
    change_json(path / INDEX, weight_map=places)
    models.load(path)
    (path / second).write_bytes((path / first).read_bytes())
    assert "in two files" in refusal(path)
    (path / second).unlink()
    assert f"lacks {second}, which {INDEX} names" in refusal(path)


# ---- tokenizers ----

def test_bad_tokenizers(folder):
    path = folder()
    for content, says in [({"model": 7}, "is not a tokenizer"), ({}, "is not a tokenizer"),
                          ({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}, "")]:
        (path / "tokenizer.json").write_text(json.dumps(content))
        assert says in refusal(path)
    for symbols in ("abcd", "abcdef"):
        other = path.with_name(symbols)
        hub.write(CausalTransformer(TransformerConfig(**vars(SMALL) | {"vocabulary_size": len(symbols)})), other,
                  Vocabulary(symbols))
        (path / "tokenizer.json").write_text((other / "tokenizer.json").read_text())
        assert f"has a tokenizer of {len(symbols)} tokens, which does not fit its model of 5" in refusal(path)


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


def test_without_the_library(folder, refused, monkeypatch):
    path = folder()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    says = 'this needs safetensors, which is not installed: pip install "minigrad-transformers[hub]"'
    refused([(["--checkpoint", path], says)], "sample", codes=(1,))


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
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten_or_left_half_written(folder, tmp_path, monkeypatch, run):
    path = folder()
    before = sorted(os.listdir(path))
    code, _, err = run("export", path, "--to", path)
    assert code == 1 and "already exists" in err
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in ("file", "link"):
        assert "already exists" in run("export", path, "--to", tmp_path / taken)[2]
    monkeypatch.chdir(tmp_path / "folder" / "..")
    for taken in (".", "..", "/", "folder/.."):
        assert run("export", path, "--to", taken)[0] == 1
    monkeypatch.setattr(hub.folder.weights, "write_json", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(CheckpointError, match="cannot write .*: No space left; free some"):
        hub.write(models.load(path), tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"] and sorted(os.listdir(path)) == before


def test_numbers_too_large_for_float16(folder, tmp_path):
    model = models.load(folder())
    model.ln_f.weight.data[3] = 70_000.0
    with pytest.raises(CheckpointError, match="transformer.ln_f.weight has numbers up to 7e.04, too large for float16"):
        hub.write(model, tmp_path / "out", dtype="float16")
    hub.write(model, tmp_path / "out", dtype="bfloat16")


def test_bad_exports(folder, refused, here, tmp_path):
    path, out = folder(), tmp_path / "out"
    refused([([path, f"--shard-size={size}", "--to", out], "--shard-size must be a size such as 500MB or 5GB")
             for size in ("0", "-1", "5XB", "big", "1e3", "")], "export")
    refused([([here(*COPY), "--to", out], "was trained on task 'copy'; only text models can be exported")], "export", codes=(1,))
    assert not out.exists()


def test_training_keeps_the_config(folder, refused, tmp_path):
    (tmp_path / "text").write_text("abcde" * 100)
    refused([
        (["--text", "text", "--context", 9], "a context of at most 8, not 9"),
        (["--text", "text", "--layers", 1], "has layers 2, not 1"),
        (["--text", "text", "--activation", "relu", "--norm-eps", 0.5], "has activation 'gelu', not 'relu', norm_eps 1e-05, not 0.5"),
        (["--task", "copy"], "has "),
    ], "train", "--init-from", folder(), "--out", "run", codes=(1, 2))
