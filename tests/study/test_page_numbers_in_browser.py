"""All numbers of a page in a browser, for random inputs and after random edits, in every variant: those of the engine's trace,
and of plain NumPy."""
import dataclasses

import numpy as np
import pytest

from head_in_numpy import CHANGES, into_heads, run
from minigrad.tracing import page
from models.config import PLACEMENTS
from study.page import block, mistakes, pages
from study.page.attention import (
    AXES_FROM_Q_K_V, AXES_FROM_X, Head, Inputs, attention, dropout, with_cross_entropy)

Numbers = dict[tuple[str, str], np.ndarray]  # {(tensor, kind): array}
SHAPES, INPUTS, ACTIONS = 2, 10, 20  # for each variant; 4, 50 and 100 look harder, and take four minutes

FIELDS = {  # of a variant, drawn at random
    "from q, k and v": lambda random: {"from_x": False, "bias": random.random() < 0.5},
    "from x": lambda random: {"from_x": True, "bias": random.random() < 0.5},
    "heads": lambda random: {"heads": int(random.integers(2, 4))},
    "key-value heads": lambda random: {"heads": 4, "key_value_heads": int(random.integers(1, 3))},
    "rotary": lambda random: {"heads": int(random.integers(1, 3)), "rotary": True},
    "dropout": lambda random: {"heads": int(random.integers(1, 3)), "dropout": 0.4},
    "cross-entropy": lambda random: {"heads": int(random.integers(1, 3)), "cross_entropy": True},
    "all": lambda random: {"heads": 2, "key_value_heads": 1, "rotary": True, "dropout": 0.3, "cross_entropy": True},
    "block": lambda random: {"placement": random.choice(list(PLACEMENTS)), "norm": random.choice(["layer_norm", "rms_norm"])},
    "block of all": lambda random: FIELDS["block"](random) | FIELDS["all"](random),
    "square": lambda random: {},
}


def drawn(random: np.random.Generator, name: str) -> Inputs:
    """Random shapes and numbers of a variant."""
    fields = {"from_x": bool(random.random() < 0.5)} | FIELDS[name](random)
    from_x, p, has_bias, has_targets = (fields.pop(key, None) for key in ("from_x", "dropout", "bias", "cross_entropy"))
    H, G = fields.get("heads", 1), fields.get("key_value_heads") or fields.get("heads", 1)
    lengths = dict(zip("TSCDVOM", random.integers(2, 5, 7)), H=H, G=G)
    lengths |= dict.fromkeys("TSCDVOM", 4) if name == "square" else {}
    lengths["D"] += lengths["D"] % 2 if "rotary" in fields else 0
    lengths["S"] = lengths["T"] if from_x or "rotary" in fields else lengths["S"]
    axes = AXES_FROM_X if from_x else AXES_FROM_Q_K_V
    if "placement" in fields:
        everything = block.BlockInputs(dict.fromkeys(block.names(fields["placement"])), None, placement=fields["placement"])
        axes, lengths["S"] = everything.axes, lengths["T"]
    arrays = {key: random.normal(size=[np.prod([lengths[letter] for letter in axis]) for axis in shape])
              for key, shape in axes.items()}
    numbers = (block.BlockInputs if "placement" in fields else Head)(arrays, arrays.pop("upstream"), **fields)
    tokens = lengths["T"], lengths["S"]
    if has_bias:
        numbers = dataclasses.replace(numbers, bias=random.normal(size=tokens))
    if p:
        numbers = dataclasses.replace(numbers, keep=dropout(p, H, *tokens, seed=random.integers(100)))
    return with_cross_entropy(numbers, loss_of(numbers)) if has_targets else numbers


def loss_of(numbers: Inputs):
    return block.block if isinstance(numbers, block.BlockInputs) else attention


def editable(numbers: Inputs) -> dict[str, np.ndarray]:
    """The tensors that can be edited."""
    others = {"upstream": None if numbers.targets else numbers.upstream, "keep": numbers.keep}
    return numbers.inputs | {name: array for name, array in others.items() if array is not None}


def with_arrays(numbers: Inputs, arrays: dict[str, np.ndarray]) -> Inputs:
    """The same computation of other numbers."""
    numbers = dataclasses.replace(
        numbers, inputs={name: arrays[name] for name in numbers.inputs}, keep=arrays.get("keep"),
        upstream=arrays.get("upstream", numbers.upstream))
    return with_cross_entropy(numbers, loss_of(numbers)) if numbers.targets else numbers


