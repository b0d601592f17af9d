"""Training on a task, step by step against the formulas of AdamW; evaluation, accuracy, samples and pictures of the model."""
import dataclasses
import hashlib
import itertools

import numpy as np
import pytest
from matplotlib.image import imread

import minigrad as mg
import models
import naive_models
import nn
from models import checkpoint as checkpoints
from models import task as task_module
from models.architectures import ARCHITECTURES, CausalSeq2Seq, make_model
from models.encoder_decoder import PAD, START, STOP, Classifier, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.task import Task
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.config import TransformerConfig
from refusals import all_refused

TINY = TransformerConfig(context=32, layers=1, heads=2, width=8, dtype="float64")
BASE = dict(steps=6, batch_size=3, lr=0.01, warmup_steps=2, max_grad_norm=0.5)
OTHER = dict(steps=7, batch_size=5, final_batch_size=12, accumulation=2, lr=0.02, final_lr=0.5, warmup_steps=0,
             annealing="linear", beta1=0.5, beta2=0.5, weight_decay=0.5, decay_all=False, max_grad_norm=0.1,
             label_smoothing=0.1, seed=1)


def drawn(task, generator, count, length, is_new):
    """Examples of one length, row by row: one in eight, by its hash, is not for training."""
    rows = []
    while len(rows) < count:
        rows += [(source, target) for source, target in zip(*task.make(generator, count - len(rows), length))
                 if is_new == (hashlib.blake2b(source.tobytes(), digest_size=1).digest()[0] % 8 == 0)]
    return tuple(np.stack(arrays) for arrays in zip(*rows))


def slow_training(task, model, config):
    """The losses, by the formulas."""
    parameters = list(model.parameters())

    def draw(generator, size):
        source, target = drawn(task, generator, size, generator.integers(task.lengths[0], task.lengths[1] + 1), is_new=False)
        start, stop = (np.full((size, 1), token) for token in (START, STOP))
        return source, np.hstack([start, target]), np.hstack([target, stop])

    def loss_and_gradients(batches):
        total, count = 0.0, sum(targets.size for *_, targets in batches)
        for source, inputs, targets in batches:
            logits, _ = model(mg.tensor(source), mg.tensor(inputs))
            total += nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), mg.tensor(targets.ravel()), reduction="sum",
                                                 label_smoothing=config.label_smoothing) / count
        return total.item(), [gradient.numpy() for gradient in mg.grad(total, parameters)]

    return naive_models.training(config, [p.array for p in parameters], draw, loss_and_gradients)


def test_training_is_its_formulas_and_every_field_counts():
    elsewhere = {"optimizer", "muon_lr", "muon_momentum", "precision"}  # see test_train.py
    assert OTHER.keys() | elsewhere | {"eval_every", "eval_windows"} == {f.name for f in dataclasses.fields(TrainingConfig)}
    task = dataclasses.replace(TASKS["copy"], lengths=(3, 4))  # each length is compiled anew

    def losses_of(fields) -> list[float]:
        return Trainer(make_model(task, None, TINY), task, TrainingConfig.of(task, **fields)).train()

    decaying = BASE | dict(weight_decay=5.0)
    for fields in (BASE, decaying, decaying | dict(decay_all=False), OTHER):
        expected = slow_training(task, make_model(task, None, TINY), TrainingConfig.of(task, **fields))
        np.testing.assert_allclose(losses_of(fields), expected, rtol=1e-9, err_msg=str(fields))
    plain = losses_of(decaying)
    for field, value in OTHER.items():
        assert losses_of(decaying | {field: value}) != plain, field


def test_defaults_of_a_task():
    assert TrainingConfig.of(TASKS["induction"]) == TrainingConfig(
        steps=4000, batch_size=64, lr=2e-3, final_lr=0.0, beta2=0.98, weight_decay=0.01, decay_all=True, seed=0)
    assert TrainingConfig.of(TASKS["induction"], steps=3, seed=1) == dataclasses.replace(
        TrainingConfig.of(TASKS["induction"]), steps=3, seed=1)
    assert [name for name, task in TASKS.items() if TrainingConfig.of(task).steps != 1500] == ["induction"]


