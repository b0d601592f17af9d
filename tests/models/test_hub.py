"""Hugging Face folders: those that transformers wrote are read, and it reads those written here."""
import dataclasses
import json
import logging

import numpy as np
import pytest

import minigrad as mg
import models
from models import hub
from models.commands.train import named_tokenizer
from models.hub.families import FAMILIES
from models.tokenizers import Bytes, TokenizerJson, Vocabulary, tokenizer_of
from models import CausalTransformer, TransformerConfig
from texts import byte_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

GPT2 = dict(vocab_size=61, n_positions=256, n_embd=24, n_layer=2, n_head=3, bos_token_id=None, eos_token_id=None)
LLAMA = dict(vocab_size=61, max_position_embeddings=256, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
             num_attention_heads=4, bos_token_id=None, eos_token_id=None)
THEIRS = {  # (class of the config, its fields)
    "gpt2": ("GPT2Config", GPT2),
    "gpt2 untied, one head": ("GPT2Config", GPT2 | dict(tie_word_embeddings=False, n_head=1)),
    "gpt2 with another MLP": ("GPT2Config", GPT2 | dict(n_inner=40, activation_function="gelu", layer_norm_epsilon=1e-3)),
    "gpt2 with relu, no blocks but one": ("GPT2Config", GPT2 | dict(activation_function="relu", n_layer=1)),
    "llama": ("LlamaConfig", LLAMA),
    "llama with groups": ("LlamaConfig", LLAMA | dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "llama with one group, wide heads": ("LlamaConfig", LLAMA | dict(num_key_value_heads=1, head_dim=12, rms_norm_eps=1e-3)),
    "llama with biases, another base": ("LlamaConfig", LLAMA | dict(
        attention_bias=True, mlp_bias=True, num_key_value_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
}
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
THEIRS |= {
    "llama with linear scaling": ("LlamaConfig", LLAMA | dict(
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 300.0})),
    "llama with the scaling of llama 3": ("LlamaConfig", LLAMA | dict(rope_parameters=LLAMA3, head_dim=16)),
}
OURS = {  # models trained here
    "gpt2": TransformerConfig(vocabulary_size=11, context=32, layers=2, heads=2, width=16),
    "gpt2, odd": TransformerConfig(vocabulary_size=11, context=32, layers=1, heads=3, width=15, activation="gelu_tanh",
                                   hidden_width=21, tied=False, dropout=0.25, norm_eps=1e-3),
    "llama": TransformerConfig(vocabulary_size=11, context=32, layers=2, heads=4, width=16, bias=False, activation="swiglu",
                               norm="rms_norm", positions="rotary", key_value_heads=2, rotary_base=77.0, tied=False),
    "llama 3": TransformerConfig(vocabulary_size=11, context=32, layers=1, heads=2, width=32, activation="swiglu",
                                 norm="rms_norm", positions="rotary", rotary_scaling="llama3:4.0:1.0:4.0:16.0"),
    "llama, odd": TransformerConfig(vocabulary_size=11, context=32, layers=1, heads=3, width=12, bias=True,
                                    activation="swiglu", norm="rms_norm", positions="rotary", key_value_heads=1,
                                    head_size=6, hidden_width=17, norm_eps=1e-3),
}


def noise(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Values with which every part of a model matters: no gain is one, no bias zero."""
    return generator.normal(float(len(shape) == 1), 0.3, shape).astype(np.float32)


def their_model(name: str):
    """One of THEIRS with random weights."""
    kind, fields = THEIRS[name]
    model, generator = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**fields)), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = torch.from_numpy(noise(parameter.shape, generator))
    model.tie_weights()
    return model.eval()


def our_model(config: TransformerConfig) -> CausalTransformer:
    """A model of this config with random weights."""
    model, generator = CausalTransformer(config), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] = noise(parameter.shape, generator)
    return model.eval()


def with_vocabulary(name: str, size: int) -> CausalTransformer:
    return our_model(dataclasses.replace(OURS[name], vocabulary_size=size))


@pytest.fixture
def warned():
    """What transformers logs as warnings during the test; those of the module `warnings` are errors."""
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub", "")]
    for logger in loggers:
        logger.addHandler(handler)
    yield messages
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.fixture
def tokens(random) -> np.ndarray:
    return random.integers(11, size=(2, 20))


def their_logits(model, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(tokens)).logits.double().numpy()


def our_logits(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    with mg.no_grad():
        return model(mg.tensor(tokens))[0].array


def tensors_in(folder) -> dict:
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def assert_same_parameters(model: CausalTransformer, other: CausalTransformer) -> None:
    names, values = zip(*model.named_parameters())
    others, other_values = zip(*other.named_parameters())
    assert names == others
    for name, value, other_value in zip(names, values, other_values):
        np.testing.assert_array_equal(value.array, other_value.array, err_msg=name)


# ---- reading ----

@pytest.mark.parametrize("name", THEIRS)
def test_logits_loss_and_gradients_match_transformers(name, tokens, tmp_path):
    theirs = their_model(name)
    theirs.save_pretrained(tmp_path)
    ours = models.load(tmp_path)
    np.testing.assert_allclose(our_logits(ours, tokens), their_logits(theirs, tokens), atol=1e-4, rtol=0)

    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    ids = torch.from_numpy(tokens)
    expected = torch.nn.functional.cross_entropy(theirs(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
    expected.backward()
    _, loss = ours(mg.tensor(inputs), mg.tensor(targets))
    loss.backward()
    assert abs(loss.item() - expected.item()) < 1e-5
    for parameter in ours.parameters():
        parameter.data[...] = parameter.grad.numpy()
    gradients = FAMILIES[theirs.config.model_type].views(ours)
    compared = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    assert gradients.keys() == compared.keys()
    for name, gradient in compared.items():
        found = gradients[name].detach().numpy().reshape(gradient.shape)
        np.testing.assert_allclose(found, gradient, atol=1e-4, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", ["gpt2", "llama with groups", "llama with one group, wide heads"])
def test_greedy_generation_matches_transformers(name, tokens, tmp_path):
    theirs = their_model(name)
    theirs.save_pretrained(tmp_path)
    prompt = tokens[0, :5]
    expected = theirs.generate(torch.from_numpy(prompt[None]), max_new_tokens=200, do_sample=False, pad_token_id=0)
    two_best = np.sort(their_logits(theirs, expected.numpy())[0, 4:-1])[:, -2:]
    assert (two_best[:, 1] - two_best[:, 0]).min() > 1e-4  # too far apart for rounding to decide
    ours = list(models.generate(models.load(tmp_path), prompt, 200, temperature=0))
    assert ours == expected[0, 5:].tolist() and len(set(ours)) > 2


def test_shards_are_read(tmp_path):
    theirs = their_model("llama with groups")
    theirs.save_pretrained(tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size="8KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    assert_same_parameters(models.load(tmp_path / "one"), models.load(tmp_path / "many"))


def test_configs_of_other_versions(tmp_path):
    their_model("llama with biases, another base").save_pretrained(tmp_path)
    config, written = models.load(tmp_path).config, json.loads((tmp_path / "config.json").read_text())

    def read(fields):
        (tmp_path / "config.json").write_text(json.dumps({name: value for name, value in fields.items() if value is not ...}))
        return models.load(tmp_path).config

    for changes in [
        {"rope_parameters": ..., "rope_theta": 500.0},  # as before version 5
        {"rope_parameters": ..., "rope_theta": 500, "rope_scaling": None},
        {"rope_parameters": ..., "rope_scaling": {"type": "default", "rope_theta": 500.0}},
        {"rope_parameters": {"type": "default", "rope_theta": 500.0}},
        {"torch_dtype": "float32", "dtype": ..., "num_hidden_layers": 2},
    ]:
        assert read(written | changes) == config and config.rotary_base == 500
    their_model("llama with the scaling of llama 3").save_pretrained(tmp_path)
    config, fields = models.load(tmp_path).config, json.loads((tmp_path / "config.json").read_text())
    scaling = fields.pop("rope_parameters")
    assert config.rotary_scaling == "llama3:8:1:4:16"
    assert read(fields | {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}) == config


@pytest.mark.parametrize("kind", ["GPT2Config", "LlamaConfig"])
def test_defaults_are_those_of_transformers(kind):
    theirs = json.loads(getattr(transformers, kind)().to_json_string(use_diff=False))
    family = FAMILIES[theirs["model_type"]]
    assert family.read_config({}) == family.read_config(theirs)


@pytest.mark.parametrize("name, prefix, buffer, embedding", [
    ("gpt2", "transformer.", "h.{}.attn.bias", "wte.weight"),
    ("llama with groups", "model.", "layers.{}.self_attn.rotary_emb.inv_freq", "embed_tokens.weight"),
])
def test_as_first_published(name, prefix, buffer, embedding, tokens, tmp_path):
    """Names without a prefix, the causal mask or the wavelengths among the weights, and the embedding as the read-out."""
    their_model(name).save_pretrained(tmp_path)
    expected = our_logits(models.load(tmp_path), tokens)
    found = {name.removeprefix(prefix): tensor for name, tensor in tensors_in(tmp_path).items()}
    found |= {buffer.format(i): torch.ones(1, 1, 8, 8, dtype=torch.uint8) for i in range(2)}
    found["lm_head.weight"] = found[embedding].clone()
    save_file(found, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(our_logits(models.load(tmp_path), tokens), expected)


# ---- tokenizers ----

TEXT = "the cat sat on the mat, the rat ate the cat\n\n  naïve 😀 rats at mats!\n" * 5


def begins_with(content: str) -> str:
    """A tokenizer with the special tokens </s> and <s>, which it puts before every text."""
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_str(content)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    start = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    return tokenizer.to_str()


def tokenizer_of_kind(kind: str):
    pairs = TokenizerJson(byte_pairs(TEXT))
    ends = [len(pairs) + 1] if kind == "pairs, with a beginning and an end" else []
    content = json.dumps(pairs.state()["tokenizer"])
    return {"bytes": Bytes(), "pairs": pairs}.get(kind) or TokenizerJson(json.loads(begins_with(content)), ends)


@pytest.mark.parametrize("kind, padded, family", [
    ("bytes", 0, "gpt2"), ("pairs", 7, "gpt2"), ("pairs, with a beginning", 0, "llama"), ("pairs, with a beginning", 7, "gpt2"),
    ("pairs, with a beginning and an end", 7, "llama"),
])
def test_tokenizers_round_trip(kind, family, padded, tmp_path, warned):
    tokenizer = tokenizer_of_kind(kind)
    hub.write(with_vocabulary(family, len(tokenizer) + padded), tmp_path / "out", tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert warned == []
    for text in (TEXT, "", " a", "naïve 日本 \x00 \r\n\tthe  cat"):
        assert theirs(text)["input_ids"] == [*tokenizer.before_prompt, *tokenizer.encode(text).tolist()]
        assert theirs.decode(tokenizer.encode(text).tolist()) == text
    model = models.load(tmp_path / "out")
    back = model.tokenizer
    assert type(back) is type(tokenizer) and back.state() == tokenizer.state() and back.ends == tokenizer.ends
    assert tokenizer_of(back.state()).ends == back.ends == ((len(tokenizer) - 1,) if "an end" in kind else ())
    assert (back.before_prompt == [len(tokenizer) - 2]) == ("beginning" in kind)
    for name, ids in (("bos_token_id", back.before_prompt), ("eos_token_id", list(back.ends))):
        assert getattr(theirs, name) == (ids[0] if ids else None)
        assert json.loads((tmp_path / "out" / "generation_config.json").read_text())[name] == (ids[0] if ids else None)
    assert models.respond(model, "the cat", tokens=30, temperature=5.0, seed=1).startswith("the cat")


@pytest.mark.parametrize("file, value", [("generation_config.json", "number"), ("generation_config.json", "list"),
                                         ("config.json", "number")])
def test_the_end_of_text_is_read_from_the_folder(file, value, tmp_path):
    tokenizer = tokenizer_of_kind("pairs")
    model = with_vocabulary("gpt2", len(tokenizer))
    hub.write(model, tmp_path / "out", tokenizer)
    sampling = dict(tokens=30, temperature=9.0, seed=1)
    ids = list(models.generate(model, tokenizer.encode("the"), 30, 9.0, seed=1))
    (tmp_path / "out" / "generation_config.json").unlink()
    config = tmp_path / "out" / "config.json"  # which generation_config.json overrules
    config.write_text(json.dumps(json.loads(config.read_text()) | {"eos_token_id": ids[0]}))
    path = tmp_path / "out" / file
    fields = json.loads(path.read_text()) if path.exists() else {}
    other = next(i for i in range(len(tokenizer)) if i not in ids)
    path.write_text(json.dumps(fields | {"eos_token_id": ids[10] if value == "number" else [10 ** 6, ids[10], "x", other, -1]}))
    end = ids.index(ids[10])
    loaded = models.load(tmp_path / "out")
    assert loaded.tokenizer.ends == ((ids[10],) if value == "number" else (ids[10], other))
    assert models.respond(loaded, "the", **sampling) == tokenizer.decode([*tokenizer.encode("the"), *ids[:end]])
    assert named_tokenizer({"tokenizer": str(tmp_path / "out")}).state() == loaded.tokenizer.state()


# ---- writing ----

@pytest.mark.parametrize("name", OURS)
def test_transformers_loads_exported_models(name, tokens, tmp_path, warned):
    ours, vocabulary = our_model(OURS[name]), Vocabulary("\n !,abcdöü😀")
    hub.write(ours, tmp_path / "out", vocabulary)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert type(theirs).__name__.startswith(("GPT2", "Llama")) and not any(report.values())
    np.testing.assert_allclose(their_logits(theirs, tokens), our_logits(ours, tokens), atol=1e-5, rtol=0)
    theirs.generate(torch.from_numpy(tokens), max_new_tokens=3, do_sample=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "ab  üöd\n\n😀a, c!ba "
    assert tokenizer(text)["input_ids"] == tokenizer.encode(text) == vocabulary.encode(text).tolist()
    assert tokenizer.decode(vocabulary.encode(text).tolist()) == text
    assert warned == []
    back = models.load(tmp_path / "out")
    assert back.config == ours.config and back.tokenizer == vocabulary
    assert_same_parameters(ours, back)


@pytest.mark.parametrize("name, dtype", [(name, "float32") for name in THEIRS] + [
    ("gpt2", dtype) for dtype in ("float16", "bfloat16", "float64")])
def test_a_folder_is_written_as_pytorch_rounds_it_and_read_again(name, dtype, tmp_path):
    theirs = their_model(name).to(torch.float64 if dtype == "float64" else torch.float32)
    first = next(theirs.parameters()).data.view(-1)
    first[:32] = 1 + torch.arange(32) / 256  # every second one lies halfway between two of bfloat16
    first[32:64] = 10.0 ** torch.arange(-28, 4)
    theirs.save_pretrained(tmp_path / "in")
    expected = {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors_in(tmp_path / "in").items()}
    for source, target in (("in", "out"), ("out", "again")):
        ours = models.load(tmp_path / source)
        assert ours.config.dtype == ("float64" if dtype == "float64" else "float32")
        hub.write(ours, tmp_path / target, dtype=dtype)
        found = tensors_in(tmp_path / target)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    with safe_open(tmp_path / "out" / "model.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}  # older versions of transformers ask for it
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == dtype


def test_a_run_is_exported_and_trained_further(run, text_file, tmp_path, warned):
    flags = ["--text", text_file, "--preset", "micro", "--recipe", "nanogpt", "--steps", 3, "--eval-windows", 2]
    assert run("train", "--out", tmp_path / "run", *flags)[0] == 0
    code, out, _ = run("export", tmp_path / "run", "--to", tmp_path / "folder", "--best")
    assert code == 0 and "holds a GPT2LMHeadModel" in out
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert warned == []
    assert_same_parameters(models.load(tmp_path / "run", best=True), models.load(tmp_path / "folder"))
    say = ["--prompt", "abc", "--tokens", 20, "--seed", 3]
    said = run("sample", "--checkpoint", tmp_path / "folder", *say)
    assert said[:2] == run("sample", "--best", "--checkpoint", tmp_path / "run", *say)[:2]
    assert run("look", tmp_path / "folder", "--prompt", "abc", "--out", tmp_path / "look.png")[0] == 0
    code, _, err = run("train", "--init-from", tmp_path / "folder", "--text", text_file, "--steps", 1, "--lr", 1e-12,
                       "--context", 8, "--out", tmp_path / "more", "--weight-decay", 0)
    assert code == 0, err
    before, after = models.load(tmp_path / "folder"), models.load(tmp_path / "more")
    assert after.config.context == 8 and after.tokenizer == before.tokenizer
    for (name, parameter), (_, then) in zip(after.named_parameters(), before.named_parameters()):
        np.testing.assert_allclose(parameter.array, then.array[: len(parameter)], atol=1e-9, err_msg=name)
    assert run("train", "--resume", tmp_path / "more", "--steps", 2)[0] == 0