def expected(numbers: Inputs, mistake: mistakes.Mistake | None = None, is_row_sum_of_output: bool = False) -> Numbers:
    """What the page shows of tensors, and what NumPy gives for the same; with a mistake, the values, and what NumPy gives."""
    trace = pages.trace_of(loss_of(numbers), numbers)
    arrays = {(t.name, kind): getattr(t, kind) for t in trace.tensors for kind in ("value", "gradient")
              if getattr(t, kind) is not None and (kind == "value" or not mistake)}
    p, dp = trace["weights"].value, trace["weights"].gradient
    if isinstance(numbers, Head):
        changes = dict(CHANGES[mistake.name]) if mistake else {}
        if is_row_sum_of_output and not changes.keys() & {"weigh", "total"}:
            out = arrays["attended" if numbers.starts_from_x else "output", "value"]
            changes["total"] = lambda h: (h.dout * into_heads(numbers, out, numbers.heads)).sum(-1, keepdims=True)
        values, gradients = run(numbers, numbers.inputs, numbers.upstream, changes)
        if not mistake:
            for name, value in values.items():
                assert arrays[name, "value"] == close(value), name
            gradients.pop("row_sum", None)
            for name, gradient in gradients.items():
                assert arrays[name, "gradient"] == close(gradient), name
        arrays |= {(name, "gradient"): gradient for name, gradient in gradients.items()}
        dp = gradients["weights"]
    if not mistake:
        arrays["row_sum", "gradient"] = (p * dp).sum(-1, keepdims=True)
    if numbers.targets:
        e = np.exp(trace["logits"].value - trace["logits"].value.max(-1, keepdims=True))
        arrays["probabilities", "gradient"] = e / e.sum(-1, keepdims=True)
    return arrays


def close(array: np.ndarray):
    """Equal but for rounding, which grows with the largest number of the array."""
    return pytest.approx(array, abs=1e-9 * max(1.0, abs(array[np.isfinite(array)]).max(initial=0)))


SHOWN = """
    const found = {};
    for (const {dataset: {tensor, index, kind, value}} of document.querySelectorAll("[data-tensor]"))
      ((found[tensor] ??= {})[kind] ??= []).push([index, value]);
    return found;"""


NOT_EXPLAINED = """  // numbers whose terms do not add up to them
    return [...grids.values()].flatMap(({t, kind, cells}) => cells.filter(({dataset: {value}, place}) => {
      const {parts} = computation.explain(pass, t.name, unravel(t.shape, place), kind);
      const sum = parts.reduce((total, part) => total + part.term.value, 0);
      const size = Math.max(1, ...parts.map(part => Math.abs(part.term.value)));
      return parts.length && Number(value) !== sum && !(Math.abs(value - sum) <= 1e-9 * size);
    }).map(cell => `${kind} ${t.name} ${cell.dataset.index}`));"""


def assert_shown(shown: dict, arrays: Numbers, where) -> None:
    """Every one of these tensors that has a matrix shows these numbers, each once."""
    compared = 0
    for (name, kind), array in arrays.items():
        cells = shown.get(name, {}).get(kind)
        if cells is None:
            continue
        assert [index for index, _ in cells] == [",".join(map(str, place)) for place in np.ndindex(array.shape)], (name, where)
        assert np.array([float(value) for _, value in cells]) == close(array.ravel()), (name, kind, where)
        compared += 1
    assert compared > len(arrays) / 2


@pytest.fixture
def opened(browser, tmp_path, monkeypatch):
    """A function that opens the page of numbers of a variant, and returns its extras."""
    monkeypatch.setattr(pages, "checker", lambda head: lambda mistake: "")

    def call(name: str, numbers: Inputs) -> dict:
        made = pages.page_of_block(numbers) if "block" in name else pages.page_of_head(numbers)
        browser.open(page.write(made.trace, tmp_path / "page.html", extras=made.extras, backwards=made.backwards))
        assert browser.run("return computation.steps.map(step => step.problem).filter(Boolean)") == []
        return made.extras
    return call


@pytest.mark.parametrize("name", [name if name in ("all", "block of all") else pytest.param(name, marks=pytest.mark.long) for name in FIELDS])
def test_random_inputs(browser, opened, name):
    """From tiny to so large that weights are 0 or 1."""
    random = np.random.default_rng(list(FIELDS).index(name))
    for _ in range(SHAPES):
        numbers = drawn(random, name)
        opened(name, numbers)
        drawings = [{key: random.normal(size=array.shape, scale=10.0 ** random.uniform(-2, 1))
                     for key, array in editable(numbers).items()} for _ in range(INPUTS)]
        found = browser.run(f"""
            return arguments[0].map(inputs => {{
              for (const [name, data] of Object.entries(inputs)) state.edits.set(name, Float64Array.from(data));
              update();
              return (() => {{ {SHOWN} }})();
            }})""", [{key: array.ravel().tolist() for key, array in arrays.items()} for arrays in drawings])
        for arrays, shown in zip(drawings, found):
            assert_shown(shown, expected(with_arrays(numbers, arrays)), arrays)


ENTER = """
    const [name, index, text] = arguments, cell = cellAt({name, kind: "value", index});
    if (canBeOpened(cell.grid) && !state.opened.has(name)) toggleOpened(name); // in a step that does not read it
    openBox(cell);
    cell.focus();
    cell.value = text;
    cell.dispatchEvent(new Event("input", {bubbles: true}));
    cell.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));"""