def test_batches_have_all_lengths_start_and_stop():
    task, generator = TASKS["copy"], np.random.default_rng(0)
    batches = [task.batch(generator, 2, 32) for _ in range(60)]
    assert {source.shape for source, _, _ in batches} == {(2, n) for n in range(3, 9)}
    for source, inputs, targets in batches:
        np.testing.assert_array_equal(inputs, np.hstack([np.full((2, 1), START), source]))
        np.testing.assert_array_equal(targets, np.hstack([source, np.full((2, 1), STOP)]))


def test_dropout_is_on_while_training_and_off_afterwards(monkeypatch):
    model, forward = make_model(TASKS["copy"], "encoder-decoder", TINY).eval(), EncoderDecoder.forward

    def watched(self, *args, **options):
        assert self.training
        return forward(self, *args, **options)

    monkeypatch.setattr(EncoderDecoder, "forward", watched)
    Trainer(model, TASKS["copy"], TrainingConfig(steps=2, batch_size=2)).train()
    assert not model.training
    with pytest.raises(AssertionError):
        model(*[mg.tensor(ids) for ids in TASKS["copy"].batch(np.random.default_rng(0), 2, 8)])


def test_each_architecture_makes_its_model():
    kinds = {"encoder-decoder": (EncoderDecoder, None), "causal": (CausalSeq2Seq, None),
             "rnn": (RecurrentSeq2Seq, False), "rnn-attention": (RecurrentSeq2Seq, True),
             "encoder": (Classifier, True), "no-attention": (Classifier, False)}
    assert kinds.keys() == (ARCHITECTURES["sequence"] | ARCHITECTURES["class"]).keys()
    for dtype, task in itertools.product(("float32", "float64"), TASKS.values()):
        config = dataclasses.replace(TINY, dtype=dtype)
        for name in ARCHITECTURES[task.kind]:
            model, (kind, attends) = make_model(task, name, config, seed=3), kinds[name]
            assert type(model) is kind and {p.dtype for p in model.parameters()} == {np.dtype(dtype)}
            assert model.config == dataclasses.replace(config, vocabulary_size=task.vocabulary_size)
            if kind is RecurrentSeq2Seq:
                assert model.attends is attends
            if kind is Classifier:
                assert [block.attends for block in model.encoder.blocks] == [attends] and model.pooling == task.pooling
                assert model.head.out_features == len(task.classes)
    assert {task.name for task in TASKS.values() if task.pooling == "last"} == {"induction", "bank"}


@pytest.mark.parametrize("task, name", [("copy", name) for name in ARCHITECTURES["sequence"]] +
                         [("sentiment", name) for name in ARCHITECTURES["class"]])
def test_the_config_follows_the_dtype(task, name, tmp_path):
    """So a run of a converted model is a run of a model in that dtype."""
    model = make_model(TASKS[task], name, dataclasses.replace(TINY, dtype="float32"))
    configs = [vars(module)["config"] for module in model.to("cpu").double().modules() if "config" in vars(module)]
    assert {config.dtype for config in configs} == {"float64"} and model.config is configs[0]
    trainer = Trainer(model, TASKS[task], TrainingConfig(steps=1, batch_size=2, precision="auto"), name)
    assert trainer.config.precision == "float32"
    checkpoints.save(tmp_path, trainer.checkpoint())
    assert models.load(tmp_path).config == model.config
    assert [model.to(dtype).config.dtype for dtype in ("float64", "float32")] == ["float64", "float32"]


def test_the_seed_decides_the_parameters():
    one, same, other = (make_model(TASKS["sort"], "causal", TINY, seed).state_dict() for seed in (1, 1, 2))
    for name, value in one.items():
        assert (value.numpy() == same[name].numpy()).all()
    assert any((value.numpy() != other[name].numpy()).any() for name, value in one.items())


