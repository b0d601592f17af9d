"""Models whose parameters are in bfloat16: they generate what the same numbers in float32 do, and take half the memory."""
import dataclasses
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest

import minigrad as mg
import models
import nn
from configs import random_config
from models import CausalTransformer, TransformerConfig, generate, hub
from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.decode import CachedDecoder, CannotDecode
from models.transformer import ATTENTION_POSITIONS, PLACEMENTS, TABLE_POSITIONS
from refusals import all_refused
from small_runs import COPY

GPT2 = TransformerConfig(vocabulary_size=150, context=12, layers=2, heads=2, width=40, activation="gelu_tanh")
LLAMA = dataclasses.replace(GPT2, norm="rms_norm", activation="swiglu", positions="rotary", heads=4, key_value_heads=2,
                            head_size=6, hidden_width=130, tied=False, bias=False)
RELATIVE = dataclasses.replace(GPT2, positions="relative", tied=False)
WIDE = dataclasses.replace(GPT2, width=384, layers=1)  # several panels deep, and shared by threads
CONFIGS = {"gpt2": GPT2, "llama": LLAMA, "relative": RELATIVE, "wide": WIDE}
CONFIGS |= {name: dataclasses.replace(GPT2, placement=name) for name in PLACEMENTS}
CONFIGS |= {name: dataclasses.replace(LLAMA, positions=name) for name in TABLE_POSITIONS + ATTENTION_POSITIONS}


def pair(config: TransformerConfig) -> tuple[CausalTransformer, CausalTransformer]:
    """A model in bfloat16, and one with the same numbers in float32."""
    model, generator = CausalTransformer(config).eval(), np.random.default_rng(config.width)
    for parameter in model.parameters():
        parameter.data[...] += 2 * config.width**-0.5 * generator.standard_normal(parameter.shape)
    stored = CausalTransformer(config).eval()
    stored.load_state_dict(model.state_dict())
    stored.bfloat16()
    model.load_state_dict(stored.state_dict())
    return stored, model


def assert_same_logits(config: TransformerConfig, batch_size: int, prompt: int) -> None:
    """Bit by bit, for a prompt and the tokens after it, until the window moves."""
    decoders = [CachedDecoder(model, batch_size) for model in pair(config)]
    tokens = np.random.default_rng(1).integers(config.vocabulary_size, size=(batch_size, config.context + 3))
    stored, expected = ([decoder.logits(tokens[:, :prompt]).copy()] + [decoder.next_logits(tokens[:, t]).copy() for t in
                        range(prompt, tokens.shape[1])] for decoder in decoders)
    assert np.ptp(expected) > 0.1
    for t, (logits, wanted) in enumerate(zip(stored, expected)):
        assert logits.dtype == np.float32 and logits.tobytes() == wanted.tobytes(), (config, batch_size, t)


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_the_same_numbers_in_float32(name):
    for batch_size, prompt in (1, 1), (2, 3), (5, 1), (6, 1), (8, 12):
        assert_same_logits(CONFIGS[name], batch_size, prompt)


@pytest.mark.long
def test_random_configs(random):
    for _ in range(40):
        config = random_config(random, dtype="float32")
        assert_same_logits(config, int(random.integers(1, 9)), int(random.integers(1, config.context + 1)))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_folder_is_loaded(name, dtype, tmp_path, monkeypatch):
    """Piece by piece."""
    pytest.importorskip("safetensors")
    monkeypatch.setattr(hub.weights, "PIECE", 100)
    _, model = pair(CONFIGS[name])
    if dtype == "float32":  # numbers to be rounded
        for parameter in model.parameters():
            parameter.data[...] *= 1.001
    hub.write(model, tmp_path / "folder", dtype=dtype)
    stored, expected = models.load(tmp_path / "folder", dtype="bfloat16"), models.load(tmp_path / "folder")
    assert {parameter.dtype for parameter in stored.parameters()} == {mg.bfloat16}
    assert not any(parameter.requires_grad for parameter in stored.parameters()) and not stored.training
    for (name, own), parameter in zip(stored.named_parameters(), expected.parameters()):
        np.testing.assert_array_equal(own.array.bits, parameter.detach().bfloat16().array.bits, err_msg=name)
    text = list(generate(stored, [1, 2, 3], 40, temperature=1.5, seed=0))
    assert text == list(generate(stored.float(), [1, 2, 3], 40, temperature=1.5, seed=0)) and len(set(text)) > 5


