"""Checkpoints with valid checksums and bad content: each is refused in one line, or training continues exactly as it says."""
import copy
import dataclasses
import io
import itertools
import json
import math
import zipfile

import numpy as np
import pytest

import minigrad as mg
import models
from models import CausalTransformer, CheckpointError, Trainer, TrainingConfig, TransformerConfig, load_corpus
from models import checkpoint as checkpoints
from models.architectures import ARCHITECTURES, make_model
from models.checkpoint import Checkpoint
from models.loading import NEWER, model_config, training_config
from models.tasks import TASKS
from models.config import PLACEMENTS
from refusals import all_refused
from tables import shares

VALUES = [None, True, -1, 1.5, 1, 10 ** 7, 10 ** 400, math.nan, math.inf, "", "x", "ba", "a\ud800", "a\0", [], ["a"], {},
          {"a": 1}]


@pytest.fixture(scope="module")
def corpus(text_file):
    return load_corpus(str(text_file), context=8)


@pytest.fixture(scope="module")
def trained(corpus) -> Checkpoint:
    """After two steps of a model of 9 arrays."""
    config = TransformerConfig(vocabulary_size=len(corpus.tokenizer), context=8, layers=1, heads=2, width=8, bias=False)
    trainer = Trainer(CausalTransformer(config), corpus, TrainingConfig(steps=5, batch_size=2))
    trainer.train_step()
    trainer.train_step()
    return copy.deepcopy(trainer.checkpoint())


@pytest.fixture
def use(corpus, tmp_path):
    """A function that resumes from a checkpoint and returns the error, or None if the trainer's state is all of it."""
    def go_on(path) -> str | None:
        try:
            checkpoint = checkpoints.load(path)
            config, training = model_config(checkpoint, path), training_config(checkpoint, path)
            trainer = Trainer(CausalTransformer(config), corpus, training)
            trainer.restore(checkpoint, path)
        except CheckpointError as error:
            assert str(path) in str(error) and "\n" not in str(error) and len(str(error)) < 500
            return str(error)
        assert_same(trainer.checkpoint(), checkpoint)
        if training.batch_size * training.accumulation < 100:
            trainer.train_step()
        return None

    def save_and_go_on(checkpoint: Checkpoint) -> str | None:
        (tmp_path / checkpoints.NAME).unlink(missing_ok=True)
        return go_on(checkpoints.save(tmp_path, checkpoint))

    def rewrite(members: list[tuple[str, bytes]]) -> None:
        with zipfile.ZipFile(save_and_go_on.path, "w") as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content)

    save_and_go_on.path, save_and_go_on.go_on, save_and_go_on.rewrite = tmp_path / checkpoints.NAME, go_on, rewrite
    return save_and_go_on


def assert_same(one: Checkpoint, two: Checkpoint) -> None:
    for field in dataclasses.fields(Checkpoint):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if field.name in Checkpoint.ARRAYS:
            assert all(np.array_equal(a[name], b[name]) for name in a.keys() | b.keys())
        elif field.name == "config":
            assert TransformerConfig(**a) == TransformerConfig(**b)
        elif field.name != "dataset":  # the trainer has its own
            assert a == b


def places(values: dict, above: tuple = ()):
    """The path of names to each value of a dict of dicts."""
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from places(value, (*above, name))


def changed(checkpoint: Checkpoint, place: tuple, change) -> Checkpoint:
    """A copy, changed by `change`, which gets the dict that holds the place, and the last name."""
    values = copy.deepcopy(vars(checkpoint))
    holder = values
    for name in place[:-1]:
        holder = holder[name]
    change(holder, place[-1])
    return Checkpoint(**values)


PLACES = list(places({
    "step": 0,
    "best_loss": 1.0,
    "architecture": "causal",
    "config": dataclasses.asdict(TransformerConfig()),
    "training": dataclasses.asdict(TrainingConfig()),
    "dataset": {"task": None, "path": None, "sha256": "", "tokenizer": {}},
    "generators": {"batches": np.random.PCG64(0).state, "minigrad": np.random.PCG64(0).state},
}))


@pytest.mark.parametrize("share", shares(3))
def test_values_of_any_type(use, trained, share):
    wrong = []
    for i, place in enumerate(PLACES):
        values = VALUES[(i + 1) % share :: share]
        errors = [use(changed(trained, place, lambda holder, name, value=value: holder.__setitem__(name, value)))
                  for value in values]
        if sum(error is not None for error in errors) < len(values) // 2:
            wrong.append((place, errors))
    assert not wrong


def test_missing_and_unknown_values(use, trained):
    required = [place for place in PLACES if len(place) > 1 and place[-1] not in NEWER]
    assert not [place for place in required if use(changed(trained, place, lambda holder, name: holder.pop(name))) is None]
    for place in ("config", "training"):
        assert "experts" in use(changed(trained, (place, "experts"), lambda holder, name: holder.__setitem__(name, 8)))


