"""CachedDecoder: the logits of the full forward pass, whatever came before, at the cost of the new tokens."""
import dataclasses
import itertools
import sys

import numpy as np
import pytest

import minigrad as mg
import nn
from configs import random_config
from minigrad.fast.kernels.jit import get_num_threads, set_num_threads
from minigrad.fast.kernels.program import Program
from models import CausalTransformer, TransformerConfig, decode, generate, generate_batch
from models.decode import CachedDecoder, CannotDecode
from models.generate import draw, full_forward
from models.transformer import ATTENTION_POSITIONS, ENDLESS_POSITIONS, PLACEMENTS, TABLE_POSITIONS
from refusals import all_refused

SMALL = TransformerConfig(vocabulary_size=11, context=8, layers=2, heads=2, width=20)
LLAMA = dataclasses.replace(SMALL, norm="rms_norm", activation="swiglu", positions="rotary", heads=4, key_value_heads=2,
                            head_size=6, hidden_width=18, tied=False, bias=False)
WIDE = TransformerConfig(vocabulary_size=65, context=60, layers=2, heads=4, width=256)  # so that threads share it
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def make_model(config: TransformerConfig, spread: float = 1.0) -> CausalTransformer:
    """A model far from its initial parameters, so that all matter; a larger spread makes texts more varied.

    In evaluation mode, as changing the mode sets attributes, which empties the cache.
    """
    model, generator = CausalTransformer(config).eval(), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += spread * config.width**-0.5 * generator.standard_normal(parameter.shape)
    return model


