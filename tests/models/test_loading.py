"""Models from checkpoints: ready to use, from text to text."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import models
from models import run as runs
from models.architectures import ARCHITECTURES, make_model
from models.checkpoint import BEST, NAME
from models.loading import model_config, training_config
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import TransformerConfig

SMALL = TransformerConfig(context=32, layers=1, heads=2, width=8, dropout=0.5)
OF_TASKS = [(task, name) for task in ("copy", "addition", "bank", "stripes") for name in ARCHITECTURES[TASKS[task].kind]]


@pytest.mark.parametrize("task, name", OF_TASKS)
def test_a_model_of_a_task(task, name, tmp_path):
    task = TASKS[task]
    trainer = Trainer(make_model(task, name, SMALL), task, TrainingConfig.of(task, steps=3, batch_size=2), name)
    runs.train(trainer, tmp_path)
    model = models.load(tmp_path)
    assert type(model) is type(trainer.model) and not model.training and model.config == trainer.model.config
    assert model.tokenizer is task
    assert (tmp_path / runs.SAMPLE).read_text() == task.sample(model, 0) + "\n"  # without dropout
    batch = [mg.tensor(array) for array in task.arguments(task.examples(3))]
    np.testing.assert_array_equal(model(*batch)[0].array, trainer.model.eval()(*batch)[0].array)


def test_a_model_of_a_text(make_trainer, tmp_path):
    trainer = make_trainer(dropout=0.5)
    runs.train(trainer, tmp_path)
    for run in (tmp_path, tmp_path / NAME, str(tmp_path)):
        model = models.load(run)
        tokens = model.tokenizer.encode("abc de")[None]
        logits, loss = model(mg.tensor(tokens))
        np.testing.assert_array_equal(logits.array, trainer.model.eval()(mg.tensor(tokens))[0].array)
        assert not model.training and model.config == trainer.model.config and loss is None
        assert model.tokenizer.decode(tokens[0]) == "abc de"
        ids = list(models.generate(model, tokens[0], 20, temperature=0.5, seed=1))
        assert models.respond(model, "abc de", tokens=20, temperature=0.5, seed=1) == "abc de" + model.tokenizer.decode(ids)
    assert len(models.respond(model)) == 301 and models.respond(model)[0] == " "


@pytest.mark.parametrize("prompt, says", [
    (5, r"models.respond takes a prompt of text, got 5 \(int\); token ids are for models.generate"),
    ([1, 2], r"got \[1, 2\] \(list\)"), (b"x" * 5000, r"got b.x{58} \(bytes\)"),
])
def test_a_prompt_that_is_no_text(small_model, prompt, says):
    model = small_model(256)
    for speaker in models.tokenizers.Bytes(), TASKS["copy"]:
        model.tokenizer = speaker
        with pytest.raises(TypeError, match=says):
            models.respond(model, prompt)
    del model.tokenizer
    with pytest.raises(ValueError, match="the model has no tokenizer, so it takes and gives token ids only"):
        models.respond(model, prompt)


def test_what_older_checkpoints_lack_has_its_default(make_trainer, tmp_path):
    trainer = make_trainer()
    checkpoint, newer = trainer.checkpoint(), {"rotary_scaling", "optimizer", "muon_lr", "muon_momentum"}
    older = dataclasses.replace(checkpoint, **{config: {name: value for name, value in getattr(checkpoint, config).items()
                                                        if name not in newer} for config in ("config", "training")})
    assert len(older.config | older.training) == len(checkpoint.config | checkpoint.training) - len(newer)
    models.checkpoint.save(tmp_path, older)
    assert models.load(tmp_path).config == trainer.model.config and training_config(older) == trainer.config
    del older.training["lr"], older.config["heads"]
    for make, lacking in ((training_config, "lr"), (model_config, "heads")):
        with pytest.raises(models.CheckpointError, match=f"is not of a model that this version knows .it lacks {lacking}."):
            make(older)


def test_the_best_model(make_trainer, tmp_path):
    trainer = make_trainer()
    runs.train(trainer, tmp_path)
    checkpoint = models.checkpoint.load(tmp_path)
    checkpoint.model["ln_f.bias"] = checkpoint.model["ln_f.bias"] + 1
    models.checkpoint.save(tmp_path, checkpoint, BEST)
    last, best = models.load(tmp_path), models.load(tmp_path, best=True)
    np.testing.assert_array_equal(best.ln_f.bias.array, last.ln_f.bias.array + 1)
    for run in (tmp_path / "nothing", tmp_path / NAME):
        with pytest.raises(models.CheckpointError, match="give the folder of a run"):
            models.load(run, best=True)


def test_damaged_tasks_and_architectures(tmp_path):
    task = TASKS["copy"]
    checkpoint = Trainer(make_model(task, None, SMALL), task, TrainingConfig.of(task), "encoder-decoder").checkpoint()
    for changes, says in (
        ({"architecture": "oracle"}, "so model must be one of encoder-decoder, causal, rnn, rnn-attention, got 'oracle'"),
        ({"architecture": "rnn"}, "is from another architecture"),
        ({"dataset": {"task": "fly"}}, "its dataset.task is 'fly', expected the name of a task or null"),
        ({"dataset": {"task": "translation"}}, "its model has 13 tokens, its tokenizer"),
        ({"dataset": {"task": "bank"}}, "its model has 13 tokens, its tokenizer"),
        ({"config": checkpoint.config | {"layers": 0}}, "layers must be at least 1, got 0"),
        ({"config": checkpoint.config | {"layers": 9999}}, "a model of 9999 layers and width 8 has many more"),
        ({"best_loss": float("nan")}, "its best_loss is nan, expected a number"),
    ):
        path = models.checkpoint.save(tmp_path, type(checkpoint)(**vars(checkpoint) | changes))
        with pytest.raises(models.CheckpointError) as caught:
            models.load(path)
        assert says in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)