class Walk:
    """What a user does at random, and the numbers that the page should show then."""

    def __init__(self, browser, random: np.random.Generator, numbers: Inputs, switches: list[dict], fitting: list):
        self.browser, self.random, self.numbers, self.switches, self.fitting = browser, random, numbers, switches, fitting
        self.edits, self.turned = {}, [switch["number"]["value"] if "number" in switch else 0 for switch in switches]
        self.start, self.past, self.mistake = (self.edits, self.turned), [], None

    def now(self) -> Inputs:
        """The numbers with all edits and switches."""
        numbers = with_arrays(self.numbers, editable(self.numbers) | self.edits)
        for switch, choice in zip(self.switches, self.turned):
            if switch["name"] == "causal" and choice:
                numbers = dataclasses.replace(numbers, causal=not numbers.causal)
            if switch["name"] == "scale" and choice != switch["number"]["value"]:
                numbers = dataclasses.replace(numbers, scale=choice)
        return with_cross_entropy(numbers, loss_of(numbers)) if numbers.targets else numbers

    def edit(self) -> None:
        arrays = editable(self.numbers) | self.edits
        name = self.random.choice(list(arrays))
        place = tuple(map(int, self.random.integers(arrays[name].shape)))
        text = f"{self.random.normal() * 10.0 ** self.random.uniform(-2, 1):.{self.random.integers(1, 17)}g}"
        self.browser.run(ENTER, name, place, text)
        self.past.append((self.edits, self.turned))
        self.edits = self.edits | {name: arrays[name].copy()}
        self.edits[name][place] = float(text)

    def undo(self) -> None:
        self.browser.click("undo")
        if self.past:
            self.edits, self.turned = self.past.pop()

    def reset(self) -> None:
        self.browser.click("reset")
        if self.edits or self.turned != self.start[1]:
            self.past.append((self.edits, self.turned))
            self.edits, self.turned = self.start

    def switch(self) -> None:
        i = self.random.integers(len(self.switches))
        value = 1 - self.turned[i] if "choices" in self.switches[i] else float(f"{self.random.normal():.3g}")
        self.browser.choose(f"#switch-{self.switches[i]['name']}", value)
        self.past.append((self.edits, self.turned))
        self.turned = [*self.turned[:i], value, *self.turned[i + 1:]]

    def step(self) -> None:
        self.browser.run("goTo(Math.floor(arguments[0] * (1 + steps.length)))", self.random.random())

    def make_mistake(self) -> None:
        if self.fitting:
            i = int(self.random.integers(-1, len(self.fitting)))
            self.browser.choose("#mistakes", i)
            self.mistake = self.fitting[i] if i >= 0 else None

    def go(self) -> str:
        """One thing, and what it was."""
        doings = [self.edit, self.undo, self.reset, self.switch, self.step, self.make_mistake]
        doing = self.random.choice(doings, p=[0.5, 0.15, 0.03, 0.08, 0.12, 0.12])
        doing()
        return doing.__name__


def fitting(numbers: Inputs) -> list[mistakes.Mistake]:
    return [mistake for mistake in mistakes.MISTAKES if isinstance(numbers, Head) and mistake.fits(numbers, pages.trace_of(attention, numbers))]


@pytest.mark.parametrize("name", [name if name in ("all", "block of all") else pytest.param(name, marks=pytest.mark.long) for name in FIELDS])
def test_a_random_walk(browser, opened, name):
    """Edits, undo, switches, steps and mistakes: after each, all numbers are right, or as wrong as they should be."""
    random = np.random.default_rng(50 + list(FIELDS).index(name))
    numbers = drawn(random, name)
    walk, done = Walk(browser, random, numbers, opened(name, numbers)["switches"], fitting(numbers)), []
    for _ in range(ACTIONS):
        done.append(walk.go())
        where = name, walk.mistake and walk.mistake.name, done
        assert_shown(browser.run(SHOWN), expected(walk.now(), walk.mistake, walk.turned[-1] == 1), where)
    assert browser.run(NOT_EXPLAINED) == []


@pytest.mark.parametrize("name", ["square", "from x", "key-value heads", "all"])
def test_each_mistake_is_that_in_numpy_and_marked_where_it_is_wrong(browser, opened, name):
    numbers = drawn(np.random.default_rng(2), name)
    listed, right, made = opened(name, numbers)["mistakes"], expected(numbers), fitting(numbers)
    assert [one["name"] for one in listed] == [mistake.name for mistake in made]
    for i, mistake in enumerate(made):
        browser.choose("#mistakes", i)
        words = [part.strip() for part in listed[i]["sentence"].split("`")[::2]]  # without its formulas
        assert all(part in browser.text("#mistake") for part in words), mistake.name
        assert "products" not in browser.text("#mistake .counts"), mistake.name  # a joined step's result
        wrong, marked = expected(numbers, mistake), browser.arrays("wrong")
        assert_shown(browser.run(SHOWN), wrong, mistake.name)
        for key in ((tensor, "gradient") for tensor in (*numbers.inputs, "row_sum")):
            is_wrong = abs(wrong[key] - right[key]) > 1e-9 * abs(right[key]).max()
            assert (marked[key] == is_wrong).all(), (mistake.name, key)