class Parrot(Seq2Seq):
    """Repeats the source, then STOP; if the source begins with 4, the last symbol is wrong."""

    def __init__(self, adds_stop=True):
        super().__init__()
        self.adds_stop, self.dropout, self.sources = adds_stop, nn.Dropout(0.5), []

    def encode(self, source):
        self.sources.append(source.numpy())
        return source

    def decode(self, memory, padding, inputs, weights=None):
        source = memory.numpy().copy()
        source[source[:, 0] == 4, -1] += 1
        said = np.hstack([source, np.full((len(source), 1), STOP if self.adds_stop else 3)])[:, : inputs.shape[1]]
        return self.dropout(mg.tensor(np.eye(20)[said]))


def same_twice(generator, count, length):
    source = generator.integers(3, 5, (count, length))
    return source, source


COPY = Task("copy", "", tuple("abcdefgh"), same_twice, (3, 4))


def test_an_answer_is_right_if_every_symbol_is():
    source = np.array([[3, 4, 5], [4, 4, 5], [3, 3, 3]])
    assert COPY.is_right(Parrot().eval(), (source, source)).tolist() == [True, False, True]
    assert COPY.is_right(Parrot(adds_stop=False).eval(), (source, source)).tolist() == [False] * 3


def test_accuracy_is_the_fraction_of_right_answers_to_new_examples():
    model = Parrot()
    accuracy = COPY.accuracy(model, count=400)
    assert [source.shape for source in model.sources] == [(200, 3), (200, 4)] and not model.training
    assert accuracy == np.mean([row[0] != 4 for source in model.sources for row in source]) != 1
    COPY.accuracy(model, count=10, seed=5, length=3)
    assert model.sources[-1].shape == (10, 3)
    np.testing.assert_array_equal(model.sources[-1], drawn(COPY, np.random.default_rng(5), 10, 3, is_new=True)[0])
    COPY.accuracy(model, count=10, seed=5, length=2)  # all are new, as training has none of this length
    np.testing.assert_array_equal(model.sources[-1], np.random.default_rng(5).integers(3, 5, (10, 2)))


def test_sources_held_out_of_training_are_those_of_tests():
    for task in TASKS.values():
        for length in range(task.lengths[0], task.lengths[1] + 1):
            seen, new = ({source.tobytes() for source in task.draw(np.random.default_rng(0), 500, length, is_new)[0]}
                         for is_new in (False, True))
            assert seen and new and not seen & new, task.name
    one = dataclasses.replace(COPY, make=lambda generator, count, length: (np.full((count, length), 5),) * 2)
    with pytest.raises(ValueError, match="task 'copy' has too few examples of length 3: none is held out of training, and one in 8 should be"):
        one.accuracy(Parrot(), length=3)


def test_classes_are_right_where_the_largest_logit_is():
    task = dataclasses.replace(COPY, classes=("no", "yes"))

    def model(inputs):
        return mg.tensor(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])), None

    assert task.is_right(model, (np.zeros((3, 2), int), np.array([0, 0, 1]))).tolist() == [True, False, False]


def padded(generator, count, length):
    """Targets of 3 symbols, and then of 1; STOP follows."""
    source = generator.integers(3, 8, (count, length))
    return source, np.where(np.arange(length) < (length if length == 3 else 1), source, PAD)


@pytest.mark.parametrize("task", [
    TASKS["sort"], dataclasses.replace(TASKS["bank"], lengths=(4, 5)), dataclasses.replace(COPY, make=padded),
], ids=["symbols", "classes, 0 among them", "padding"])
def test_evaluation_is_the_mean_over_the_targets_of_new_examples_of_each_length(task):
    model, generator = make_model(task, None, TINY).eval(), np.random.default_rng(1_000_000)
    lengths, total, count = range(task.lengths[0], task.lengths[1] + 1), 0, 0
    for length in lengths:
        *inputs, targets = map(mg.tensor, task.arguments(drawn(task, generator, 5, length, is_new=True)))
        counting = targets.numel() if task.kind == "class" else np.count_nonzero(targets.numpy() != PAD)
        total, count = total + counting * model(*inputs, targets)[1].item(), count + counting
    measured = task.evaluate(model, TrainingConfig(eval_windows=5 * len(lengths)), is_last=False)
    assert measured == {"val_loss": pytest.approx(total / count)}


