"""attention_maps: the weights that the model's own forward pass uses, for any model, which stays unchanged."""
import dataclasses
import math
import threading

import numpy as np
import pytest

import minigrad as mg
import nn
from models import CausalTransformer, TrainingConfig, Trainer, TransformerConfig, attention_maps
from models.architectures import ARCHITECTURES, make_model
from models.encoder_decoder import PAD
from models.tasks import TASKS
from models.config import PLACEMENTS
from refusals import all_refused

CONFIG = TransformerConfig(vocabulary_size=13, context=24, layers=2, heads=2, width=8, dropout=0.5, dtype="float64")
GENERATOR = np.random.default_rng(0)
TOKENS = GENERATOR.integers(3, 13, (3, 6))
SOURCE, INPUTS = np.where(np.arange(5) < [[5], [3], [4]], TOKENS[:, :5], PAD), TOKENS[:, :4]
VARIANTS = [{"positions": positions} for positions in ("none", "sinusoidal", "rotary", "relative")] + [
    {"placement": placement} for placement in PLACEMENTS] + [{"bias": False}, {"heads": 1}, {"layers": 1}]


def changed(**fields) -> TransformerConfig:
    return dataclasses.replace(CONFIG, **fields)


def causal(**fields) -> CausalTransformer:
    mg.manual_seed(0)
    return shaken(CausalTransformer(changed(**fields)))


def of_task(task: str, name: str, **fields) -> nn.Module:
    return shaken(make_model(TASKS[task], name, changed(vocabulary_size=TASKS[task].vocabulary_size, **fields)))


def shaken(model: nn.Module) -> nn.Module:
    """With parameters so large that attention is far from uniform."""
    generator = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data[...] = generator.standard_normal(parameter.shape)
    return model


class Translator(nn.Module):
    """A user's module of PyTorch's layers."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.5, batch_first=True), 2)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 4, 16, 0.5, batch_first=True), 1)

    def forward(self, x, y):
        return self.decoder(y, self.encoder(x), mg.ones(y.shape[1], y.shape[1], dtype=mg.bool).triu(1), tgt_is_causal=True)


class Switches(nn.Module):
    """Shared keys, a window and relative positions, and a memory of another width."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.MultiHeadAttention(8, 4, 0.5, key_value_heads=2, head_size=3, window=3)
        self.relative = nn.MultiHeadAttention(8, 2, bias=False, positions="relative")
        self.memory = nn.MultiHeadAttention(8, 2, kdim=5, vdim=5)

    def forward(self, x, memory):
        x = x + self.grouped(x, is_causal=True)
        x = x + self.relative(x, x)
        return x + self.memory(x, memory, memory, None, False)


VECTORS = tuple(np.random.default_rng(2).standard_normal((3, T, C)).astype(np.float32) for T, C in ((6, 8), (4, 8), (5, 5)))
MODELS = {
    "causal": (causal, (TOKENS,), {f"blocks.{i}.attention": (2, 6, 6) for i in range(2)}),
    "encoder": (lambda: of_task("bank", "encoder"), (SOURCE,), {f"encoder.blocks.{i}.attention": (2, 5, 5) for i in range(2)}),
    "encoder, relative": (lambda: of_task("bank", "encoder", positions="relative", layers=1), (SOURCE,),
                          {"encoder.blocks.0.attention": (2, 5, 5)}),
    "images": (lambda: of_task("stripes", "encoder", layers=1), (TASKS["stripes"].examples(3)[0].astype(float),),
               {"encoder.blocks.0.attention": (2, 16, 16)}),
    "encoder-decoder": (lambda: of_task("reverse", "encoder-decoder"), (SOURCE, INPUTS), {
        "encoder.blocks.0.attention": (2, 5, 5), "encoder.blocks.1.attention": (2, 5, 5),
        "decoder.blocks.0.attention": (2, 4, 4), "decoder.blocks.0.cross_attention": (2, 4, 5),
        "decoder.blocks.1.attention": (2, 4, 4), "decoder.blocks.1.cross_attention": (2, 4, 5)}),
    "causal translator": (lambda: of_task("reverse", "causal", layers=1), (SOURCE, INPUTS),
                          {"model.blocks.0.attention": (2, 9, 9)}),
    "rnn-attention": (lambda: of_task("reverse", "rnn-attention"), (SOURCE, INPUTS), {"attention": (1, 5, 5)}),
    "layers of PyTorch": (lambda: shaken(Translator()), VECTORS[:2], {
        "encoder.layers.0.self_attn": (2, 6, 6), "encoder.layers.1.self_attn": (2, 6, 6),
        "decoder.layers.0.self_attn": (4, 4, 4), "decoder.layers.0.multihead_attn": (4, 4, 6)}),
    "switches": (lambda: shaken(Switches()), VECTORS[::2],
                 {"grouped": (4, 6, 6), "relative": (2, 6, 6), "memory": (2, 6, 5)}),
    **{f"causal, {variant}": (lambda variant=variant: causal(**variant), (TOKENS,), {
        f"blocks.{i}.attention": (variant.get("heads", 2), 6, 6) for i in range(variant.get("layers", 2))})
       for variant in VARIANTS},
}


