"""Text with a cache of keys and values: the logits of the whole forward, whatever comes between, at the cost of the new tokens."""
import dataclasses
import gc
import itertools
import weakref

import numpy as np
import pytest

import minigrad as mg
import nn
from configs import random_config
from models import CausalTransformer, TransformerConfig, generate, generate_batch
from models.generate import Reader, draw, full_forward
from models.config import ATTENTION_POSITIONS, ENDLESS_POSITIONS, PLACEMENTS, TABLE_POSITIONS
from models.transformer import Cache
from refusals import all_refused

SMALL = TransformerConfig(vocabulary_size=11, context=8, layers=2, heads=2, width=20)
LLAMA = dataclasses.replace(SMALL, norm="rms_norm", activation="swiglu", positions="rotary", heads=4, key_value_heads=2,
                            head_size=6, hidden_width=18, tied=False, bias=False)
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


@pytest.fixture
def compiled(monkeypatch):
    """Steps are compiled from the first on."""
    monkeypatch.setattr(Reader, "few", -1)


def make_model(config: TransformerConfig, spread: float = 1.0) -> CausalTransformer:
    """A model far from its initial parameters, so that all matter; a larger spread makes texts more varied."""
    mg.manual_seed(0)
    model, generator = CausalTransformer(config).eval(), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += spread * config.width**-0.5 * generator.standard_normal(parameter.shape)
    return model


