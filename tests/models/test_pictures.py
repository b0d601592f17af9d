"""Pictures of attention: panels, weights, labels, titles, the description of where heads look, and which files are ours."""

import numpy as np
import pytest

from models import Vocabulary
from models import pictures
from models.architectures import make_model
from models.commands.shared import UsageError, check_output
from models.pictures import OURS, LabelledMap, draw_maps, labelled, save, visible, where_heads_look
from models.tasks import TASKS
from refusals import all_refused

GENERATOR = np.random.default_rng(0)


def softmax_rows(*shape: int, causal: bool = False) -> np.ndarray:
    weights = np.exp(3 * GENERATOR.standard_normal(shape))
    weights = np.tril(weights) if causal else weights
    return weights / weights.sum(-1, keepdims=True)


def panels_of(figure) -> list:
    return [axes for axes in figure.axes if axes.images]


def texts(ticks) -> list[str]:
    return [tick.get_text() for tick in ticks]


def test_a_panel_for_each_layer_and_head():
    letters = list("abcde")
    maps = [LabelledMap(f"layer {i}", i, softmax_rows(3, 5, 5, causal=i == 1), letters, letters) for i in (1, 2)]
    panels = panels_of(draw_maps(maps, "a title"))
    assert [axes.get_title() for axes in panels] == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2, 3)]
    for n, axes in enumerate(panels):
        image, weights = axes.images[0], maps[n // 3].weights[n % 3]
        assert image.get_clim() == (0, 1)
        is_future = np.triu(np.ones((5, 5), bool), 1) & (n < 3)
        np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), is_future)  # on a grey background
        np.testing.assert_array_equal(image.get_array()[~is_future], weights[~is_future])
        for is_named, axis, word in ((n >= 3, axes.xaxis, "key"), (n % 3 == 0, axes.yaxis, "query")):
            assert texts(axis.get_ticklabels()) == (letters if is_named else [])
            assert axis.get_label_text().startswith(word) if is_named else axis.get_label_text() == ""


def test_each_layer_names_its_keys_if_they_differ_and_else_the_lowest_panels_do():
    for keys, named in ((["abc", "xyz"], [True] * 5), (["abc", "abc"], [False, False, True, True, True])):
        maps = [LabelledMap("cross", i, softmax_rows(3 - i, 2, 3), "de", keys[i]) for i in (0, 1)]
        assert [bool(axes.get_xticklabels()) for axes in panels_of(draw_maps(maps))] == named


def test_queries_and_keys_have_their_own_labels():
    (panel,) = panels_of(draw_maps([LabelledMap("cross", 1, softmax_rows(1, 2, 3), ["x", "y"], ["long", "b", "c"])]))
    assert texts(panel.get_yticklabels()) == ["x", "y"] and texts(panel.get_xticklabels()) == ["long", "b", "c"]
    assert not np.ma.getmaskarray(panel.images[0].get_array()).any()
    assert {label.get_rotation() for label in panel.get_xticklabels()} == {90}


def test_zeros_above_the_diagonal_of_an_encoder_are_not_the_future():
    weights = softmax_rows(2, 3, 3)
    weights[0] = np.eye(3)
    for values, letters in ((weights, "abc"), (np.ones((1, 1, 1)), "a")):
        assert not LabelledMap("layer 1", 1, values, letters, letters).hides_future


def test_long_texts_have_positions_instead_of_symbols():
    for time, has_symbols in [(pictures.MOST_LABELS, True), (pictures.MOST_LABELS + 1, False)]:
        symbols = ["x"] * time
        (panel,) = panels_of(draw_maps([LabelledMap("layer 1", 1, softmax_rows(1, time, time), symbols, symbols)]))
        shown = [text for text in texts(panel.get_xticklabels()) + texts(panel.get_yticklabels()) if text]
        assert (shown == 2 * symbols) == has_symbols
        assert panel.get_xlabel().endswith(", by position") == panel.get_ylabel().endswith(", by position") != has_symbols
        assert has_symbols or all(text.isdigit() or text.startswith("−") for text in shown)


def test_labels_do_not_overlap():
    symbols = ["W"] * pictures.MOST_LABELS
    figure = draw_maps([LabelledMap("layer 1", 1, softmax_rows(2, 64, 64), symbols, symbols)])
    figure.draw_without_rendering()
    for axes in panels_of(figure):
        for labels, side in ((axes.get_xticklabels(), "x0"), (axes.get_yticklabels(), "y0")):
            if not labels:  # those of another panel
                continue
            boxes = [label.get_window_extent() for label in labels]
            starts = np.sort([getattr(box, side) for box in boxes])
            size = max(box.width if side == "x0" else box.height for box in boxes)
            assert np.diff(starts).min() > size