PEAK = """
import sys, pathlib, re, models, minigrad as mg
def kilobytes(field): return int(re.search(rf"{field}:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
before = kilobytes("VmRSS")
model = models.load(sys.argv[1], dtype=sys.argv[2])
print(1024 * (kilobytes("VmHWM") - before))
"""


@pytest.mark.long
def test_loading_holds_no_copy_in_float32(tmp_path):
    pytest.importorskip("safetensors")
    config = TransformerConfig(vocabulary_size=20_000, width=512, layers=2, heads=2)
    hub.write(CausalTransformer(dataclasses.replace(config, activation="gelu_tanh")), tmp_path / "folder")

    def peak(dtype: str) -> float:
        """In bytes for each parameter."""
        grown = subprocess.run([sys.executable, "-c", PEAK, tmp_path / "folder", dtype], check=True, stdout=subprocess.PIPE)
        return int(grown.stdout) / config.parameter_count()

    assert 2 < peak("bfloat16") < 3.9 < 4 < peak("float32")


def test_a_run_is_loaded(text_run):
    stored, expected = models.load(text_run, dtype="bfloat16"), models.load(text_run).bfloat16()
    for (name, own), parameter in zip(stored.named_parameters(), expected.parameters()):
        np.testing.assert_array_equal(own.array.bits, parameter.array.bits, err_msg=name)
    assert models.respond(stored, "a", tokens=30, seed=1) == models.respond(expected.float(), "a", tokens=30, seed=1)
    assert all(parameter.requires_grad for parameter in stored.float().parameters())


def test_other_dtypes(text_run):
    for dtype in "float64", "float32":
        model = models.load(text_run, dtype=dtype)
        assert model.ln_f.weight.dtype == model.config.dtype == dtype and model.ln_f.weight.requires_grad
    with pytest.raises(TypeError, match="float32, float64 or bfloat16"):
        models.load(text_run, dtype=mg.int64)