def random_tokens(config: TransformerConfig, batch_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(config.vocabulary_size, size=(batch_size, count))


def assert_same_next_logits(decoder: CachedDecoder, tokens: np.ndarray, t: int) -> None:
    """When token t is added to those before it."""
    tolerance = TOLERANCE[decoder.model.config.dtype]
    np.testing.assert_allclose(decoder.next_logits(tokens[:, t]), full_forward(decoder.model, tokens[:, : t + 1]),
                               rtol=tolerance, atol=tolerance)


def assert_same_logits(decoder: CachedDecoder, tokens: np.ndarray) -> None:
    expected = full_forward(decoder.model, tokens)
    logits = decoder.logits(tokens)
    assert logits.dtype == expected.dtype
    tolerance = TOLERANCE[decoder.model.config.dtype]
    np.testing.assert_allclose(logits, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_inside_the_context_and_past_it(dtype):
    for bias, batch_size, prompt_length in itertools.product((True, False), (1, 2, 5, 17), (1, 3, 8)):
        config = dataclasses.replace(SMALL, bias=bias, dtype=dtype)
        decoder, tokens = CachedDecoder(make_model(config), batch_size), random_tokens(config, batch_size, config.context + 3)
        for end in range(prompt_length, tokens.shape[1] + 1):
            assert_same_logits(decoder, tokens[:, max(0, end - config.context):end])


def test_a_wide_model_and_a_long_prompt():
    for positions, batch_size in [(positions, 2) for positions in ATTENTION_POSITIONS] + [("learned", 1), ("learned", 7)]:
        config = dataclasses.replace(WIDE, positions=positions)
        decoder, tokens = CachedDecoder(make_model(config), batch_size), random_tokens(config, batch_size, config.context)
        for end in 55, 56, 57, config.context:
            assert_same_logits(decoder, tokens[:, :end])


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["small", "llama"])
def test_any_tokens_at_any_time(config):
    decoder, tokens = CachedDecoder(make_model(config), 2), random_tokens(config, 2, 8)
    changed = tokens.copy()
    changed[1, 4] = (changed[1, 4] + 1) % 11
    for text in tokens, tokens, tokens[:, :5], changed, changed[:, :6], tokens[:, 3:], tokens[:, :1]:
        assert_same_logits(decoder, text)


@pytest.mark.parametrize("context", [1, 2, 5])
def test_any_tokens_at_any_time_past_the_context(context, random):
    """Back and forth, in and out of the cache, with tokens that change at any place."""
    for layers in (0, 1, 3):
        config = dataclasses.replace(LLAMA, context=context, layers=layers, dtype="float64")
        decoder, tokens = CachedDecoder(make_model(config), 2), random_tokens(config, 2, 50)
        for _ in range(40):
            if random.random() < 0.3:
                tokens[random.integers(2), random.integers(50)] = random.integers(11)
            end = random.integers(1, 50)
            assert_same_logits(decoder, tokens[:, :end])
            for t in range(end, min(end + random.integers(8), 50)):
                assert_same_next_logits(decoder, tokens, t)


def test_going_back():
    """To a token whose window has left the cache, or whose keys were computed without the whole text before."""
    config = dataclasses.replace(LLAMA, context=5, layers=3, dtype="float64")  # three blocks reach 13 tokens
    for first, then in [(12, 9), (12, 11), (30, 25), (30, 29), (30, 31), (13, 12), (31, 14), (9, 30)]:
        decoder, tokens = CachedDecoder(make_model(config), 1), random_tokens(config, 1, 40)
        for end in (first, then, then + 1):
            assert_same_logits(decoder, tokens[:, :end])


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_any_config(first_seed):
    """All fields at random: inside the context and, where positions allow it, far past it."""
    for seed in range(first_seed, first_seed + 10):
        random = np.random.default_rng(seed)
        config = random_config(random)
        B, is_endless = random.integers(1, 5), config.positions in ENDLESS_POSITIONS
        model = make_model(config)
        decoder, tokens = CachedDecoder(model, B), random_tokens(config, B, 4 * config.context + 3)
        last = tokens.shape[1] if is_endless else config.context
        prompt = random.integers(1, last + 1)
        assert_same_logits(decoder, tokens[:, :prompt])
        for t in range(prompt, last):
            if random.random() < 0.1:
                for parameter in model.parameters():
                    parameter.data[...] *= 0.9
            assert_same_next_logits(decoder, tokens, t)


@pytest.mark.long
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-8)])
def test_a_million_tokens_away(dtype, tolerance):
    """With rotary positions only distances matter."""
    config = dataclasses.replace(LLAMA, dtype=dtype)
    decoder, far = CachedDecoder(make_model(config), 1), random_tokens(config, 1, 10**6 + 30)
    assert decoder._reach < 30
    for end in (10**6, 10**6 + 20):
        expected = full_forward(decoder.model, far[:, end - 30 : end])
        np.testing.assert_allclose(decoder.logits(far[:, :end]), expected, rtol=tolerance, atol=tolerance)
    assert decoder.tokens.shape[1] < 60


def test_attributes_set_between_two_tokens_take_effect():
    model, tokens = make_model(dataclasses.replace(LLAMA, norm_eps=0.3)), random_tokens(LLAMA, 2, 30)
    block, decoder = model.blocks[1], CachedDecoder(model, 2)
    before = decoder.logits(tokens[:, :4]).copy()
    changes = [(block.ln_1, "eps", 9.0), (model.ln_f, "eps", None), (block.attention, "rotary_base", 3.0),
               (block.attention, "rotary_scaling", "linear:2"), (block.mlp.gate, "activation", "relu"), (block, "placement", PLACEMENTS["post"]),
               (model, "ln_f", nn.LayerNorm(20)), (model, "read_out", None), (block, "ln_2", nn.RMSNorm(20))]
    for end, (module, name, value) in enumerate(changes, 5):
        setattr(module, name, value)
        logits, expected = decoder.next_logits(tokens[:, end - 1]), full_forward(model, tokens[:, :end])
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        after = decoder.logits(tokens[:, :4]).copy()
        assert np.abs(after - before).max() > 1e-4, name
        before = after
        decoder.logits(tokens[:, :end])
    model.blocks[0].mlp.register_forward_hook(lambda module, arguments, output: 2 * output)
    with pytest.raises(CannotDecode, match="there is a MLP with hooks"):
        decoder.next_logits(tokens[:, end])


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["small", "llama"])
def test_a_hook_between_two_tokens_is_called(config):
    """Past the context too; `generate` continues by the full forward pass."""
    for count in (3, 12, 20):
        model = make_model(config, 3.0)
        text = generate(model, [1, 2], 40, temperature=0)
        first = [next(text) for _ in range(count)]
        plain = greedy_text(model, [1, 2], 40)
        handle = model.blocks[0].mlp.register_forward_hook(lambda module, arguments, output: 0 * output)
        rest = list(text)
        assert first == plain[:count] and rest == greedy_text(model, [1, 2], 40, said=first)
        handle.remove()
        assert rest != plain[count:]


