"""Training on a task, and what is said of the model afterwards: each step against the formulas of AdamW."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import nn
from models.encoder_decoder import PAD, START, STOP, Classifier, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.task_training import MODELS, CausalTranslator, TaskTraining, accuracy, is_right, make_model, train
from models.tasks import TASKS, Task, inputs_and_targets
from models.transformer import TransformerConfig

TINY = TransformerConfig(context=32, layers=1, heads=2, width=8, dtype="float64")
BASE = dict(steps=6, batch_size=3, lr=0.01, warmup_steps=2, max_grad_norm=0.5)
OTHER = dict(steps=4, batch_size=5, final_batch_size=12, accumulation=2, lr=0.02, warmup_steps=0, annealing="linear",
             max_grad_norm=0.1, label_smoothing=0.1, seed=1)


def slow_training(task, model, training):
    """The losses, by mg.grad and AdamW's formulas."""
    generator, parameters = np.random.default_rng(training.seed), list(model.parameters())
    means, squares = ([np.zeros(p.shape) for p in parameters] for _ in range(2))
    losses = []
    for step in range(training.steps):
        total, gradients = 0.0, [np.zeros(p.shape) for p in parameters]
        for _ in range(training.accumulation):
            length = int(generator.integers(task.lengths[0], task.lengths[1] + 1))
            source, target = task.make(generator, training.batch_size_at(step), length)
            inputs, targets = inputs_and_targets(target)
            logits, _ = model(mg.tensor(source), mg.tensor(inputs))
            loss = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), mg.tensor(targets.ravel()),
                                               label_smoothing=training.label_smoothing)
            total += loss.item() / training.accumulation
            for sum_, gradient in zip(gradients, mg.grad(loss, parameters)):
                sum_ += gradient.numpy() / training.accumulation
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        lr = nn.optim.warmup_annealing(step, training.annealing, warmup_steps=training.warmup_steps,
                                       total_steps=training.steps, peak=training.lr)
        for p, g, m, v in zip(parameters, gradients, means, squares):
            g = g * min(1, training.max_grad_norm / (norm + 1e-6))
            m[...] = 0.9 * m + 0.1 * g
            v[...] = 0.98 * v + 0.02 * g * g
            step_size = m / (1 - 0.9 ** (step + 1)) / (np.sqrt(v / (1 - 0.98 ** (step + 1))) + 1e-8)
            p.data[...] = (1 - 0.01 * lr) * p.data - lr * step_size
        losses.append(total)
    return losses


@pytest.mark.parametrize("field", [None, *OTHER])
def test_training_is_its_formulas_and_every_field_counts(field):
    assert OTHER.keys() == {f.name for f in dataclasses.fields(TaskTraining)}
    changed = TaskTraining(**BASE | ({} if field is None else {field: OTHER[field]}))
    losses = train(TASKS["copy"], make_model(TASKS["copy"], "encoder-decoder", TINY), changed)
    expected = slow_training(TASKS["copy"], make_model(TASKS["copy"], "encoder-decoder", TINY), changed)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    if field is not None:
        base = train(TASKS["copy"], make_model(TASKS["copy"], "encoder-decoder", TINY), TaskTraining(**BASE))
        assert losses != base


def test_a_length_holds_for_all_examples():
    task, lengths = TASKS["copy"], []
    spy = dataclasses.replace(task, make=lambda generator, count, n: lengths.append(n) or task.make(generator, count, n))
    train(spy, make_model(task, "encoder-decoder", TINY), TaskTraining(steps=5, batch_size=2), length=4)
    assert lengths == [4] * 5


def test_dropout_is_on_while_training_and_off_afterwards(monkeypatch):
    model, seen = make_model(TASKS["copy"], "encoder-decoder", TINY).eval(), []
    forward = EncoderDecoder.forward

    def watched(self, *args, **options):
        seen.append(self.training)
        return forward(self, *args, **options)

    monkeypatch.setattr(EncoderDecoder, "forward", watched)
    train(TASKS["copy"], model, TaskTraining(steps=2, batch_size=2))
    assert all(seen) and seen and not model.training


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models_are_what_their_names_say(name, dtype):
    kinds = {"encoder-decoder": (EncoderDecoder, None), "causal": (CausalTranslator, None),
             "rnn": (RecurrentSeq2Seq, False), "rnn-attention": (RecurrentSeq2Seq, True),
             "encoder": (Classifier, True), "no-attention": (Classifier, False)}
    kind, attends = kinds[name]
    config = dataclasses.replace(TINY, dtype=dtype)
    for task in TASKS.values():
        if (task.kind == "class") != (kind is Classifier):
            continue
        model = make_model(task, name, config, seed=3)
        assert type(model) is kind and {p.dtype for p in model.parameters()} == {np.dtype(dtype)}
        assert model.config == dataclasses.replace(config, vocabulary_size=task.vocabulary_size)
        if kind is RecurrentSeq2Seq:
            assert model.attends is attends
        if kind is Classifier:
            assert [block.attends for block in model.encoder.blocks] == [attends] and model.pooling == task.pooling
            assert model.head.out_features == len(task.classes)
    assert {task.name for task in TASKS.values() if task.pooling == "last"} == {"induction", "bank"}


def test_seeds_of_a_model_decide():
    one, same, other = (make_model(TASKS["sort"], "causal", TINY, seed).state_dict() for seed in (1, 1, 2))
    for name, value in one.items():
        assert (value.numpy() == same[name].numpy()).all()
    assert any((value.numpy() != other[name].numpy()).any() for name, value in one.items())


class Parrot(Seq2Seq):
    """Says the source again, and STOP; but to sources that begin with 4 it says one wrong symbol, the last."""

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


def test_an_answer_is_right_if_all_of_it_is():
    source = np.array([[3, 4, 5], [4, 4, 5], [3, 3, 3]])
    assert is_right(COPY, Parrot().eval(), (source, source)).tolist() == [True, False, True]
    assert is_right(COPY, Parrot(adds_stop=False).eval(), (source, source)).tolist() == [False] * 3


def test_accuracy_is_the_share_of_right_answers_to_new_examples():
    model = Parrot()
    share = accuracy(COPY, model, count=400)
    assert [source.shape for source in model.sources] == [(200, 3), (200, 4)] and not model.training
    assert share == np.mean([row[0] != 4 for source in model.sources for row in source]) != 1
    accuracy(COPY, model, count=10, seed=5, length=3)
    assert model.sources[-1].shape == (10, 3)
    np.testing.assert_array_equal(model.sources[-1], np.random.default_rng(5).integers(3, 5, (10, 3)))


def test_classes_are_right_where_the_largest_logit_is():
    task = dataclasses.replace(COPY, classes=("no", "yes"))

    def model(inputs):
        return mg.tensor(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])), None

    assert is_right(task, model, (np.zeros((3, 2), int), np.array([0, 0, 1]))).tolist() == [True, False, False]


def test_inputs_begin_with_start():
    assert inputs_and_targets(np.array([[5, 6, PAD]]))[0].tolist() == [[START, 5, 6, PAD]]