@pytest.fixture(params=MODELS)
def case(request):
    make, inputs, shapes = MODELS[request.param]
    return make(), inputs, shapes


def test_weights_are_the_softmax_of_queries_and_keys():
    model, H, D = causal(layers=1), 2, 4
    p = {name: value.numpy() for name, value in model.state_dict().items()}
    x = p["token_embedding.weight"][TOKENS] + p["position_embedding.weight"][:6]
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    normed = normed * p["blocks.0.ln_1.weight"] + p["blocks.0.ln_1.bias"]
    projected = normed @ p["blocks.0.attention.in_proj_weight"].T + p["blocks.0.attention.in_proj_bias"]
    expected = np.zeros((3, H, 6, 6))
    for b, h, t in np.ndindex(3, H, 6):
        q, k = projected[b, t, D * h : D * (h + 1)], projected[b, : t + 1, 8 + D * h : 8 + D * (h + 1)]
        e = np.exp(k @ q / math.sqrt(D))
        expected[b, h, t, : t + 1] = e / e.sum()
    (weights,) = attention_maps(model, TOKENS).values()
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12)


def output_of(layer: nn.Module, weights: np.ndarray, args: tuple, kwargs: dict) -> np.ndarray:
    """The output of a layer for these arguments and weights (B, H, Tq, Tk)."""
    arrays = [value.detach().numpy() for value in args if isinstance(value, mg.Tensor)]
    p = {name: value.numpy() for name, value in layer.state_dict().items()}
    H = weights.shape[1]
    if isinstance(layer, nn.AdditiveAttention):
        return weights[:, 0] @ arrays[1]
    value = arrays[min(1, len(arrays) - 1)]
    G, D = layer.key_value_heads, layer.head_size
    matrix = p["v_proj_weight"] if "v_proj_weight" in p else p["in_proj_weight"][-G * D :]
    v = value @ matrix.T + (p["in_proj_bias"][-G * D :] if "in_proj_bias" in p else 0)
    v = np.repeat(v.reshape(*v.shape[:2], G, D), H // G, axis=2).reshape(*v.shape[:2], H * D)
    return side_by_side(weights, v) @ p["out_proj.weight"].T + p.get("out_proj.bias", 0)


def side_by_side(weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """weights (B, H, Tq, Tk) of values (B, Tk, H D) -> (B, Tq, H D)"""
    heads = np.split(v, weights.shape[1], axis=2)
    return np.concatenate([weights[:, h] @ values for h, values in enumerate(heads)], axis=2)


def test_each_layers_output_follows_from_the_weights(case):
    model, inputs, shapes = case
    maps = attention_maps(model, *inputs)
    assert {name: weights.shape[1:] for name, weights in maps.items()} == shapes and list(maps) == list(shapes)
    seen = {name: [] for name in shapes}
    for name, layer in model.eval().named_modules():
        if name in shapes:
            layer.register_forward_hook(lambda *call, name=name: seen[name].append(call), with_kwargs=True)
    model(*map(mg.tensor, inputs))
    for name, weights in maps.items():
        assert weights.min() >= 0
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        calls = seen[name]
        rows = [slice(None)] if len(calls) == 1 else [slice(i, i + 1) for i in range(len(calls))]
        for row, (layer, args, kwargs, output) in zip(rows, calls, strict=True):
            output = (output[0] if isinstance(output, tuple) else output).detach().numpy()
            expected = output_of(layer, weights[:, :, row], args, kwargs)
            np.testing.assert_allclose(output, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_one_sequence_or_a_batch():
    model = causal()
    batch = attention_maps(model, TOKENS)
    for i, form in enumerate((np.asarray, list, mg.tensor)):
        for name, weights in attention_maps(model, form(TOKENS[i])).items():
            np.testing.assert_allclose(weights, batch[name][i], rtol=1e-12)
    single = attention_maps(of_task("reverse", "encoder-decoder"), TOKENS[0, :5], TOKENS[0, :4])
    assert single["decoder.blocks.0.cross_attention"].shape == (2, 4, 5)


def test_the_model_is_unchanged(case):
    model, inputs, _ = case
    model.train()
    next(model.modules()).training = False  # modes may differ
    before_training = [module.training for module in model.modules()]
    for parameter in model.parameters():
        parameter.grad = mg.ones(*parameter.shape, dtype=parameter.dtype)
    gradients = [parameter.grad for parameter in model.parameters()]
    state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    random_state = mg.random.get_state()
    once, again = attention_maps(model, *inputs), attention_maps(model, *inputs)
    assert all(np.array_equal(once[name], again[name]) for name in once)  # without dropout, though in training mode
    assert [module.training for module in model.modules()] == before_training
    assert all(p.grad is gradient and (gradient.numpy() == 1).all() for p, gradient in zip(model.parameters(), gradients))
    assert all(np.array_equal(value.numpy(), state[name]) for name, value in model.state_dict().items())
    assert mg.random.get_state() == random_state and mg.is_grad_enabled()
    assert not any(module.has_hooks for module in model.modules())


def test_the_model_is_neither_copied_nor_put_on_the_tape():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiHeadAttention(8, 2)
            self.last, self.lock = None, threading.Lock()

        def forward(self, x):
            pointers.append(self.attention.in_proj_weight.array.ctypes.data)
            self.last = self.attention(x)
            requires_grad.append(self.last.requires_grad)
            return self.last

    pointers, requires_grad, model = [], [], Keeping()
    last = model(mg.tensor(VECTORS[0]))  # on the tape, so it cannot be copied; nor can a lock
    attention_maps(model, VECTORS[0])
    assert model.last is last and pointers[0] == pointers[1] and requires_grad == [True, False]


def test_a_compiled_step_is_not_affected():
    def parameters(looks: bool) -> list[np.ndarray]:
        task = TASKS["copy"]
        config = changed(vocabulary_size=task.vocabulary_size, dtype="float32")
        trainer = Trainer(make_model(task, "encoder-decoder", config), task, TrainingConfig.of(task, steps=4, batch_size=4))
        mg.manual_seed(3)
        for _ in range(4):
            trainer.train_step()
            if looks:
                attention_maps(trainer.model, SOURCE, INPUTS)
        return [parameter.array for parameter in trainer.model.parameters()]

    for looked, plain in zip(parameters(True), parameters(False), strict=True):
        np.testing.assert_array_equal(looked, plain)


def test_a_layer_that_is_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiHeadAttention(8, 2)

        def forward(self, x):
            return self.attention(self.attention(x), is_causal=True)

    maps = attention_maps(Twice(), VECTORS[0])
    assert list(maps) == ["attention", "attention, call 2"]
    assert maps["attention"][0, 0, 0, 1] > 0 == maps["attention, call 2"][0, 0, 0, 1]


def test_models_without_attention_and_bad_tokens():
    all_refused(lambda call: attention_maps(*call), [
        ((of_task("reverse", "rnn"), SOURCE, INPUTS), "RecurrentSeq2Seq calls no attention layer, so it has no weights"),
        ((of_task("bank", "no-attention"), SOURCE), "Classifier calls no attention layer"),
        ((causal(layers=0), TOKENS), "CausalTransformer calls no attention layer"),
        ((causal(), np.zeros((1, 25), int)), "1 <= T <= 24 (the model's context), got (1, 25)")])


def test_every_architecture_that_attends_has_a_case():
    names = {name for known in ARCHITECTURES.values() for name in known} - {"rnn", "no-attention"}
    assert names <= MODELS.keys()