ARRAYS = {
    "dropped": (lambda array: None, True),
    "complex": (lambda array: array.astype(np.complex64), True),
    "half": (lambda array: array.astype(np.float16), "optimizer"),  # a model may be stored so
    "other float": (lambda array: array.astype(np.float64), True),
    "bool": (lambda array: array.astype(bool), True),
    "text": (lambda array: array.astype("U5"), True),
    "unsigned": (lambda array: array.astype(np.uint64), True),
    "another axis": (lambda array: array[None], True),
    "longer": (lambda array: np.concatenate([array.reshape(-1, 1)] * 2), True),
    "empty": (lambda array: array.reshape(-1)[:0], True),
    "NaN": (lambda array: np.full_like(array, np.nan if array.dtype.kind == "f" else -1), True),
    "infinite": (lambda array: np.full_like(array, -np.inf if array.dtype.kind == "f" else 3), True),
    "other byte order": (lambda array: array.astype(array.dtype.newbyteorder(">")), False),
    "columns first": (lambda array: array.copy(order="F"), False),
}


@pytest.mark.parametrize("share", shares(4))
@pytest.mark.parametrize("group", Checkpoint.ARRAYS)
def test_arrays_of_any_kind(group, share, use, trained):
    good = getattr(trained, group)
    for (kind, (change, is_wrong)), (name, array) in [*itertools.product(ARRAYS.items(), good.items())][::share]:
        arrays = {key: value for key, value in (good | {name: change(array)}).items() if value is not None}
        error = use(dataclasses.replace(trained, **{group: arrays}))
        assert (error is not None) == (is_wrong in (True, group)), (kind, name)
        if group == "optimizer" and is_wrong:
            assert f"its optimizer/{name} is" in error or f"its optimizer/{name} contains" in error
    for name in ["blocks.1.ln_1.weight", "9.step", "x", ".", ""]:
        assert use(dataclasses.replace(trained, **{group: good | {name: np.zeros(3, np.float32)}})), "one too many"


def test_bad_moments(use, trained):
    optimizer = trained.optimizer | {"0.exp_avg_sq": -trained.optimizer["0.exp_avg_sq"]}
    assert "its optimizer/0.exp_avg_sq is not from 0 to inf" in use(dataclasses.replace(trained, optimizer=optimizer))
    assert use(dataclasses.replace(trained, optimizer={}))
    assert use(dataclasses.replace(trained, step=0))
    assert use(dataclasses.replace(trained, step=0, optimizer={})) is None


HEADERS = [
    lambda header: [header], lambda header: 5, lambda header: {},
    lambda header: header | {"format": None}, lambda header: header | {"format": "minigrad checkpoint 1"},
    lambda header: {name: value for name, value in header.items() if name != "step"},
    lambda header: {name: value for name, value in header.items() if name != "arrays"},
    lambda header: header | {"more": 1}, lambda header: header | {"model": {}},
    *(lambda header, arrays=arrays: header | {"arrays": arrays}
      for arrays in (None, 5, "x", [], [1], {"model/x": 1}, [None])),
    lambda header: header | {"arrays": header["arrays"][:-1]}, lambda header: header | {"arrays": header["arrays"] * 2},
    lambda header: header | {"arrays": header["arrays"][::-1]},
]
HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }"
MEMBERS = [  # of the zip: (name, content), the header first
    lambda members: members[:-1], lambda members: members[1:],
    lambda members: [*members, ("more.npy", members[-1][1])], lambda members: [*members, ("model/more.npy", members[-1][1])],
    lambda members: [(name, b"") for name, _ in members], lambda members: [(name, content[:-1]) for name, content in members],
    lambda members: [*members[:-1], (members[-1][0], b"\x93NUMPY\x01\x00v\x00" + HUGE.ljust(117) + b"\n")],
]