def test_panels_that_do_not_fit_are_left_out(monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PANELS", 4)
    maps = [LabelledMap(f"layer {i}", i, softmax_rows(2, 2, 2), "ab", "ab") for i in (1, 2, 3)]
    figure = draw_maps(maps, "all")
    assert len(panels_of(figure)) == 4 and figure.get_suptitle() == "all\n(the first 2 of 3 layers)"
    figure = draw_maps([LabelledMap("layer 1", 1, softmax_rows(5, 2, 2), "ab", "ab")])
    assert len(panels_of(figure)) == 4 and figure.get_suptitle() == "(the first 4 of 5 heads)"


def test_blanks_and_control_characters_are_visible():
    assert visible("a \n\t$") == ["a", "␣", "↵", "⇥", "$"]
    assert visible("\x07\xa0\u0301\u4e2d\U0001f9e0") == ["\\x07", "\\xa0", "\\u0301", "\\u4e2d", "\\U0001f9e0"]
    assert visible(["the", "na\xefve"]) == ["the", "na\xefve"]


def test_labels_are_no_formulas(tmp_path):
    symbols = visible(["$", "$_$", "{", "\\"])
    maps = [LabelledMap("$layer_$", 1, softmax_rows(1, 4, 4), symbols, symbols)]
    figure = draw_maps(maps, "$x_$", tmp_path / "here.png")  # an error if these were formulas
    assert texts(panels_of(figure)[0].get_xticklabels()) == symbols


def test_titles():
    for path, title, layer in [
        ("blocks.2.attention", "layer 3", 3), ("model.blocks.0.attention", "layer 1", 1),
        ("encoder.blocks.1.attention", "encoder, layer 2", 2), ("attention", "attention", 7),
        ("decoder.blocks.0.cross_attention", "decoder, layer 1, cross-attention", 1),
        ("decoder.layers.4.self_attn", "decoder, layer 5, self-attn", 5),
    ]:
        maps = dict.fromkeys([*"abcdef"], np.ones((1, 1, 1))) | {path: np.ones((1, 1, 1))}
        found = labelled(maps, lambda path: ([path], [path]))[-1]
        assert (found.title, found.layer, found.queries, found.keys) == (title, layer, [path], [path])


@pytest.mark.parametrize("ending, begins", [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_only_our_pictures_are_overwritten(tmp_path, ending, begins):
    maps = [LabelledMap("layer 1", 1, softmax_rows(1, 2, 2), "ab", "ab")]
    draw_maps(maps, path=tmp_path / f"ours{ending}")
    assert (tmp_path / f"ours{ending}").read_bytes().startswith(begins)
    save(draw_maps(maps), tmp_path / f"another{ending}", "minigrad: something else", dpi=50)
    (tmp_path / f"other{ending}").write_bytes(begins + b" precious")
    (tmp_path / f"notes{ending}").write_text(f"notes on pictures that say {OURS!r}")
    (tmp_path / f"folder{ending}").mkdir()

    def check(name: str) -> None:
        check_output(tmp_path / f"{name}{ending}", "--out", "picture", OURS)

    check("ours")
    check("new")
    all_refused(check, [(name, f"{name}{ending} exists and is not a picture") for name in ("another", "other", "notes", "folder")],
                UsageError)


def look_at(weights: np.ndarray) -> list[str]:
    letters = "abcdefgh"[: weights.shape[-1]]
    return [line.partition(" most at ")[2] for line in where_heads_look(LabelledMap("layer 1", 1, weights, letters, letters))]


def test_where_heads_look():
    back, ahead, itself = (np.eye(6, k=k) for k in (-2, 1, 0))
    back[:2, 0] = ahead[-1, 0] = 1
    first = np.zeros((6, 6))
    first[:, 0] = 1
    assert look_at(np.stack([back, itself, first])) == [
        "the symbol 2 back, weight 1.00 on average (evenly spread 0.24)",  # (1/3 + 1/4 + 1/5 + 1/6) / 4
        "itself, weight 1.00 on average (evenly spread 0.29)",  # (1/2 + ... + 1/6) / 5: the first query has one key
        "the first symbol, weight 1.00 on average (evenly spread 0.29)"]
    assert look_at(np.stack([ahead, itself, back[::-1, ::-1]])) == [
        "the symbol 1 ahead, weight 1.00 on average (evenly spread 0.17)",
        "itself, weight 1.00 on average (evenly spread 0.17)",
        "the symbol 2 ahead, weight 1.00 on average (evenly spread 0.17)"]
    mixed = 0.45 * itself + 0.42 * back + 0.13 * np.eye(6, k=-1)
    mixed[0], mixed[1, :2] = itself[0], (0.55, 0.45)
    assert look_at(mixed[None]) == ["the symbol 2 back, weight 0.42 on average (evenly spread 0.24)"]  # itself: 0.45, of 0.29
    assert look_at(softmax_rows(2, 3, 4)) == look_at(np.ones((2, 1, 1))) == []


@pytest.mark.parametrize("task, name, axes", [
    ("bank", "encoder", {"encoder, layer 1": ("read", "read")}),
    ("stripes", "encoder", {"encoder, layer 1": ("patches", "patches")}),
    ("reverse", "causal", {"layer 1": ("both", "both")}),
    ("reverse", "rnn-attention", {"attention": ("state and written", "read")}),
    ("reverse", "encoder-decoder", {"encoder, layer 1": ("read", "read"), "decoder, layer 1": ("written", "written"),
                                    "decoder, layer 1, cross-attention": ("written", "read")}),
])
def test_labels_of_tasks(task, name, axes):
    task = TASKS[task]
    model = make_model(task, name, task.config).eval()
    title, maps = task.look(model)
    source = task.examples(1)[0]
    answer = task.answer(model, source, source.shape[1] + 1)[0]
    assert title.startswith(f"{task.name}: ") and title.endswith(f" → {task.say(answer)}")
    read = task.decode(source[0]).split() if task.symbols else []
    written = ["start", *task._names(answer)[:-1]] if task.kind == "sequence" else []
    expected = {"read": read, "written": written, "both": read + written, "state and written": ["", *written],
                "patches": [f"{row},{column}" for row in range(1, 5) for column in range(1, 5)]}
    for found in maps:
        assert found.weights.shape[1:] == (len(found.queries), len(found.keys))
        if found.title in axes:
            assert (found.queries, found.keys) == tuple(expected[which] for which in axes.pop(found.title))
    assert not axes


def test_labels_of_texts(make_trainer):
    model = make_trainer().model.eval()
    vocabulary = Vocabulary(" abcdefghij")
    title, maps = vocabulary.look(model, "ab cd")
    assert title == "" and [(found.title, found.weights.shape) for found in maps] == [("layer 1", (2, 5, 5)), ("layer 2", (2, 5, 5))]
    assert all(found.queries == found.keys == ["a", "b", "␣", "c", "d"] and found.hides_future for found in maps)
    all_refused(lambda prompt: vocabulary.look(model, prompt), [
        ("", "there is no text to read"), ("xyz", "the vocabulary has no 'x'"),
        ("a" * 33, "a prompt of 33 characters does not fit into the model's context of 32")])


def test_a_text_of_the_models_own(make_trainer):
    model, vocabulary = make_trainer().model.eval(), Vocabulary("abcdefghijk")
    text = "".join(vocabulary.respond(model, tokens=16, temperature=0))  # 16: half of its context
    title, maps = vocabulary.look(model)
    assert title == repr(text) and maps[0].keys == visible(text)
    blanks = "\n\x0b\x0c\r\x1c\x1d\x1e \x85\xa0\u2028"
    likeliest = Vocabulary("".join(blank if symbol in text else symbol for symbol, blank in zip("abcdefghijk", blanks)))
    assert set(likeliest.own_text(model, 32)) & set("abcdefghijk")
    with pytest.raises(ValueError, match="there is no text to read"):
        Vocabulary(blanks).look(model)


def test_the_picture_of_a_run_on_a_text(make_trainer, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("models.data.draw_maps", lambda maps, path: drawn.append((maps, path)))
    trainer = make_trainer()
    assert trainer.dataset.illustrate(trainer.model.eval(), tmp_path) == ["attention.png"]
    ((maps, path),) = drawn
    corpus = trainer.dataset
    assert path == tmp_path / "attention.png" and maps[0].keys == visible(corpus.tokenizer.decode(corpus.validation[:32]))
