"""Decoding with cached keys and values: the logits of the model itself, whatever was asked before."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.kernels.jit import get_num_threads, set_num_threads
from models import CausalTransformer, TransformerConfig, decode, generate, generate_batch
from models.decode import Decoder, can_decode
from models.generate import full_forward

SMALL = TransformerConfig(vocabulary_size=11, context=8, layers=2, heads=2, width=20)
WIDE = TransformerConfig(vocabulary_size=65, context=60, layers=2, heads=4, width=256)  # so that threads share it
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def make_model(config: TransformerConfig, spread: float = 1.0) -> CausalTransformer:
    """With parameters far from where they start, so that all count; a larger spread makes texts that are not dull."""
    model, generator = CausalTransformer(config), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += spread * config.width**-0.5 * generator.standard_normal(parameter.shape)
    return model


def random_tokens(config: TransformerConfig, batch_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(config.vocabulary_size, size=(batch_size, count))


def assert_same_logits(decoder: Decoder, tokens: np.ndarray) -> None:
    expected = full_forward(decoder.model, tokens)
    logits = decoder.logits(tokens)
    assert logits.dtype == expected.dtype
    tolerance = TOLERANCE[decoder.model.config.dtype]
    np.testing.assert_allclose(logits, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 17])
@pytest.mark.parametrize("prompt_length", [1, 3, 8])
def test_logits_are_those_of_the_full_forward_past_the_context_too(prompt_length, batch_size, bias, dtype):
    config = dataclasses.replace(SMALL, bias=bias, dtype=dtype)
    decoder, tokens = Decoder(make_model(config), batch_size), random_tokens(config, batch_size, config.context + 3)
    for end in range(prompt_length, tokens.shape[1] + 1):
        assert_same_logits(decoder, tokens[:, max(0, end - config.context):end])


@pytest.mark.parametrize("batch_size", [1, 7])
def test_a_wide_model_and_a_long_prompt(batch_size):
    decoder, tokens = Decoder(make_model(WIDE), batch_size), random_tokens(WIDE, batch_size, WIDE.context)
    for end in 55, 56, 57, WIDE.context:
        assert_same_logits(decoder, tokens[:, :end])


def test_any_tokens_at_any_time():
    decoder, tokens = Decoder(make_model(SMALL), 2), random_tokens(SMALL, 2, 8)
    changed = tokens.copy()
    changed[1, 4] = (changed[1, 4] + 1) % 11
    for text in tokens, tokens, tokens[:, :5], changed, changed[:, :6], tokens[:, 3:], tokens[:, :1]:
        assert_same_logits(decoder, text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [1, 5, 17])
def test_threads_change_no_bit(batch_size, dtype):
    config = dataclasses.replace(WIDE, dtype=dtype)
    model, tokens, results = make_model(config), random_tokens(config, batch_size, 53), []
    threads = get_num_threads()
    try:
        for count in (1, threads):
            set_num_threads(count)
            decoder = Decoder(model, batch_size)
            results.append([decoder.logits(tokens[:, :end]).tobytes() for end in (50, 51, 53)])
    finally:
        set_num_threads(threads)
    assert results[0] == results[1]


def greedy_text(model: nn.Module, tokens: list[int], count: int) -> list[int]:
    """What `generate` with temperature 0 stands for."""
    tokens = list(tokens)
    for _ in range(count):
        tokens.append(int(full_forward(model, np.array([tokens[-model.config.context:]]))[0].argmax()))
    return tokens[-count:]


def test_the_greedy_text_is_that_of_the_full_forward():
    model = make_model(SMALL, 3.0)
    text = list(generate(model, [1, 2, 3], 20, temperature=0))
    assert text == greedy_text(model, [1, 2, 3], 20) and len(set(text)) > 2


def test_texts_side_by_side_are_those_one_by_one():
    model, prompts = make_model(SMALL, 3.0), [[1, 2], [3, 4], [5, 6]]
    together = np.array(list(generate_batch(model, prompts, 15, temperature=0)))
    assert together.T.tolist() == [list(generate(model, prompt, 15, temperature=0)) for prompt in prompts]


def test_a_model_in_training_generates_without_dropout():
    model = make_model(dataclasses.replace(SMALL, dropout=0.5), 3.0)
    texts = [list(generate(model.train(mode), [1], 20, temperature=0)) for mode in (True, False, True)]
    assert texts[0] == texts[1] == texts[2] and model.training


def test_changed_parameters_are_seen_in_the_next_generation_and_at_the_next_token():
    model, changed = make_model(SMALL, 3.0), make_model(SMALL, -2.5).state_dict()
    before = list(generate(model, [1], 12, temperature=0))
    text = generate(model, [1], 12, temperature=0)
    first = [next(text) for _ in range(4)]
    model.load_state_dict(changed)
    assert first == before[:4]
    assert list(text) == greedy_text(model, [1, *first], 8) != before[4:]
    assert list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12) != before


def test_an_optimizer_step_between_two_tokens_is_seen():
    model, tokens = make_model(SMALL), random_tokens(SMALL, 2, 8)
    decoder, optimizer = Decoder(model, 2), nn.optim.AdamW(model.parameters(), lr=0.1)
    assert_same_logits(decoder, tokens[:, :4])
    model(mg.tensor(tokens), mg.tensor(tokens))[1].backward()
    optimizer.step()
    assert_same_logits(decoder, tokens[:, :5])


def test_parameters_that_a_kernel_cannot_take_as_they_are():
    model, tokens = make_model(SMALL).double(), random_tokens(SMALL, 1, 8)
    weight = model.blocks[1].mlp.expand.weight
    weight.array = np.asfortranarray(weight.array)
    decoder = Decoder(model, 1)
    assert_same_logits(decoder, tokens[:, :4])
    weight.data[3] += 1.0
    assert_same_logits(decoder, tokens[:, :5])


def replace_activation(model):
    model.blocks[1].mlp.expand.activation = "relu"


def approximate(model):
    model.blocks[1].mlp.expand.activation = "gelu_tanh"


def watch(model):
    model.blocks[0].mlp.register_forward_hook(lambda module, arguments, output: 2 * output)


def widen(model):
    width = SMALL.width
    model.blocks[0].mlp.expand = nn.Linear(width, 6 * width, activation="gelu")
    model.blocks[0].mlp.project = nn.Linear(6 * width, width)


def drop_a_block(model):
    del model.blocks[0]


@pytest.mark.parametrize("change", [replace_activation, approximate, watch, widen, drop_a_block])
def test_a_model_that_the_kernel_does_not_know_goes_by_the_full_forward(change):
    model = make_model(SMALL, 3.0)
    assert can_decode(model)
    change(model)
    assert not can_decode(model)
    assert list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12)


def test_a_model_of_two_dtypes_goes_by_the_full_forward():
    model = make_model(SMALL)
    model.blocks[0].double()
    assert not can_decode(model)


def test_only_what_is_new_is_computed(monkeypatch):
    """One token a step while the window grows; all of it, when it moves or an earlier token is another."""
    counts, original = [], decode.decode
    monkeypatch.setattr(decode, "decode", lambda tokens, *rest: counts.append(tokens.shape[1]) or original(tokens, *rest))
    decoder, tokens = Decoder(make_model(SMALL), 2), random_tokens(SMALL, 2, 10)
    for end in range(3, 11):
        decoder.logits(tokens[:, max(0, end - 8) : end])
    assert counts == [3, 1, 1, 1, 1, 1, 8, 8]
    tokens[1, 6] = (tokens[1, 6] + 1) % 11
    decoder.logits(tokens[:, 2:])
    assert counts[-1] == 4


def test_a_subclass_goes_by_its_own_forward():
    class Negated(CausalTransformer):
        def forward(self, tokens, targets=None):
            return -super().forward(tokens, targets)[0], None

    model = Negated(SMALL)
    assert not can_decode(model)
    assert list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12)


def test_layer_norms_with_an_eps_of_their_own():
    model = make_model(SMALL)
    model.blocks[1].ln_2.eps, model.ln_f.eps = 0.5, 1.0
    assert_same_logits(Decoder(model, 2), random_tokens(SMALL, 2, 5))


@pytest.mark.parametrize("tokens, error, says", [
    ([[0, 11]], IndexError, "index 11 is out of range; expected 0 to 10"),
    ([[-1]], IndexError, "index -1 is out of range"),
    ([[0.5]], TypeError, "tokens must be integers, got float64"),
    ([[0] * 9], ValueError, r"expected tokens \(1, T\) with 1 <= T <= 8 .the model's context., got \(1, 9\)"),
    ([[0], [0]], ValueError, r"expected tokens \(1, T\)"),
    ([0], ValueError, r"expected tokens \(1, T\)"),
    (np.zeros((1, 0), int), ValueError, r"expected tokens \(1, T\)"),
])
def test_bad_tokens(tokens, error, says):
    with pytest.raises(error, match=says):
        Decoder(make_model(SMALL), 1).logits(tokens)


@pytest.mark.parametrize("token", [-1, 11])
def test_a_prompt_with_an_unknown_token(token):
    with pytest.raises(IndexError, match=f"index {token} is out of range; expected 0 to 10"):
        list(generate(make_model(SMALL, 3.0), [0, token], 1))