def windows(model: nn.Module, prompt: list[int], said: list[int]):
    """What the model sees before each token that is said, and after the last: all tokens or, with a table of positions, a
    window that keeps its second half and the new token whenever it is full."""
    context, is_endless = model.config.context, model.config.positions in ENDLESS_POSITIONS
    window = list(prompt if is_endless else prompt[-context:])
    for token in said:
        yield window
        window = [*window, token]
        if not is_endless and len(window) > context:
            window = window[-(context // 2 + 1):]
    yield window


def greedy_text(model: nn.Module, prompt: list[int], count: int, said: list[int] = (),
                choose=lambda logits: int(logits[0].argmax())) -> list[int]:
    """The text that `generate` with temperature 0 continues `said` with, by the whole forward."""
    text = list(said)
    while len(text) < count:
        *_, window = windows(model, prompt, text)
        text.append(choose(full_forward(model, np.array([window]))))
    return text[len(said):]


def assert_same_logits(model: CausalTransformer, texts: np.ndarray, prompt: int, change=lambda t: None) -> None:
    """Of the tokens after the prompts, when these texts (B, T) are chosen; `change` may change the model before token t."""
    steps, found = itertools.count(prompt), []

    def choose(logits: np.ndarray) -> np.ndarray:
        t = next(steps)
        seen = np.array([list(windows(model, list(text[:prompt]), list(text[prompt:t])))[-1] for text in texts])
        found.append((logits, full_forward(model, seen)))
        change(t)
        return texts[:, t]

    for _ in generate_batch(model, texts[:, :prompt], texts.shape[1] - prompt, choose=choose):
        pass
    tolerance = TOLERANCE[model.config.dtype]
    for logits, expected in found:
        assert logits.dtype == expected.dtype
        np.testing.assert_allclose(logits, expected, rtol=tolerance, atol=tolerance, err_msg=str(model.config))


def random_texts(config: TransformerConfig, batch_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(config.vocabulary_size, size=(batch_size, count))


def assert_any_config(seeds: range) -> None:
    for seed in seeds:
        random = np.random.default_rng(seed)
        config = random_config(random)
        model, texts = make_model(config), random_texts(config, random.integers(1, 5), 4 * config.context + 3)
        assert Cache.serves(model)
        assert_same_logits(model, texts, random.integers(1, texts.shape[1]), lambda t, model=model, random=random: (
            [parameter.data.mul_(0.9) for parameter in model.parameters()] if random.random() < 0.1 else None))


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_any_config(first_seed):
    """All fields at random, within the context and far past it; now and then the parameters change."""
    assert_any_config(range(first_seed, first_seed + 10))


@pytest.mark.parametrize("first_seed", range(60, 72, 4))
def test_any_config_compiled(first_seed, compiled):
    assert_any_config(range(first_seed, first_seed + 4))


@pytest.mark.parametrize("positions", TABLE_POSITIONS + ATTENTION_POSITIONS)
def test_slots_double_until_the_context(positions, monkeypatch, compiled):
    monkeypatch.setattr("models.transformer.FEWEST_SLOTS", 3)
    config = dataclasses.replace(LLAMA, positions=positions, context=14)
    model = make_model(config)
    assert_same_logits(model, random_texts(config, 2, 40), 2)
    assert [array.shape for array in Reader.caches[model].layers[0]] == [(2, 2, 14, 6)] * 2


@pytest.mark.parametrize("positions", TABLE_POSITIONS + ATTENTION_POSITIONS)
def test_a_generated_text_is_that_of_the_whole_forward(positions):
    """For prompts within the context, beyond it, and beyond what all blocks see."""
    base = LLAMA if positions == "rotary" else SMALL
    for context, prompt in itertools.product([1, 3, 8], [[1], [1, 2, 3], list(range(11)) * 4]):
        model = make_model(dataclasses.replace(base, positions=positions, context=context, dtype="float64"), 3.0)
        generator = np.random.default_rng(3)
        expected = greedy_text(model, prompt, 25, choose=lambda logits: int(draw(logits, 9.0, None, None, generator)[0]))  # noqa: B023
        assert len(set(expected)) > 4
        assert list(generate(model, prompt, 25, temperature=9.0, seed=3)) == expected


def computed(monkeypatch, model: CausalTransformer, prompt: list[int], count: int) -> list[int]:
    """The number of tokens computed for each one generated."""
    counts, embed = [], CausalTransformer.embed
    with monkeypatch.context() as patched:
        patched.setattr(CausalTransformer, "embed", lambda self, tokens, *rest: counts.append(tokens.shape[1]) or embed(
            self, tokens, *rest))
        list(generate(model, prompt, count, seed=0))
    return counts


def test_only_new_tokens_are_computed(monkeypatch):
    """One at a time, also past the context; with a table of positions, half the window now and then."""
    assert computed(monkeypatch, make_model(LLAMA), [1, 2, 3], 30) == [3] + [1] * 29
    assert computed(monkeypatch, make_model(LLAMA).train(), [1, 2, 3], 30) == [3] + [1] * 29
    assert computed(monkeypatch, make_model(LLAMA), [1] * 30, 2) == [15, 1]  # what two blocks of context 8 see
    assert computed(monkeypatch, make_model(SMALL), [1, 2, 3], 16) == [3, 1, 1, 1, 1, 1, *[5, 1, 1, 1] * 2, 5, 1]
    assert computed(monkeypatch, make_model(SMALL), [1] * 30, 3) == [8, 5, 1]


def test_a_step_is_not_compiled_for_a_few_tokens():
    for model in make_model(SMALL), make_model(SMALL).train():
        for count in Reader.few, 2, 60, 60:
            list(generate(model, [1], count))
            calls = Reader.caches[model].compiled.calls
            assert calls == 0 if count < 60 else calls > 30


def test_dropout_that_is_set_between_two_tokens_drops_nothing():
    for part, name in (nn.Dropout, "p"), (nn.MultiHeadAttention, "dropout"):
        model = make_model(SMALL, 3.0).train()
        expected, text = list(generate(model.eval(), [1], 50, temperature=0)), generate(model.train(), [1], 50, temperature=0)
        found = [next(text) for _ in range(40)]
        for module in filter(lambda module: isinstance(module, part), model.modules()):
            setattr(module, name, 0.5)
        assert found + list(text) == expected and model.training


def test_a_model_that_was_broken_once():
    model = make_model(SMALL, 3.0)
    expected, weight = list(generate(model, [1], 9, temperature=0)), model.blocks[0].attention.in_proj_weight
    before = weight.detach().clone()
    for value in np.nan, before:
        weight.data[...] = value
        text = list(generate(model, [1], 9, choose=lambda logits: np.nan_to_num(logits).argmax(axis=1)))
    assert text == expected


def test_two_texts_at_once_and_texts_that_are_not_finished():
    model = make_model(SMALL, 3.0)
    expected = [greedy_text(model, prompt, 30) for prompt in ([1], [2, 3])]
    texts = [generate(model, prompt, 30, temperature=0) for prompt in ([1], [2, 3])]
    assert [list(pair) for pair in zip(*(zip(*texts)))] == expected
    unfinished = generate(model, [4], 30, temperature=0)
    next(unfinished)
    assert list(generate(model, [1], 30, temperature=0)) == expected[0]


def test_a_cache_does_not_keep_its_model():
    model = make_model(SMALL)
    list(generate(model, [1], Reader.few + 9))
    assert model in Reader.caches
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_an_enormous_context_takes_no_memory():
    for positions in "rotary", "sinusoidal":
        models = [make_model(dataclasses.replace(LLAMA, positions=positions, context=context), spread=3.0)
                  for context in (64, 10**9)]
        one, other = (list(generate(model, [1, 2], 40, seed=0)) for model in models)
        assert one == other


def test_a_batch_of_texts_is_the_texts_one_by_one_without_dropout():
    for config in (SMALL, LLAMA):
        model, prompts = make_model(dataclasses.replace(config, dropout=0.5), 3.0).train(), [[1, 2], [3, 4], [5, 6]]
        together = np.array(list(generate_batch(model, prompts, 15, temperature=0)))
        assert model.training
        one_by_one = [list(generate(model.eval(), prompt, 15, temperature=0)) for prompt in prompts]
        assert together.T.tolist() == one_by_one


def test_autocast_rounds_as_in_the_whole_forward():
    model = make_model(dataclasses.replace(SMALL, context=64))
    with mg.autocast("cpu", dtype=mg.bfloat16):
        cache, text = Cache(model, 1), random_texts(SMALL, 1, 12)
        found, rounded = [cache.read(text[:, :6])] + [cache.append(text[:, t]) for t in range(6, 12)], full_forward(model, text)
    exact = full_forward(model, text)
    assert abs(found[-1] - rounded).max() < 0.3 * abs(exact - rounded).max()


CHANGES = {  # that take effect at the next token, by name
    "parameters": lambda model: model.load_state_dict(make_model(model.config, -2.5).state_dict()),
    "memory": lambda model: setattr(model.token_embedding.weight, "data", -model.token_embedding.weight.array),
    "dtype": lambda model: nn.Module.double(model),
    "eps": lambda model: setattr(model.blocks[0].ln_2, "eps", 1e6),
    "rotary base": lambda model: setattr(model.blocks[0].attention, "rotary_base", 3.0),
    "activation": lambda model: setattr(model.blocks[0].mlp.gate, "activation", "tanh"),
    "placement": lambda model: setattr(model.blocks[0], "placement", PLACEMENTS["post"]),
    "final norm": lambda model: setattr(model, "ln_f", nn.LayerNorm(20)),
    "fewer blocks": lambda model: model.blocks.__delitem__(0),
    "tied": lambda model: setattr(model, "read_out", None),
    "hook": lambda model: model.blocks[0].mlp.register_forward_hook(lambda module, arguments, output: -output),
    "part of another type": lambda model: setattr(model.blocks[0].mlp, "project", of_another_type(nn.Linear, 18, 20)),
    "block of another type": lambda model: model.blocks.append(nn.Linear(20, 20)),
    "MLP of another type": lambda model: setattr(model.blocks[0], "mlp", nn.Linear(20, 20)),
    "embedding of another type": lambda model: setattr(model, "token_embedding", of_another_type(nn.Embedding, 11, 20)),
    "block that sees the future": lambda model: setattr(model.blocks[0], "is_causal", False),
    "block without attention": lambda model: setattr(model.blocks[0], "attends", False),
    "window of its own": lambda model: setattr(model.blocks[0].attention, "window", 3),
    "mode of its own": lambda model: model.blocks[0].dropout.train(),
}


def of_another_type(kind: type, *arguments) -> nn.Module:
    """A layer of a subclass, which may compute anything."""
    return type("Other", (kind,), {})(*arguments)


@pytest.mark.parametrize("name, count", [*zip(CHANGES, itertools.cycle([3, 9]))])
def test_what_changes_between_two_tokens_takes_effect(name, count, compiled):
    """Within the context and past it."""
    model = make_model(dataclasses.replace(LLAMA, norm_eps=0.3), 3.0)
    plain, text = greedy_text(model, [1, 2], 13), generate(model, [1, 2], 13, temperature=0)
    first = [next(text) for _ in range(count)]
    CHANGES[name](model)
    rest = list(text)
    assert first == plain[:count] and rest == greedy_text(model, [1, 2], 13, said=first)
    assert list(generate(model, [1, 2], 9, temperature=0)) == greedy_text(model, [1, 2], 9)
    if name not in ("dtype", "mode of its own"):
        assert rest != plain[count:], "so the change is no change"


def test_a_model_of_another_type_is_called_as_it_is():
    model = of_another_type(CausalTransformer, SMALL).eval()
    assert not Cache.serves(model) and list(generate(model, [1], 12, temperature=0)) == greedy_text(model, [1], 12)


def test_an_optimizer_step_takes_effect_at_the_next_token(compiled):
    model, texts = make_model(SMALL), random_texts(SMALL, 2, 8)
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.1)

    def step(t: int) -> None:
        model(mg.tensor(texts), mg.tensor(texts))[1].backward()
        optimizer.step()

    assert_same_logits(model, texts, 4, step)


def test_bad_tokens():
    for config in SMALL, LLAMA:
        all_refused(lambda prompt, config=config: list(generate(make_model(config), prompt, 1)), [
            ([0, token], f"index {token} is out of range; expected 0 to 10") for token in (-1, 11)], IndexError)
        all_refused(lambda token, config=config: list(generate(make_model(config), [0], 2, choose=lambda logits: np.array([token]))), [
            (token, f"index {token} is out of range; expected 0 to 10") for token in (-1, 11)], IndexError)