def test_sources_as_text():
    for name, text, ids in [
        ("reverse", "abc", [3, 4, 5]), ("reverse", " a b  c ", [3, 4, 5]), ("addition", "12+3", [4, 5, 13, 6]),
        ("translation", "the dog saw", [3, 8, 12]), ("sentiment", "not good", [3, 4]),
    ]:
        assert TASKS[name].encode(text).tolist() == ids
        assert TASKS[name].decode(ids) == " ".join(text.split() if len(ids) < 4 and " " in text else text)
    all_refused(lambda row: TASKS[row[0]].encode(row[1]), [
        (("reverse", "abz?z"), "expected symbols of task 'reverse', which are a b c d e f g h i j; got 'z' '?'"),
        (("reverse", "  "), "which are a b c d e f g h i j; got none"),
        (("translation", "thedog"), "got 'thedog'"),
        (("stripes", "abc"), "the sources of task 'stripes' are images, not text")])


def test_answers_as_text():
    assert "".join(COPY.respond(Parrot().eval(), "aba")) == "a b a"
    judge = dataclasses.replace(COPY, classes=("no", "yes"))
    assert "".join(judge.respond(lambda source: (mg.tensor(np.array([[0.0, 1.0]])), None), "a")) == "yes"
    with pytest.raises(ValueError, match="temperature makes no sense with task 'copy': its answer is the likeliest"):
        COPY.respond(Parrot(), "a", temperature=0.5)


def test_a_sample_shows_what_the_model_says():
    blocks = COPY.sample(Parrot().eval(), seed=0).split("\n\n")
    source, _ = drawn(COPY, np.random.default_rng(2_000_000), 3, 4, is_new=True)
    for block, ids in zip(blocks, source, strict=True):
        text = COPY.decode(ids)
        said = text if ids[0] != 4 else text[:-1] + chr(ord(text[-1]) + 1)
        assert block == f"source: {text}\nwanted: {text}\ngot:    {said}"
    task = TASKS["sentiment"]
    source, labels = drawn(task, np.random.default_rng(2_000_000), 3, 8, is_new=True)
    wrong = task.sample(lambda source: (mg.tensor(np.eye(2)[1 - labels]), None), seed=0)
    assert wrong == "\n\n".join(f"source: {task.decode(ids)}\nwanted: {task.classes[label]}\ngot:    {task.classes[1 - label]}"
                               for ids, label in zip(source, labels))


@pytest.mark.parametrize("name, pictures", [
    ("encoder-decoder", ["attention.png", "alignment.png"]), ("rnn-attention", ["attention.png", "alignment.png"]),
    ("causal", ["attention.png"]), ("rnn", []), ("encoder", ["attention.png"]), ("no-attention", []),
])
def test_attention_is_drawn(name, pictures, tmp_path):
    task = TASKS["bank" if name in ("encoder", "no-attention") else "copy"]
    assert task.illustrate(make_model(task, name, TINY).eval(), tmp_path) == pictures
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
    for picture in pictures:
        pixels = imread(tmp_path / picture)[:, :-120].reshape(-1, 4)  # left of the scale
        oranges = np.unique(pixels[pixels[:, 0] > pixels[:, 2] + 0.02], axis=0)
        assert len(oranges) > 5, picture  # weights are positive


def test_the_last_evaluation_has_the_accuracy_of_each_length(monkeypatch):
    task = TASKS["copy"]
    monkeypatch.setattr(Task, "accuracy", lambda self, model, count, length: length / count)
    measured = task.evaluate(make_model(task, None, TINY).eval(), TrainingConfig(eval_windows=6), is_last=True)
    assert measured["accuracy_by_length"] == {length: length / task_module.TEST_EXAMPLES for length in range(3, 9)}
    assert measured["accuracy"] == pytest.approx(0.55)
    assert task.summary(measured).startswith("whole answers that are right, to sources held out of training:\n  length 3:   30.0%\n")
    assert task.summary(measured).endswith("\n  overall:    55.0%")
