"""Break it, train it: the model that trains on the page is trained here, too, by minigrad, and by hand with its mistakes."""
import itertools
from unittest import mock

import numpy as np
import pytest

import minigrad as mg
from head_in_numpy import CHANGES, run, softmax
from minigrad.tracing import page
from nn.optim import Adam
from study.page import model, pages
from study.page.attention import next_words

TRAIN = """
const [line, mistake, done] = arguments, draw = drawRuns;
drawRuns = runs => { draw(runs); if (runs[0].steps.length === extras.trains.model.steps) { drawRuns = draw; done(runs); } };
state.mistake = mistake;
byId("line").value = line;
byId("training").querySelector("button").click();
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        made = pages.page_of_head(next_words())
    return page.write(made.trace, tmp_path_factory.mktemp("path") / "page.html", extras=made.extras, backwards=made.backwards)


@pytest.fixture
def trained(browser, path):
    """A function that trains on the page with a line, or with a mistake: the losses of the right backward, and of the other."""
    browser.open(path)

    def call(line: str = "", mistake: str = "") -> list[list[float]]:
        browser.driver.set_script_timeout(120)
        chosen = browser.run("return extras.mistakes.findIndex(one => one.name === arguments[0])", mistake)
        runs = browser.driver.execute_async_script(TRAIN, line, chosen)
        return [[step["loss"] for step in one["steps"]] for one in runs]
    return call


def batches():
    words = model.words()
    while True:
        yield [model.example(next(words)) for _ in range(model.BATCH)]


def losses_of_minigrad() -> list[float]:
    parameters = {name: mg.tensor(array, requires_grad=True) for name, array in model.start().items()}
    optimizer, losses = Adam(parameters.values(), lr=model.RATE), []
    for batch in itertools.islice(batches(), model.STEPS):
        loss = model.loss_of(parameters, *map(np.array, zip(*batch)))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def losses_by_hand(mistake: str) -> list[float]:
    parameters, losses = model.start(), []
    moments = {name: (np.zeros_like(array), np.zeros_like(array)) for name, array in parameters.items()}
    for step, batch in enumerate(itertools.islice(batches(), model.STEPS), 1):
        total, gradients = 0.0, dict.fromkeys(parameters, 0.0)
        for read, expected in batch:
            x = read @ parameters["letters"] + parameters["places"]
            inputs = {"x": x} | {name: array for name, array in parameters.items() if name.startswith("w_")}
            logits = run(model.HEAD, inputs, np.zeros_like(expected), {})[0]["output"]
            guessed, share = softmax(logits), 1 / (model.LETTERS * model.BATCH)
            total -= (expected * np.log(guessed)).sum() * share
            found = run(model.HEAD, inputs, (guessed * expected.sum(1, keepdims=True) - expected) * share, CHANGES[mistake])[1]
            found |= {"letters": read.T @ found["x"], "places": found["x"]}
            gradients = {name: gradients[name] + found[name] for name in gradients}
        losses.append(total)
        for name, gradient in gradients.items():
            m, v = moments[name] = 0.9 * moments[name][0] + 0.1 * gradient, 0.999 * moments[name][1] + 0.001 * gradient**2
            parameters[name] = parameters[name] - model.RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return losses


def test_the_page_trains_as_minigrad_does(trained, browser):
    (right,) = trained()
    assert right == pytest.approx(losses_of_minigrad(), abs=1e-6)
    assert "It learned to write words from their end: 100% of the letters." in browser.text("#training")
    assert browser.errors() == browser.requests() == []


@pytest.mark.parametrize("mistake, steps, says", [
    ("attention: no rowsum", 150, "With no row sum it stalls:"),
    ("attention: no scale", 200, "With no scale nothing happens: it learns too, though its gradients are wrong."),
    ("attention: mask skipped", 200, "Both losses are the same, step by step."),
])
def test_a_mistake_trains_as_by_hand(trained, browser, mistake, steps, says):
    """Where it does not learn, rounding grows: it is compared for as many steps as it leaves alone."""
    _, wrong = trained(mistake=mistake)
    assert wrong[:steps] == pytest.approx(losses_by_hand(mistake)[:steps], abs=1e-6)
    assert says in browser.text("#training")


def test_a_line_trains_as_the_mistake_that_it_is(trained, browser):
    _, of_line = trained("P * dP")
    assert "This is the mistake no row sum." in browser.text("#training") and "With your line it stalls" in browser.text("#training")
    assert of_line == pytest.approx(trained(mistake="attention: no rowsum")[1], rel=1e-9)


@pytest.mark.parametrize("line, says", [
    ("P * (dP - r)", "Right. All 16 numbers of dS are those of finite differences."),
    ("P*dP − P * sum(dP * P)", "Right."), ("P * (dP - r - r + r)", "Right."),
    ("-(sum(P * dP) * P) + 2 * P * dP / 2", "Right."),
    ("P * (dP - sum(dP * P) / 4)", "This is the mistake mean for the sum."),
    ("P * (dP - sum(P))", "This is the mistake sum of the weights."),
    ("dP - r", "This is the mistake not times the weights."),
    ("-P * (dP - r)", "This is the mistake wrong sign."),
    ("S / .5 + 2.", "Wrong in 10 of 16 numbers"),
    ("1", "Wrong in 10 of 16 numbers"),
    ("P / 0", "Wrong in 10 of 16 numbers"),
    ("P ** (dP - q)", "Expected P, dP, S, r, sum(...) or a number, not “*”."),
    ("P * (dP - r", "Expected “)”, not the end."),
    ("P (dP - r)", "Expected an operation, not “(”."),
    ("P * constructor", "not “constructor”."), ("sum P", "Expected “(”, not “P”."), ("P *", "or a number, not the end."), ("1.2.3", "not “.3”."),
])
def test_a_line_is_judged_by_differences_and_by_the_known_mistakes(browser, path, line, says):
    browser.open(path)
    browser.run("byId('line').value = arguments[0]; byId('training').querySelector('button').click()", line)
    told = " ".join(browser.text("#training [role=status]").split())
    assert says in told and told.endswith("It trains ...") == ("Wrong" in told or "Right" in told)


def test_a_mistake_leads_to_training(browser, path):
    browser.open(path)
    browser.choose("#mistakes", 0)
    browser.run("document.querySelector('#mistake .go').click()")
    assert browser.run("return state.station === stations.length") and "It trains ..." in browser.text("#training [role=status]")


def test_every_step_of_the_model_is_on_expressions_and_every_mistake_can_be_made():
    made = model.expressions(pages.MISTAKES)
    assert list(made["choices"]) == list(CHANGES) and {"input", "cell"} <= set(made["functions"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_training_is_accessible(trained, browser, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    trained("P * dP")
    assert browser.accessibility() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