def test_what_bfloat16_cannot_hold_is_refused(tmp_path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import load_file, save_file

    hub.write(pair(GPT2)[1], tmp_path)
    for name, value in itertools.product(("h.1.mlp.c_proj.bias", "wte.weight"), (np.inf, -np.inf, np.nan, 3.4e38)):
        tensors = load_file(tmp_path / "model.safetensors")
        before = tensors[f"transformer.{name}"].flat[3]
        tensors[f"transformer.{name}"].flat[3] = value  # the last is rounded to infinity
        save_file(tensors, tmp_path / "model.safetensors")
        with pytest.raises(CheckpointError, match=f"{name} contains NaN or infinity in bfloat16"):
            models.load(tmp_path, dtype="bfloat16")
        tensors[f"transformer.{name}"].flat[3] = before
        save_file(tensors, tmp_path / "model.safetensors")


@pytest.mark.parametrize("kind, value, dtype", [("run", 3.4e38, "bfloat16"), ("float32", 3.4e38, "bfloat16"),
                                                ("float64", 1e39, "bfloat16"), ("float64", 1e39, "float32")])
def test_a_conversion_that_overflows_is_refused(kind, value, dtype, text_run, tmp_path):
    if kind == "run":
        path, stored = text_run, checkpoints.load(text_run)
        stored.model["ln_f.weight"][3] = value
        checkpoints.save(path, stored)
    else:
        pytest.importorskip("safetensors")
        path, model = tmp_path / "folder", CausalTransformer(dataclasses.replace(GPT2, dtype=kind))
        model.ln_f.weight.data[3] = value
        hub.write(model, path)
    assert np.isclose(models.load(path).ln_f.weight[3].item(), value)
    with warnings.catch_warnings(), pytest.raises(CheckpointError, match=rf"ln_f\.weight contains NaN or infinity in {dtype}$"):
        warnings.simplefilter("error")
        models.load(path, dtype=dtype)


def test_anything_but_generation_asks_for_float32():
    stored, _ = pair(GPT2)
    tokens, says = mg.zeros(1, 3, dtype=mg.int64), "a bfloat16 tensor only stores numbers"
    all_refused(lambda call: call(), [
        (lambda: stored(tokens), says),
        (lambda: stored(tokens, tokens), says),
        (lambda: list(generate(stored, [1], 3, context=4)), says),
        (lambda: nn.optim.AdamW(stored.parameters()), says),
        (lambda: stored.requires_grad_(), says),
    ], TypeError)
    assert stored.float()(tokens, tokens)[1].item() > 0


def test_layers_of_two_dtypes():
    """The matrices of a layer may be in bfloat16 alone, but not those of some heads."""
    stored, model = pair(LLAMA)
    stored.blocks[0].float()
    decoders = CachedDecoder(stored, 1), CachedDecoder(model, 1)
    logits, expected = (decoder.logits([[1, 2, 3]]) for decoder in decoders)
    assert logits.tobytes() == expected.tobytes()
    stored.blocks[0].attention.key.bfloat16()
    with pytest.raises(CannotDecode, match="there is an attention layer with other projections"):
        CachedDecoder(stored, 1)


def test_a_model_that_is_loaded_anew_says_something_else():
    stored, other = pair(GPT2)[0], pair(dataclasses.replace(GPT2, dropout=0.5))[1]
    text = generate(stored, [1], 12, temperature=0)
    first = [next(text) for _ in range(4)]
    for parameter in other.parameters():
        parameter.data[...] *= -1.5
    stored.load_state_dict(other.state_dict())
    rest = list(text)
    expected = CausalTransformer(GPT2).eval().bfloat16()
    expected.load_state_dict(other.state_dict())
    assert rest == list(generate(expected, [1, *first], 8, temperature=0))


def test_the_command_keeps_what_is_stored(tmp_path, run, text_run, text_file, monkeypatch):
    pytest.importorskip("safetensors")
    flags = "--preset", "micro", "--recipe", "nanogpt", "--steps", 3, "--eval-windows", 2
    assert run("train", "--text", text_file, *flags, "--out", "run")[0] == 0
    loaded, model_in = [], models.loading.model_in

    def spy(source, dtype=None):
        loaded.append(model_in(source, dtype))
        return loaded[-1]

    monkeypatch.setattr(models.loading, "model_in", spy)
    said = {}
    for dtype in "float32", "bfloat16":
        assert run("export", "run", "--to", dtype, "--dtype", dtype)[0] == 0
        for folder in dtype, "run":
            for precision in (), ("--precision", "float32"), ("--precision", "bfloat16"):
                code, text, err = run("sample", "--checkpoint", folder, "--prompt", "a", "--tokens", 20, "--seed", 3, *precision)
                assert (code, err) == (0, "")
                expected = precision[1] if precision else "bfloat16" if folder == "bfloat16" else "float32"
                assert str(loaded[-1].ln_f.weight.dtype) == expected, (folder, precision)
                said[folder, precision] = text
    assert len({text for (folder, _), text in said.items() if folder == "bfloat16"}) == 1  # the same numbers


def test_the_command_in_a_process_of_its_own():
    """Which has used no other product before."""
    command = [sys.executable, "-m", "minigrad", "sample", "--checkpoint", "starter", "--tokens", "20", "--seed", "1"]
    texts = [subprocess.run([*command, "--precision", precision], check=True, stdout=subprocess.PIPE).stdout
             for precision in ("bfloat16", "float32")]
    assert texts[0] == texts[1] and len(texts[0]) > 15


def test_the_command_refuses_what_it_cannot_sample(refused, here, text_run, monkeypatch):
    here(*COPY, name="task")
    flags = "--precision", "bfloat16", "--checkpoint"
    refused([([*flags, "task", "--prompt", "ab"], "--precision bfloat16: only models of texts"),
             (["--precision", "float16", "--checkpoint", "here"], "invalid choice: 'float16'")], "sample")
    monkeypatch.setattr("models.commands.sample.Program", None)
    refused([([*flags, "here"], "--precision bfloat16: without kernels")], "sample")