def test_threads_change_no_bit():
    threads = get_num_threads()
    for dtype, batch_size in itertools.product(["float32", "float64"], [1, 5, 17]):
        config = dataclasses.replace(WIDE, dtype=dtype)
        model, tokens, results = make_model(config), random_tokens(config, batch_size, 53), []
        try:
            for count in (1, threads):
                set_num_threads(count)
                decoder = CachedDecoder(model, batch_size)
                results.append([decoder.logits(tokens[:, :end]).tobytes() for end in (50, 51, 53)])
        finally:
            set_num_threads(threads)
        assert results[0] == results[1]


def greedy_text(model: nn.Module, prompt: list[int], count: int, said: list[int] = (),
                choose=lambda logits: int(logits[0].argmax())) -> list[int]:
    """The text that `generate` with temperature 0 continues `said` with: the full forward pass of all tokens or, with a
    table of positions, of a window that keeps its second half and the new token whenever it is full."""
    context, is_endless = model.config.context, model.config.positions in ENDLESS_POSITIONS
    window, text = list(prompt if is_endless else prompt[-context:]), []
    for i in range(count):
        chosen = said[i] if i < len(said) else choose(full_forward(model, np.array([window])))
        text.append(chosen)
        window.append(chosen)
        if not is_endless and len(window) > context:
            window = window[-(context // 2 + 1):]
    return text[len(said):]


@pytest.mark.parametrize("positions", TABLE_POSITIONS + ATTENTION_POSITIONS)
def test_generated_text_is_that_of_the_full_forward(positions, monkeypatch):
    """With and without the cache, for prompts within the context, beyond it, and beyond the reach of all blocks."""
    base = LLAMA if positions == "rotary" else SMALL
    for context, prompt in itertools.product([1, 2, 3, 8], [[1], [1, 2, 3], list(range(11)) * 4]):
        model = make_model(dataclasses.replace(base, positions=positions, context=context, dtype="float64"), 3.0)
        generator = np.random.default_rng(3)
        expected = greedy_text(model, prompt, 25, choose=lambda logits: int(draw(logits, 9.0, None, None, generator)[0]))  # noqa: B023
        assert len(set(expected)) > 4
        assert list(generate(model, prompt, 25, temperature=9.0, seed=3)) == expected
        with monkeypatch.context() as patched:
            patched.setattr(sys.modules["models.generate"], "CachedDecoder", unable)
            assert list(generate(model, prompt, 25, temperature=9.0, seed=3)) == expected


def unable(*_):
    raise CannotDecode("nothing is known")


def test_a_batch_of_texts_is_the_texts_one_by_one_without_dropout():
    for config in (SMALL, LLAMA):
        model, prompts = make_model(dataclasses.replace(config, dropout=0.5), 3.0).train(), [[1, 2], [3, 4], [5, 6]]
        together = np.array(list(generate_batch(model, prompts, 15, temperature=0)))
        assert model.training
        one_by_one = [list(generate(model.eval(), prompt, 15, temperature=0)) for prompt in prompts]
        assert together.T.tolist() == one_by_one


def test_loaded_parameters_take_effect_at_the_next_token():
    model, changed = make_model(SMALL, 3.0), make_model(SMALL, -2.5).state_dict()
    before = list(generate(model, [1], 12, temperature=0))
    text = generate(model, [1], 12, temperature=0)
    first = [next(text) for _ in range(4)]
    model.load_state_dict(changed)
    assert first == before[:4]
    assert list(text) == greedy_text(model, [1], 12, said=first) != before[4:]
    assert list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12) != before


def test_an_optimizer_step_takes_effect_at_the_next_token():
    model, tokens = make_model(SMALL), random_tokens(SMALL, 2, 8)
    decoder, optimizer = CachedDecoder(model, 2), nn.optim.AdamW(model.parameters(), lr=0.1)
    assert_same_logits(decoder, tokens[:, :4])
    model(mg.tensor(tokens), mg.tensor(tokens))[1].backward()
    optimizer.step()
    assert_same_logits(decoder, tokens[:, :5])


@pytest.mark.parametrize("change", [lambda model: setattr(model.token_embedding.weight, "data", model.token_embedding.weight.data * 2),
                                    nn.Module.double])
def test_parameters_with_other_memory_take_effect_at_the_next_token(change):
    model, tokens = make_model(SMALL), random_tokens(SMALL, 2, 8)
    decoder = CachedDecoder(model, 2)
    assert_same_logits(decoder, tokens[:, :4])
    change(model)
    assert_same_logits(decoder, tokens[:, :5])


def test_parameters_that_a_kernel_takes_as_copies():
    model, tokens = make_model(SMALL).double(), random_tokens(SMALL, 1, 8)
    weight = model.blocks[1].mlp.expand.weight
    weight.array = np.asfortranarray(weight.array)
    decoder = CachedDecoder(model, 1)
    assert_same_logits(decoder, tokens[:, :4])
    weight.data[3] += 1.0
    assert_same_logits(decoder, tokens[:, :5])


def test_a_model_is_decoded_by_its_parts_not_by_its_config():
    wide = CausalTransformer(dataclasses.replace(SMALL, mlp_ratio=6, activation="relu")).blocks[0].mlp
    for change in (lambda model: setattr(model.blocks[0], "mlp", wide), lambda model: model.blocks.__delitem__(0)):
        change(model := make_model(SMALL))
        assert_same_logits(CachedDecoder(model, 2), random_tokens(SMALL, 2, 5))


def of_another_type(kind: type, *arguments) -> nn.Module:
    """A layer of a subclass, which may compute anything."""
    return type("Other", (kind,), {})(*arguments)


GROUPED = dataclasses.replace(SMALL, positions="rotary", key_value_heads=1, bias=False)
UNKNOWN = {
    "a hook": lambda model: model.blocks[0].mlp.register_forward_hook(lambda module, arguments, output: 2 * output),
    "a part of another type": lambda model: setattr(model.blocks[0].mlp, "project", of_another_type(nn.Linear, 80, 20)),
    "a block of another type": lambda model: model.blocks.append(nn.Linear(20, 20)),
    "a dropout of another type": lambda model: setattr(model.blocks[0], "dropout", nn.ReLU()),
    "a final norm of another type": lambda model: setattr(model, "ln_f", nn.Identity()),
    "an MLP of another type": lambda model: setattr(model.blocks[0], "mlp", nn.Linear(20, 20)),
    "an embedding of another type": lambda model: setattr(model, "token_embedding", of_another_type(nn.Embedding, 11, 20)),
    "an activation where none is known": lambda model: setattr(model.blocks[0].attention.out_proj, "activation", "relu"),
    "other heads": lambda model: setattr(model.blocks[0], "attention", nn.MultiHeadAttention(20, 5, window=8)),
    "a block without attention": lambda model: setattr(model.blocks[0], "attends", False),
    "another denominator": lambda model: setattr(model.blocks[0].ln_1, "eps_at", "outside"),
    "another variance": lambda model: setattr(model.ln_f, "unbiased", True),
    "a window of its own": lambda model: setattr(model.blocks[0].attention, "window", 3),
}


def test_a_model_with_an_unknown_part_is_generated_from_by_the_full_forward():
    changed = [(of_another_type(CausalTransformer, SMALL).eval(), "a model of another type")]
    for name, change in UNKNOWN.items():
        changed.append((make_model(SMALL), name))
        change(changed[-1][0])
    for model, name in changed:
        all_refused(lambda model: CachedDecoder(model, 1), [(model, "there is a")])
        assert list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12), name