def test_headers_and_members(use, trained):
    assert use(trained) is None
    with zipfile.ZipFile(use.path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    name, content = members[0]
    header = json.loads(np.load(io.BytesIO(content)).tobytes())
    texts = [json.dumps(change(header)).encode() for change in HEADERS] + [b"", b"x", b"\xff", b"[" * 100_000, b"1" * 10_000, b"NaN"]
    for text in texts:
        np.save(file := io.BytesIO(), np.frombuffer(text, np.uint8))
        use.rewrite([(name, file.getvalue()), *members[1:]])
        assert use.go_on(use.path) is not None, text
    for change in MEMBERS:
        use.rewrite(change(members))
        assert use.go_on(use.path) is not None


CONFIGS = [
    *(dict(placement=placement) for placement in PLACEMENTS), dict(bias=False), dict(final_norm=False), dict(layers=0),
    dict(positions="relative"), dict(positions="rotary"), dict(positions="none"), dict(mlp_ratio=1),
    dict(dtype="float64"), dict(activation="relu", width=12, layers=3),
    dict(norm="rms_norm", norm_eps=1e-6, activation="swiglu", positions="rotary", key_value_heads=1, head_size=6,
         hidden_width=20, tied=False, rotary_base=5e5, rotary_scaling="llama3:8:1:4:8192", bias=False),
]


@pytest.mark.parametrize("share", shares(3))
def test_every_model_is_resumed(share, use, corpus):
    sizes = dict(vocabulary_size=len(corpus.tokenizer), context=8, layers=2, heads=2, width=8)
    for fields in CONFIGS[::-share]:
        trainer = Trainer(CausalTransformer(TransformerConfig(**sizes | fields)), corpus, TrainingConfig(steps=5, batch_size=2))
        assert use(trainer.checkpoint()) is None
        trainer.train_step()
        assert use(trainer.checkpoint()) is None


def test_a_model_of_other_sizes_than_the_arrays_is_not_built(use, trained, monkeypatch):
    def build(self, config):
        raise AssertionError(f"built {config}")

    monkeypatch.setattr(CausalTransformer, "__init__", build)
    for fields in (dict(layers=10 ** 7), dict(layers=9999), dict(width=10 ** 9), dict(context=10 ** 9),
                   dict(hidden_width=None, mlp_ratio=10 ** 9), dict(layers=9999, width=1, heads=1), dict(hidden_width=10 ** 9),
                   dict(head_size=10 ** 9), dict(heads=10 ** 9, head_size=1)):
        assert use(dataclasses.replace(trained, config=trained.config | fields))


def test_arrays_of_other_shapes_are_another_architecture(use, trained, tmp_path):
    for name, shape in ("ln_f.weight", 4), ("token_embedding.weight", 92), ("position_embedding.weight", ()):
        model = trained.model | {name: np.ones(shape, np.float32)}
        assert "is from another architecture" in use(dataclasses.replace(trained, model=model))
        with pytest.raises(CheckpointError, match="is from another architecture"):
            models.load(tmp_path)


def test_bad_vocabularies(use, trained):
    symbols = trained.dataset["tokenizer"]["symbols"]
    for other, says in ((symbols[:-1], "its model has 11 tokens, its tokenizer 10"),
                        (symbols[:-1] + "\ud800", "its dataset.tokenizer is")):
        dataset = trained.dataset | {"tokenizer": {"kind": "characters", "symbols": other}}
        assert says in use(dataclasses.replace(trained, dataset=dataset))


# ---- models.load ----

SMALL = TransformerConfig(context=32, layers=1, heads=2, width=8, dropout=0.5)


@pytest.mark.parametrize("name", ("copy", "addition", "bank", "stripes"))
def test_models_of_a_task(name, tmp_path):
    """Each architecture has the same logits once loaded, without dropout."""
    task = TASKS[name]
    for architecture in ARCHITECTURES[task.kind]:
        trainer = Trainer(make_model(task, architecture, SMALL), task, TrainingConfig.of(task, steps=1, batch_size=2), architecture)
        trainer.train_step()
        checkpoints.save(tmp_path, trainer.checkpoint())
        model = models.load(tmp_path)
        assert type(model) is type(trainer.model) and not model.training and model.config == trainer.model.config
        assert model.tokenizer is task
        batch = [mg.tensor(array) for array in task.arguments(task.examples(3))]
        np.testing.assert_array_equal(model(*batch)[0].array, trainer.model.eval()(*batch)[0].array)


def test_fields_that_older_checkpoints_lack_have_their_defaults(trained):
    newer = {"rotary_scaling", "optimizer", "muon_lr", "muon_momentum"}
    older = dataclasses.replace(trained, **{config: {name: value for name, value in getattr(trained, config).items()
                                                     if name not in newer} for config in ("config", "training")})
    assert len(older.config | older.training) == len(trained.config | trained.training) - len(newer)
    assert model_config(older) == model_config(trained) and training_config(older) == training_config(trained)
    del older.training["lr"], older.config["heads"]
    for make, lacking in ((training_config, "lr"), (model_config, "heads")):
        all_refused(make, [(older, f"holds a model that this version does not know (it lacks {lacking})")], CheckpointError)


def test_damaged_tasks_and_architectures(tmp_path):
    task = TASKS["copy"]
    checkpoint = Trainer(make_model(task, None, SMALL), task, TrainingConfig.of(task), "encoder-decoder").checkpoint()
    all_refused(lambda changes: models.load(checkpoints.save(tmp_path, dataclasses.replace(checkpoint, **changes))), [
        ({"architecture": "oracle"}, "so model must be one of encoder-decoder, causal, rnn, rnn-attention, got 'oracle'"),
        ({"architecture": "rnn"}, f"{tmp_path / checkpoints.NAME} is from another architecture"),
        ({"architecture": "rnn", "config": checkpoint.config | {"norm": "rms_norm"}}, "is damaged: norm makes no sense for a recurrent network"),
        ({"dataset": {"task": "fly"}}, "its dataset.task is 'fly', expected the name of a task or null"),
        ({"dataset": {"task": "translation"}}, "its model has 13 tokens, its tokenizer"),
        ({"dataset": {"task": "bank"}}, "its model has 13 tokens, its tokenizer"),
        ({"config": checkpoint.config | {"layers": 0}}, "layers must be at least 1, got 0"),
        ({"config": checkpoint.config | {"layers": 9999}}, "a model of 9999 layers and width 8 has many more"),
        ({"best_loss": float("nan")}, "its best_loss is nan, expected a number"),
    ], CheckpointError)
