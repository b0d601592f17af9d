"""`minigrad study`: the computations on its pages, the sources of their numbers, known mistakes, and errors of one line. What the
page does in a browser is tested in test_page_in_browser.py and tests/minigrad/tracing."""
import dataclasses
import functools
import json
import os
import pathlib
import webbrowser
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
import nn.functional as F
from study.command import main
from minigrad.tracing import shares as shares_of
from minigrad.tracing.page import MOST_NUMBERS, html
from minigrad.tracing.rerun import Rerun
from models import CausalTransformer, TransformerConfig
from models.config import PLACEMENTS
from models.transformer import Block
from head_in_numpy import CHANGES, run as numpy_run
from pages import CLASSES, Q_K_V, X
from refusals import one_line
from study.page import block, formulas, mistakes, pages, shares, trained
from study.page.attention import (
    DEFAULT, FROM_Q_K_V, FROM_X, WORDS, Head, attention, dropout, heads_of, with_cross_entropy, next_words)


@st.composite
def heads(draw, from_x: bool | None = None) -> Head:
    """Heads of all shapes and both forms, causal or not, with and without a scale and a bias."""
    size = st.integers(1, 6)
    queries, keys, features, value_features, width, out_width = (draw(size) for _ in range(6))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    if draw(st.booleans()) if from_x is None else from_x:
        shapes = {"x": (queries, width), "w_q": (width, features), "w_k": (width, features), "w_v": (width, value_features),
                  "w_o": (value_features, out_width), "upstream": (queries, out_width)}
    else:
        shapes = {"q": (queries, features), "k": (keys, features), "v": (keys, value_features),
                  "upstream": (queries, value_features)}
    arrays = {name: generator.normal(size=shape) for name, shape in shapes.items()}
    tokens = queries, queries if "x" in arrays else keys
    bias = generator.normal(size=tokens) if draw(st.booleans()) else None
    return Head(arrays, arrays.pop("upstream"), draw(st.booleans()), draw(st.none() | st.floats(-2, 2)), bias)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the gradient checks of mistakes, which take a second per page."""
    monkeypatch.setattr(pages, "checker", lambda head: lambda mistake: "unchecked")


# ---- the computations ----

def assert_is_numpys(head: Head) -> None:
    trace = pages.trace_of(attention, head)
    values, gradients = numpy_run(head, head.inputs, head.upstream, {})
    for kind, arrays in (("value", values), ("gradient", gradients)):
        for tensor, array in arrays.items():
            assert getattr(trace[tensor], kind) == pytest.approx(array, abs=1e-11), (tensor, kind)
    if head.targets:
        losses = np.log(np.exp(values["logits"]).sum(1)) - values["logits"][range(len(head.targets)), head.targets]
        assert trace["loss"].value == pytest.approx(losses.mean(), abs=1e-12)
    elif head.expected is None:
        assert trace["loss"].value == pytest.approx((values["output"] * head.upstream).sum(), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(heads())
def test_values_and_gradients_are_those_of_numpy(head):
    assert_is_numpys(head)


def small_heads(T: int = 4, D: int = 2, **changes) -> Head:
    """Two heads from q, k and v, which share keys and values."""
    generator = np.random.default_rng(5)
    arrays = {name: generator.normal(size=(T, count * D)) for name, count in (("q", 2), ("k", 1), ("v", 1), ("upstream", 2))}
    return Head(arrays, arrays.pop("upstream"), heads=2, key_value_heads=1, rotary=True, keep=dropout(0.3, 2, T), **changes)


KINDS = {
    "rotary": dataclasses.replace(DEFAULT, rotary=True),
    "dropout": dataclasses.replace(DEFAULT, keep=dropout(0.3, 1, 4)),
    "heads": heads_of(2),
    "grouped heads": heads_of(4, 2, causal=False),
    "cross-entropy": with_cross_entropy(heads_of(), attention),
    "words": next_words(),
    "all": with_cross_entropy(heads_of(2, 1, rotary=True, keep=dropout(0.3, 2, 3)), attention),
    "all from q, k and v": with_cross_entropy(small_heads(), attention),
}


@pytest.mark.parametrize("name", KINDS)
def test_variants_are_those_of_numpy(name):
    assert_is_numpys(KINDS[name])
    if KINDS[name].keep is not None:
        assert set(np.unique(KINDS[name].keep).round(6)) == {0.0, round(1 / 0.7, 6)}


def test_the_default_is_small_and_readable():
    assert DEFAULT.causal and DEFAULT.tokens == (4, 4) and DEFAULT.inputs["q"].shape == (4, 2)
    for array in [*DEFAULT.inputs.values(), DEFAULT.upstream]:
        assert (array == array.round(2)).all()


@pytest.mark.parametrize("number_of_heads, causal", [(1, True), (2, False)])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_block_spelled_out_is_the_models_block(placement, number_of_heads, causal):
    """Without rotary positions, and with them."""
    numbers = block.draw(placement, number_of_heads, causal, seed=1, rotary=number_of_heads == 2)
    config = TransformerConfig(heads=number_of_heads, width=block.C, bias=False, dtype="float64", placement=placement,
                               positions="rotary" if numbers.rotary else "learned")
    layer = Block(dataclasses.replace(config, mlp_ratio=2), is_causal=causal).to(mg.float64)
    a = numbers.inputs
    a["w_in"], a["w_out"] = np.random.default_rng(2).normal(size=(2, block.C, 8))  # 2 C hidden features, as the model's
    a["w_out"] = a["w_out"].T
    ours = {"attention.in_proj_weight": ("w_q", "w_k", "w_v"), "attention.out_proj.weight": ("w_o",), "mlp.expand.weight": ("w_in",),
            "mlp.project.weight": ("w_out",), "ln_1.weight": ("gain_attention",), "ln_2.weight": ("gain_mlp",)}
    ours = {theirs: names for theirs, names in ours.items() if names[0] in a}
    layer.load_state_dict({theirs: np.concatenate([a[name].T for name in names]) for theirs, names in ours.items()})
    x = mg.tensor(a["x"][None], requires_grad=True)
    out = layer(x)
    out.backward(mg.tensor(numbers.upstream[None]))
    trace = pages.trace_of(block.block, numbers)
    assert trace["output"].value == pytest.approx(out[0].detach().numpy(), abs=1e-12)
    assert trace["x"].gradient == pytest.approx(x.grad[0].numpy(), abs=1e-12)
    for name, parameter in layer.named_parameters():
        gradient = np.concatenate([trace[part].gradient.T for part in ours[name]])
        assert gradient == pytest.approx(parameter.grad.numpy(), abs=1e-12), name


@pytest.mark.parametrize("number_of_heads, causal", [(1, True), (2, False)])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_shares_add_up_and_are_what_each_path_sends(placement, number_of_heads, causal):
    numbers = block.draw(placement, number_of_heads, causal, seed=3)
    trace = pages.trace_of(block.block, numbers)
    found = {}
    for name, paths in shares.paths_in_block(trace, placement).items():
        parts, whole = shares_of(trace, name, list(paths)), trace[name].gradient
        assert abs(sum(parts.values()) - whole).max() <= 1e-12 * abs(whole).max()
        found[name] = {label: parts[path] for path, label in paths.items()}
        assert len(found[name]) == len(paths)

    def before_the_norm(gradient: np.ndarray) -> np.ndarray:
        gain, x = mg.tensor(numbers.inputs["gain_attention"]), mg.tensor(numbers.inputs["x"])
        return mg.vjp(lambda x: F.layer_norm(x, (block.C,), gain), x, mg.tensor(gradient))[1].numpy()

    rule = PLACEMENTS[placement][0]
    sent = {name.upper(): (trace[name].gradient @ numbers.inputs[f"w_{name}"].T, rule.norm_before) for name in FROM_Q_K_V}
    if rule.residual is not None:
        sent["the"] = trace["attention_sum"].gradient, rule.residual == "inner"
    assert {label.split()[0] for label in found["x"]} == sent.keys()
    for label, share in found["x"].items():
        gradient, is_behind_the_norm = sent[label.split()[0]]
        assert share == pytest.approx(before_the_norm(gradient) if is_behind_the_norm else gradient, abs=1e-12)


# ---- pages ----

def small_head(from_x: bool = False, **changes) -> Head:
    generator = np.random.default_rng(0)
    shapes = [(4, 3), (3, 4), (3, 4), (3, 2), (2, 3)] if from_x else [(4, 3), (4, 3), (4, 3)]
    arrays = {name: generator.normal(size=shape) for name, shape in zip(FROM_X if from_x else FROM_Q_K_V, shapes)}
    return dataclasses.replace(Head(arrays, generator.normal(size=(4, 3))), **changes)


PAGES = {
    "default": lambda: pages.page_of_head(DEFAULT),
    "x": lambda: pages.page_of_head(small_head(from_x=True)),
    "labels": lambda: pages.page_of_head(small_head(labels=("a", "b", "</script>", "&"))),
    "bias": lambda: pages.page_of_head(small_head(bias=np.eye(4))),
    "more queries than keys": lambda: pages.page_of_head(
        Head({"q": np.ones((5, 2)), "k": np.eye(3, 2), "v": np.eye(3, 4)}, np.ones((5, 4)), causal=False)),
    **{f"block {name}": lambda name=name: pages.page_of_block(block.draw(name)) for name in PLACEMENTS},
    **{name: lambda name=name: pages.page_of_head(KINDS[name]) for name in KINDS},
    **{f"rms norm {name}": lambda name=name: pages.page_of_block(block.draw(name, norm="rms_norm")) for name in ("pre", "post")},
    "block of all": lambda: pages.page_of_block(with_cross_entropy(
        block.draw("pre", 2, key_value_heads=1, rotary=True, keep=dropout(0.3, 2, 3)), block.block)),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_made(name):
    page = PAGES[name]()
    html(page.trace, page.extras, page.backwards)
    joined, derived = ({name for step in page.extras["steps"].values() for name in names(step)}
                       for names in (lambda step: step["joins"], lambda step: step["derives"].values()))
    steps = page.extras["steps"]
    assert derived >= {"row_sum"} and steps.keys() == {step.output.name for step in page.trace.steps} - joined | {"row_sum"}
    for name, words in steps.items():
        ways = [words[way] for way in ("forward", "backward") if way in words]
        assert ways and all(way["formula"] and len(" ".join(way["derivation"])) > 40 for way in ways), name


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_blocks_letters_mean_one_thing_each(placement):
    """The tensors with matrices have different symbols."""
    page = pages.page_of_block(block.draw(placement))
    shown = [page.extras["symbols"][name] for box in page.extras["layout"] for name in box["names"]]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("head", [DEFAULT, dataclasses.replace(DEFAULT, causal=False), small_head(bias=np.eye(4))],
                         ids=["causal", "not causal", "bias"])
def test_switches_set_the_other_mask_and_the_scale(head):
    page = pages.page_of_head(head)
    (first, second), scale = page.extras["switches"][0]["choices"], page.extras["switches"][1]["number"]
    other = pages.trace_of(attention, dataclasses.replace(head, causal=not head.causal)).as_dict()
    expected = next(step for step in other["steps"] if step["output"] == "masked_scores")["options"]["condition"]
    assert first["sets"] == [] and [one["value"] for one in second["sets"]] == [expected]
    step = next(step for step in page.trace.steps if step.output.name == scale["step"])
    assert step.inputs[scale["input"]] == scale["value"] == head.factor


@pytest.mark.parametrize("head", [small_head(), small_head(from_x=True), small_head(bias=np.eye(4))], ids=["qkv", "x", "bias"])
def test_too_large_a_head_is_told_which_part_would_do(head):
    def tall(tokens: int) -> Head:
        grown = {name: np.resize(array, (tokens, array.shape[1])) if name in "qkvx" else array
                 for name, array in head.inputs.items()}
        bias = None if head.bias is None else np.ones((tokens, tokens))
        return dataclasses.replace(head, inputs=grown, upstream=np.ones((tokens, 3)), bias=bias)

    with pytest.raises(ValueError, match=r"keep the first \d+ rows of .*upstream") as error:
        pages.page_of_head(tall(50))
    most = int(str(error.value).split("the first ")[1].split()[0])
    assert pages.numbers_in(tall(most), attention) <= MOST_NUMBERS < pages.numbers_in(tall(most + 1), attention)
    page = pages.page_of_head(tall(most))
    html(page.trace, page.extras, page.backwards)
    wide = Head({"q": np.ones((1, 3000)), "k": np.ones((1, 3000)), "v": np.ones((1, 1))}, np.ones((1, 1)))
    with pytest.raises(ValueError, match="keep a few columns of each matrix"):
        pages.page_of_head(wide)


def test_no_two_placements_have_the_same_words():
    assert len({formulas.placement_in_words(name).split(": ")[1] for name in PLACEMENTS}) == len(PLACEMENTS)


# ---- mistakes ----

def fitting(mistake: mistakes.Mistake, head: Head) -> bool:
    return mistake.fits(head, pages.trace_of(attention, head))


def test_each_mistake_is_that_in_numpy():
    for head in (DEFAULT, small_head(from_x=True)):
        trace = pages.trace_of(attention, head)
        for mistake in mistakes.MISTAKES:
            assert fitting(mistake, head) or head is DEFAULT or not mistake.name.startswith("self_attention")
            if fitting(mistake, head):
                found = Rerun(trace.steps, trace.tensors, backwards=mistake.of(head)).gradients
                wrong = numpy_run(head, head.inputs, head.upstream, CHANGES[mistake.name])[1]
                assert all(found[name] == pytest.approx(wrong[name], abs=1e-12) for name in head.inputs), mistake.name
    assert not [mistake for mistake in mistakes.MISTAKES if mistake.name.startswith("self_attention") and fitting(mistake, DEFAULT)]


def test_every_mistake_has_a_name_of_its_own_that_is_known():
    names = [mistake.name for mistake in mistakes.MISTAKES]
    assert len(set(names)) == len(names) >= 20 and set(names) == CHANGES.keys()
    assert all(bool(mistake.backwards) != bool(mistake.sees) for mistake in mistakes.MISTAKES)


@pytest.mark.parametrize("head, of_products", [
    (DEFAULT, "`dQ = s dS Q`: it should be `s dS K`. `dV = P dO`: it should be `P^T dO`."),
    (heads_of(), "`dQ = s dS Q`: it should be `s dS K`. `dV = P dA`: it should be `P^T dA`."),
    (heads_of(heads=2, keep=np.ones((2, 3, 3))),
     "`dQ_h = s dS Q_h`: it should be `s dS K_h`. `dV_h = P̃ dA_h`: it should be `P̃^T dA_h`."),
    (heads_of(heads=2, key_value_heads=1, rotary=True),
     "`dQ_θ = s dS Q_θ`: it should be `s dS K_h`. `dV_h = P dA_h`: it should be `P^T dA_h`."),
], ids=["q, k, v", "x", "heads, dropout", "groups, rotary"])
def test_a_mistake_has_the_letters_of_the_pages_formulas(head, of_products):
    extras = pages.page_of_head(head).extras
    sentences = {one["name"]: one["sentence"] for one in extras["mistakes"]}
    assert " ".join(sentences[f"attention: {name}"] for name in ("dq from q", "dv without transpose")) == of_products
    right = {name: words["backward"]["formula"] for name, words in extras["steps"].items() if "backward" in words}
    assert of_products.split("`")[3] in right["scores"][0] and of_products.split("`")[7] in right[head.product][1]


LARGE = {"x": (9, 8), "w_q": (8, 5), "w_k": (8, 5), "w_v": (8, 7), "w_o": (7, 8)}
def test_a_part_has_the_first_features_of_each_head():
    head = with_cross_entropy(small_heads(6, 4, bias=np.arange(72.0).reshape(2, 6, 6)), attention)
    part = head.cut(T=3, S=2, D=2, V=3)
    q, v = head.inputs["q"].reshape(6, 2, 4), head.inputs["v"]
    assert (part.inputs["q"] == q[:3, :, :2].reshape(3, 4)).all() and (part.inputs["v"] == v[:2, :3]).all()
    assert part.inputs["k"].shape == (2, 2) and part.inputs["w_u"].shape == (6, 4) and part.upstream.shape == (3, 6)
    assert (part.bias == head.bias[:, :3, :2]).all() and part.keep.shape == (2, 3, 2) and part.targets == head.targets[:3]


CHECKED = {  # a head, and the first words of what gradcheck says of it
    "qkv": (DEFAULT, "gradcheck"),
    "x": (small_head(from_x=True), "gradcheck"),
    "large": (Head({name: np.random.default_rng(seed).normal(size=shape) for seed, (name, shape) in enumerate(LARGE.items())},
                   np.ones((9, 8)), bias=np.eye(9)), "gradcheck of 4 x 4 parts"),
    "heads": (small_heads(6, 4), "gradcheck of 4 x 4 parts"),
}


def assert_checked(head: Head, seen: str, chosen: list[mistakes.Mistake]) -> None:
    check = mistakes.checker(head)
    for mistake in filter(lambda mistake: fitting(mistake, head), chosen):
        lines = check(mistake).split("\n")
        assert lines[0] == f"{seen}: {'PASS' if mistake.is_right else 'FAIL'}", mistake.name
        assert len([line for line in lines if line.endswith((": pass", ": fail"))]) == len(head.inputs)
        assert max(map(len, lines)) <= mistakes.WIDTH
        assert "sum(output" not in " ".join(lines)  # which it checks if the Jacobians are too large


@pytest.mark.long
@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck_judges_each_mistake(name):
    assert_checked(*CHECKED[name], mistakes.MISTAKES)


def test_the_page_has_gradchecks_judgement(monkeypatch):
    monkeypatch.setattr(pages, "checker", mistakes.checker)
    chosen = [mistake for mistake in mistakes.MISTAKES if mistake.name in ("attention: no scale", "attention: mask skipped")]
    monkeypatch.setattr(pages, "MISTAKES", chosen)
    found = [one["check"] for one in pages.page_of_head(DEFAULT).extras["mistakes"]]
    assert found[0].startswith("gradcheck: PASS") and ("backward / differences is 1.41421 everywhere: sqrt(N) with N = 2 "
                                                       "(dim 1 of q)") in " ".join(found[1].split())
    assert_checked(*CHECKED["large"], chosen[:1])


@pytest.mark.parametrize("shapes, fits, does_not", [
    ([(4, 3), (4, 3), (4, 3)], ["dk without transpose"], ["dweights without transpose"]),
    ([(4, 4), (4, 4), (4, 4)], ["dweights without transpose"], []),
    ([(5, 2), (3, 2), (3, 2)], ["no rowsum"], ["dv without transpose", "dq and dk exchanged", "mask transposed"]),
    ([(3, 4), (3, 2), (3, 2)], ["mask transposed", "dk without transpose", "dq and dk exchanged"], []),  # two heads of one group
], ids=str)
def test_a_mistake_that_the_shapes_would_reveal_is_left_out(shapes, fits, does_not):
    arrays = {name: np.random.default_rng(0).normal(size=shape) for name, shape in zip(FROM_Q_K_V, shapes)}
    groups = shapes[0][1] // shapes[1][1]
    head = Head(arrays, np.ones((shapes[0][0], groups * shapes[2][1])), heads=groups, key_value_heads=1)
    found = {mistake.name.removeprefix("attention: ") for mistake in mistakes.MISTAKES if fitting(mistake, head)}
    assert found >= {*fits} and not found & {*does_not}


# ---- heads of trained models ----

CONFIG = TransformerConfig(vocabulary_size=6, context=8, layers=3, heads=2, width=8)
TOKENS = np.array([0, 3, 1, 5, 3, 2])
VARIANTS = {
    "learned": {}, "rotary": dict(positions="rotary"), "relative": dict(positions="relative"), "no bias": dict(bias=False),
    "sinusoidal": dict(positions="sinusoidal"), "post": dict(placement="post"), "inner": dict(placement="inner"),
    "one head": dict(heads=1), "dropout": dict(dropout=0.5),
}


def random_model(**changes) -> CausalTransformer:
    """A model with weights large enough that heads differ."""
    mg.manual_seed(0)
    model = CausalTransformer(dataclasses.replace(CONFIG, **changes)).eval()
    for parameter in model.parameters():
        parameter.data[...] += 0.5 * np.random.default_rng(parameter.numel()).normal(size=parameter.shape)
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_are_the_models_and_upstream_is_what_its_loss_sends(variant):
    """By differences of the model's loss as each head's output is perturbed."""
    model = random_model(**VARIANTS[variant] | dict(dtype="float64"))
    layer, D = 2, model.config.width // model.config.heads
    ours = model.blocks[layer - 1].attention
    targets, outputs = mg.tensor(np.append(TOKENS[1:], -100)[None]), []

    def loss(change: np.ndarray) -> float:
        def add(module, arguments):
            outputs.append(arguments[0].detach().numpy()[0])
            return arguments[0] + mg.tensor(change[None]),
        handle = ours.out_proj.register_forward_pre_hook(add)
        try:
            return model(mg.tensor(TOKENS[None]), targets)[1].item()
        finally:
            handle.remove()

    for head in range(model.config.heads):
        trace = pages.trace_of(attention, trained.head_of_model(model, TOKENS, layer, head + 1))
        columns = slice(D * head, D * (head + 1))
        direction = np.zeros((len(TOKENS), model.config.width))
        direction[:, columns] = np.random.default_rng(head).normal(size=(len(TOKENS), D))
        slope = (loss(1e-5 * direction) - loss(-1e-5 * direction)) / 2e-5
        assert (trace["output"].gradient * direction[:, columns]).sum() == pytest.approx(slope, rel=1e-6)
        assert trace["output"].value == pytest.approx(outputs[0][:, columns], abs=1e-12)


@pytest.mark.parametrize("variant", ["learned", "relative"])
def test_several_heads_of_a_model_are_its_heads(variant):
    model = random_model(**VARIANTS[variant] | dict(heads=4))
    both = pages.trace_of(attention, trained.head_of_model(model, TOKENS, 2, 2, 2))
    for i in range(2):
        one = pages.trace_of(attention, trained.head_of_model(model, TOKENS, 2, 2 + i))
        for kind in ("value", "gradient"):
            for name in ("scores", "weights"):
                assert getattr(both[name], kind)[i] == pytest.approx(getattr(one[name], kind), abs=1e-12), name
            for name in ("q", "k", "v", "output"):
                part = getattr(both[name], kind)[:, 2 * i: 2 * i + 2]
                assert part == pytest.approx(getattr(one[name], kind), abs=1e-12), name


def test_a_relative_bias_is_the_models_for_the_future_too():
    model = random_model(positions="relative")
    found = trained.head_of_model(model, TOKENS, 1, 2).bias
    learnt = model.blocks[0].attention.relative_bias.detach().numpy()[1]
    expected = [[learnt[i - j + CONFIG.context] for j in range(len(TOKENS))] for i in range(len(TOKENS))]
    assert found == pytest.approx(np.array(expected), abs=0)


def test_a_model_is_left_as_it_was():
    model = random_model()
    trained.head_of_model(model, TOKENS, 1, 1)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module.has_hooks for module in model.modules())


# ---- the command ----

@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was asked to open."""
    urls = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    return urls