def test_a_model_of_two_dtypes_is_refused():
    model = make_model(SMALL)
    model.blocks[0].double()
    with pytest.raises(ValueError, match="a program of float32 expects arrays of that dtype, got float64"):
        CachedDecoder(model, 1)


def test_a_table_that_has_become_shorter_is_not_read_past_its_end():
    model = make_model(SMALL)
    decoder = CachedDecoder(model, 1)
    decoder.logits([[10]])
    for change in (lambda rows: setattr(model.token_embedding.weight, "data", rows),
                   lambda rows: setattr(model.token_embedding, "weight", nn.Parameter(mg.tensor(rows)))):
        model.token_embedding.weight.requires_grad = False
        change(model.token_embedding.weight.detach().numpy()[:-1].copy())
        size = len(model.token_embedding.weight)
        all_refused(decoder.logits, [([[size]], f"index {size} is out of range; expected 0 to {size - 1}")], IndexError)
        assert decoder.logits([[size - 1]]).shape == (1, size)


def test_layers_without_inputs_are_not_decoded():
    model = make_model(SMALL)
    model.blocks[0].mlp.expand.weight = nn.Parameter(mg.zeros(80, 0))
    all_refused(lambda model: CachedDecoder(model, 1), [(model, "a step cannot take arrays of shapes [(80, 0), (80,)]")])


def test_only_new_tokens_are_computed(monkeypatch):
    """One a step while the window grows; all of them when it moves or an earlier token changes."""
    counts, run = [], Program.run
    monkeypatch.setattr(Program, "run", lambda self, tokens, *rest: counts.append(tokens.shape[1]) or run(self, tokens, *rest))
    decoder, tokens = CachedDecoder(make_model(SMALL), 2), random_tokens(SMALL, 2, 10)
    for end in range(3, 11):
        decoder.logits(tokens[:, max(0, end - 8) : end])
    assert counts == [3, 1, 1, 1, 1, 1, 8, 8]
    tokens[1, 6] = (tokens[1, 6] + 1) % 11
    decoder.logits(tokens[:, 2:])
    assert counts[-1] == 4


def computed(monkeypatch, config: TransformerConfig, prompt: list[int], count: int) -> list[int]:
    """The number of tokens computed for each one generated."""
    counts, run = [], Program.run
    with monkeypatch.context() as patched:
        patched.setattr(Program, "run", lambda self, tokens, *rest: counts.append(tokens.shape[1]) or run(self, tokens, *rest))
        list(generate(make_model(config), prompt, count, seed=0))
    return counts


def test_tokens_past_the_context_cost_no_more(monkeypatch):
    """One token at a time; with a table of positions, half the window now and then."""
    assert computed(monkeypatch, LLAMA, [1, 2, 3], 40) == [3] + [1] * 39
    assert computed(monkeypatch, LLAMA, [1] * 30, 2) == [15, 1]  # what two blocks of context 8 reach
    varied = dataclasses.replace(SMALL, vocabulary_size=5000)  # no two windows begin with the same token
    assert computed(monkeypatch, varied, [1, 2, 3], 16) == [3, 1, 1, 1, 1, 1, *[5, 1, 1, 1] * 2, 5, 1]
    assert computed(monkeypatch, varied, [*range(30)], 3) == [8, 5, 1]