@pytest.fixture
def run(run, opened):
    return functools.partial(run, "study")


def data_in(path: str) -> dict:
    """The trace and extras in a page."""
    content = pathlib.Path(path).read_text(encoding="utf-8")
    return json.loads(content.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def write_json(given, path: str = "numbers.json") -> str:
    pathlib.Path(path).write_text(given if isinstance(given, str) else json.dumps(given), encoding="utf-8")
    return path


def test_a_page_is_written_and_opened(run, opened, tmp_path):
    assert run() == (0, "study.html\n", "")
    assert opened == [(tmp_path / "study.html").as_uri()]
    for flags, name in (([], "expected"), (["--numbers"], "upstream")):
        assert run("--no-open", *flags)[0] == 0
        names = [tensor["name"] for tensor in data_in("study.html")["trace"]["tensors"]]
        assert {"q", "k", "v", "scores", "masked_scores", "weights", "output", name, "loss"} <= set(names)
    assert run("--no-open", "--out", "new/folder/page.html")[:2] == (0, "new/folder/page.html\n")
    assert len(opened) == 1


def test_the_default_page_guesses_the_next_word(run):
    """Of all that it could look at, the ambiguous word looks mostly at the wrong one; its gradient says so."""
    assert run("--no-open")[0] == 0
    page = data_in("study.html")
    made = {tensor["name"]: np.array(tensor["value"], dtype=float) for tensor in page["trace"]["tensors"]}
    dS = np.array(next(tensor for tensor in page["trace"]["tensors"] if tensor["name"] == "scores")["gradient"], dtype=float)
    probabilities = np.exp(made["output"]) / np.exp(made["output"]).sum(1, keepdims=True)
    assert made["loss"] == pytest.approx(-np.log(probabilities[made["expected"] == 1]).sum(), abs=1e-12)
    _, gradients = numpy_run(WORDS, WORDS.inputs, WORDS.upstream, {})
    assert dS == pytest.approx(gradients["scores"], abs=1e-12) and gradients["output"] == pytest.approx(probabilities - made["expected"])
    assert page["extras"]["labels"]["scores"]["columns"] == ["cat", "sees", "fish", "it"]
    assert page["extras"]["labels"]["output"]["columns"] == ["purrs", "swims", "other"]
    assert made["weights"][3].argmax() == 2 and probabilities[3].argmax() == 1  # it looks at fish: swims
    assert dS[3].argmin() == 0 and dS[3].argmax() == 2  # more at cat, less at fish
    assert len(pathlib.Path("study.html").read_bytes()) < 400_000


def test_a_page_opens_at_a_station(run):
    assert run("--no-open", "--station", "3")[0] == 0
    assert data_in("study.html")["extras"]["station"] == 3


@pytest.mark.parametrize("answer", [False, webbrowser.Error("none"), OSError("none")])
def test_without_a_browser_the_page_is_written_all_the_same(run, monkeypatch, answer, tmp_path):
    monkeypatch.setattr(webbrowser, "open", mock.Mock(side_effect=[answer]))
    code, out, err = run()
    assert (code, err) == (0, "") and out.splitlines()[-1] == (
        f"could not open a browser; open {(tmp_path / 'study.html').as_uri()} in one")


def test_only_pages_are_overwritten_without_force(run):
    pathlib.Path("mine.html").write_text("my homework")
    code, out, err = run("--out", "mine.html", "--no-open")
    assert (code, out) == (2, "") and pathlib.Path("mine.html").read_text() == "my homework"
    assert err == ("minigrad: error: mine.html already exists; choose another name with --out, or overwrite it "
                   "with --force\n")
    assert run("--out", "mine.html", "--no-open", "--force")[0] == 0
    first = pathlib.Path("mine.html").read_text()
    assert run("--out", "mine.html", "--no-open", "--input", write_json(Q_K_V))[0] == 0
    assert pathlib.Path("mine.html").read_text() != first != "my homework"


def test_an_error_leaves_the_old_page(run):
    assert run("--no-open")[0] == 0
    before = pathlib.Path("study.html").read_bytes()
    assert run("--no-open", "--input", write_json("{"))[0] == 2
    assert pathlib.Path("study.html").read_bytes() == before


WIDE = {"q": [[1, 0.5, -1, 2], [0, 2, 1, -1]], "k": [[1, 1], [-1, 0.5]], "v": [[1], [3]], "upstream": [[1, 0], [0.5, -1]]}
OF_A_BLOCK = X | {"w_o": [[1, 2], [0, 1], [1, 1]], "w_in": [[1, 0.5, -1], [0.5, 2, 0]], "w_out": [[1, 0], [-1, 2], [0.5, 1]],
                  "gain_attention": [1, 0.5], "gain_mlp": [-1, 2]}
OPTIONS = "causal", "scale", "labels"  # in a file
OWN = {  # a file, flags, and the fields of the head that they make
    **{f"{name}, {options}": (given | options, [], options) for name, given in (("q", Q_K_V), ("x", X))
       for options in ({}, {"causal": False}, {"scale": -0.5, "labels": ["<b>", "&"]}, {"scale": None})},
    "heads": (Q_K_V, ["--heads", 2], {"heads": 2}),
    "grouped heads": (WIDE, ["--heads", 2, "--key-value-heads", 1], {"heads": 2, "key_value_heads": 1}),
    "rotary": (WIDE, ["--heads", 2, "--key-value-heads", 1, "--rotary"], {"heads": 2, "key_value_heads": 1, "rotary": True}),
    "rotary, one head": (Q_K_V, ["--rotary"], {"rotary": True}),
    "dropout": (X, ["--dropout", 0.4], {"keep": dropout(0.4, 1, 2)}),
    "more queries than keys": (Q_K_V | {"k": [[1, 1]], "v": [[1, 2]]}, ["--heads", 2, "--dropout", 0.4], {
        "heads": 2, "keep": dropout(0.4, 2, 2, 1)}),
    "classes": ({name: Q_K_V[name] for name in FROM_Q_K_V} | CLASSES, [], {"targets": (2, 0)}),
    "block": (OF_A_BLOCK, ["--block", "post"], {"placement": "post"}),
    "block, rotary, dropout": (OF_A_BLOCK | {"w_q": [[1, 2], [2, 0]], "w_k": [[1, -1], [-1, 1]]}, [
        "--block", "post", "--dropout", 0.4, "--rotary"], {"placement": "post", "rotary": True, "keep": dropout(0.4, 1, 2)}),
    "classes, from x": ({name: X[name] for name in FROM_X} | CLASSES, ["--cross-entropy"], {"targets": (2, 0)}),
}


@pytest.mark.parametrize("name", OWN)
def test_your_own_numbers(run, name):
    """The page is that of the numbers and options in the file."""
    given, flags, fields = OWN[name]
    assert run("--no-open", "--input", write_json(given), *flags) == (0, "study.html\n", "")
    arrays = {tensor: np.array(rows, dtype=float) for tensor, rows in given.items() if tensor not in ("targets", *OPTIONS)}
    loss, made = (block.block, block.BlockInputs) if "placement" in fields else (attention, Head)
    page, editable = data_in("study.html"), {*arrays}
    numbers = made(arrays, arrays.pop("upstream", np.zeros((2, 2))), **fields)
    trace = pages.trace_of(loss, with_cross_entropy(numbers, loss) if numbers.targets else numbers)
    assert {*page["extras"]["editable"]} - {"keep"} == editable
    assert page["extras"].get("labels", {}).get("weights", {}).get("columns") == fields.get("labels")
    for tensor in page["trace"]["tensors"]:
        for kind in ("value", "gradient"):
            if tensor[kind] is not None:
                assert np.array(tensor[kind], dtype=float) == pytest.approx(getattr(trace[tensor["name"]], kind), abs=1e-12)


@pytest.mark.parametrize("placement", [[], *([name] for name in PLACEMENTS)], ids=str)
def test_blocks(run, placement):
    assert run("--no-open", "--block", *placement)[0] == 0
    extras = data_in("study.html")["extras"]
    assert extras["introduction"][0] == formulas.placement_in_words(*placement or ["pre"])


@pytest.mark.parametrize("source", [[], ["--block", "post"]], ids=str)
def test_variants(run, source):
    flags = ["--heads", 2, "--key-value-heads", 1, "--rotary", "--dropout", "0.5", "--cross-entropy"]
    assert run("--no-open", *source, *flags, *(["--norm", "rms_norm"] if source else []))[0] == 0
    assert not source or "RMSNorm" in {step["op"] for step in data_in("study.html")["trace"]["steps"]}
    shapes = {tensor["name"]: tensor["shape"] for tensor in data_in("study.html")["trace"]["tensors"]}
    assert shapes["scores"] == shapes["keep"] == [2, 3, 3] and shapes["k_groups"] == shapes["k_rotated"] == [1, 3, 2]
    assert shapes["logits"] == [3, 4] and ("hidden" in shapes) == bool(source)
    assert run("--no-open", *source, "--rotary", "--dropout", "0.25")[0] == 0
    shapes = {tensor["name"]: tensor["shape"] for tensor in data_in("study.html")["trace"]["tensors"]}
    assert ("x" in shapes) == bool(source) and "q_rotated" in shapes and "dropped" in shapes


@pytest.mark.parametrize("given, says", [
    ("", "numbers.json is empty; give a file with text"),
    ({"q": [[1.5] * 800] * 800}, "bytes, far more than a page can show; keep a few rows and columns of each matrix"),
    ({name: [[1.5] * 100] * 100 for name in Q_K_V},
     "there are more than the 6,000 numbers, values and gradients together, that a page can show; keep the first 4 rows of q, "),
])
def test_bad_numbers(run, given, says):
    """Others are in sessions/."""
    one_line(run("--no-open", "--input", write_json(given)), says)
    assert not pathlib.Path("study.html").exists()


@pytest.mark.parametrize("arguments, says", [
    (["--input", "binary"], "binary is not UTF-8 (byte 1 is 0xff); convert it with iconv"),
    (["--out", "pipe"], "pipe is a pipe, socket or device; name a file with --out"),
    (["--out", "pipe", "--force"], "pipe is a pipe, socket or device; name a file with --out"),
])
def test_bad_files(run, arguments, says):
    """Other bad usage is in sessions/."""
    pathlib.Path("binary").write_bytes(b"[\xff]")
    os.mkfifo("pipe")
    one_line(run(*arguments, "--no-open"), says)
    assert not pathlib.Path("study.html").exists()


# ---- the command, on checkpoints ----

@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs of two steps."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("ab ba\ncd " * 500)
    tiny = ["--width", "8", "--steps", "2", "--batch-size", "2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind, out in (("characters", "text"), ("bytes", "bytes")):
            assert main(["train", *tiny, "--layers", "2", "--heads", "2", "--context", "8", "--text", "text.txt", "--tokenizer", kind,
                         "--out", out]) == 0
    return folder


def test_a_head_of_a_trained_model(run, runs):
    assert run("--checkpoint", runs / "text", "--text", "ab\ncd", "--layer", 2, "--head", 2, "--no-open")[0] == 0
    page = data_in("study.html")
    assert page["extras"]["title"] == "Head 2 of layer 2"
    assert page["extras"]["labels"]["weights"] == {"rows": [*"ab⏎cd"], "columns": [*"ab⏎cd"]}
    expected = trained.head_of_run(runs / "text", "ab\ncd", 2, 2)
    values = {tensor["name"]: tensor["value"] for tensor in page["trace"]["tensors"]}
    assert all(values[name] == expected.inputs[name].tolist() for name in FROM_Q_K_V)
    assert values["upstream"] == expected.upstream.tolist()
    assert run("--checkpoint", runs / "text", "--text", "ab\ncd", "--heads", 2, "--no-open")[0] == 0
    page = data_in("study.html")
    assert page["extras"]["title"] == "Heads 1 to 2 of layer 1"
    assert data_in("study.html")["extras"]["introduction"][0].endswith("the mean cross-entropy of the next tokens.")
    assert page["extras"]["labels"]["dropped"]["columns"] == [*"ab⏎cd"]
    assert run("--checkpoint", runs / "text", "--text", "ab", "--no-open")[0] == 0
    assert data_in("study.html")["extras"]["title"] == "Head 1 of layer 1"
    assert trained.head_of_run(runs / "bytes", "é\n", 1, 1).labels == ("\\xc3", "\\xa9", "⏎")


def test_a_text_that_is_too_long_for_a_page(run, runs, monkeypatch):
    monkeypatch.setattr(pages, "MOST_NUMBERS", 200)
    one_line(run("--checkpoint", runs / "text", "--text", "abcdabcd", "--no-open"), "that a page can show; keep 2 tokens")