def test_memory_does_not_grow_with_the_text():
    decoder = CachedDecoder(make_model(LLAMA), 1)
    decoder.logits([[1]])
    shapes = set()
    for _ in range(400):
        decoder.next_logits([2])
        shapes.add((decoder.keys.shape, decoder._text.shape))
    assert {keys for keys, _ in shapes} == {(2, 1, 2, 16, 6)}  # two heads of keys, two windows of 8 tokens
    assert max(text[1] for _, text in shapes) <= 2 * 15


def test_bad_tokens():
    decoder = CachedDecoder(make_model(LLAMA), 1)
    expected = decoder.logits([[1, 2]]).copy()
    for error, call, rows in (
        (IndexError, decoder.logits, [([[0, 11]], "index 11 is out of range; expected 0 to 10"), ([[-1]], "index -1 is out of range")]),
        (TypeError, decoder.logits, [([[0.5]], "tokens must be integers, got float64")]),
        (ValueError, CachedDecoder(make_model(SMALL), 1).logits, [
            ([[0] * 9], "expected tokens (1, T) with 1 <= T <= 8 (the model's context), got (1, 9)")]),
        (ValueError, decoder.logits, [(tokens, "expected tokens (1, T)") for tokens in ([[0], [0]], [0], np.zeros((1, 0), int))]),
        (IndexError, decoder.next_logits, [([11], "index 11 is out of range")]),
        (TypeError, decoder.next_logits, [([0.5], "tokens must be integers")]),
        (ValueError, decoder.next_logits, [([1, 2], "expected tokens (1, T) with 1 <= T, got (2, 1)")]),
        (IndexError, lambda prompt: list(generate(make_model(SMALL, 3.0), prompt, 1)), [
            ([0, token], f"index {token} is out of range; expected 0 to 10") for token in (-1, 11)]),
    ):
        all_refused(call, rows, error)
    np.testing.assert_array_equal(decoder.logits([[1, 2]]), expected)


def test_slots_double_when_they_are_full(monkeypatch):
    """Inside the context, and past it up to the size of two windows."""
    monkeypatch.setattr(decode, "FEWEST_SLOTS", 3)
    for positions, prompt_length in itertools.product(TABLE_POSITIONS + ATTENTION_POSITIONS, (1, 7)):
        config = dataclasses.replace(LLAMA, positions=positions, layers=1, key_value_heads=4)
        decoder, tokens = CachedDecoder(make_model(config), 2), random_tokens(config, 2, 30)
        last, all_slots = (30, [3, 6, 12, 16]) if decode.is_endless(decoder.model) else (8, [3, 6, 8])
        for end in range(prompt_length, last + 1):
            assert_same_logits(decoder, tokens[:, :end])
            assert_same_logits(decoder, tokens[:, :max(1, end - 1)])  # one back again
            assert decoder.program.slots == next((slots for slots in all_slots if slots >= end), all_slots[-1])


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
def test_an_enormous_context_takes_no_memory(positions):
    def text(context: int) -> list[int]:
        mg.manual_seed(0)
        model = make_model(dataclasses.replace(LLAMA, positions=positions, context=context), spread=3.0)
        return list(generate(model, [1, 2], 40, seed=0))

    assert text(10**9) == text(64)


@pytest.mark.parametrize("fewest", [1, 3, 256])
def test_rotary_angles_are_computed_as_the_text_grows(fewest, monkeypatch):
    """For a short text, longer ones, one past the context, and a short one again."""
    monkeypatch.setattr(decode, "FEWEST_ANGLES", fewest)
    config = dataclasses.replace(LLAMA, context=150)
    model, tokens = make_model(config), random_tokens(config, 1, 400)
    decoder = CachedDecoder(model, 1)
    for end in (2, 3, 9, 140, 299, 301, 400, 5):
        expected, _ = model(mg.tensor(tokens[:, :end]))
        np.testing.assert_allclose(decoder.logits(tokens[:, :end]), expected.array[:, -1], atol=1e-5)
