"""Checkpoints whose checksums are right and whose content is not: one line of error, or what they say is what is done."""
import copy
import dataclasses
import io
import json
import math
import zipfile

import numpy as np
import pytest

from models import CausalTransformer, CheckpointError, Trainer, TrainingConfig, TransformerConfig, load_corpus
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from models.loading import NEWER, model_config, training_config
from models.transformer import PLACEMENTS

VALUES = [None, True, -1, 1.5, 1, 10 ** 7, 10 ** 400, math.nan, math.inf, "", "x", "ba", "a\ud800", "a\0", [], ["a"], {},
          {"a": 1}]


@pytest.fixture(scope="module")
def corpus(text_file):
    return load_corpus(str(text_file), context=8)


@pytest.fixture(scope="module")
def trained(corpus) -> Checkpoint:
    """After two steps of a model with 9 arrays."""
    config = TransformerConfig(vocabulary_size=len(corpus.tokenizer), context=8, layers=1, heads=2, width=8, bias=False)
    trainer = Trainer(CausalTransformer(config), corpus, TrainingConfig(steps=5, batch_size=2))
    trainer.train_step()
    trainer.train_step()
    return copy.deepcopy(trainer.checkpoint())


@pytest.fixture
def use(corpus, tmp_path):
    """A function that goes on with a checkpoint, and returns the error, or None and has made sure that all of it counts."""
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

    save_and_go_on.path, save_and_go_on.go_on = tmp_path / checkpoints.NAME, go_on
    return save_and_go_on


def assert_same(one: Checkpoint, two: Checkpoint) -> None:
    for field in dataclasses.fields(Checkpoint):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if field.name in Checkpoint.ARRAYS:
            assert all(np.array_equal(a[name], b[name]) for name in a.keys() | b.keys())
        elif field.name != "dataset":  # the trainer brings its own
            assert a == b


def test_a_good_one(use, trained):
    assert use(trained) is None


def places(values: dict, above: tuple = ()):
    """The names that lead to each value of a dict of dicts."""
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from places(value, (*above, name))


def changed(checkpoint: Checkpoint, place: tuple, change) -> Checkpoint:
    """A copy; `change` is called with the dict that holds the place, and the last name."""
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


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_values_of_any_type(place, use, trained):
    errors = [use(changed(trained, place, lambda holder, name, value=value: holder.__setitem__(name, value)))
              for value in VALUES]
    assert sum(error is not None for error in errors) >= len(VALUES) // 2


REQUIRED = [place for place in PLACES if len(place) > 1 and place[-1] not in NEWER]


@pytest.mark.parametrize("place", REQUIRED, ids=".".join)
def test_missing_values(place, use, trained):
    error = use(changed(trained, place, lambda holder, name: holder.pop(name)))
    assert error is not None


@pytest.mark.parametrize("place", ["config", "training"])
def test_unknown_fields(place, use, trained):
    assert "experts" in use(changed(trained, (place, "experts"), lambda holder, name: holder.__setitem__(name, 8)))


ARRAYS = {
    "dropped": (lambda array: None, True),
    "complex": (lambda array: array.astype(np.complex64), True),
    "half": (lambda array: array.astype(np.float16), True),
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


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("group", Checkpoint.ARRAYS)
def test_arrays_of_any_kind(group, kind, use, trained):
    change, is_wrong = ARRAYS[kind]
    for name, array in getattr(trained, group).items():
        arrays = dict(getattr(trained, group))
        arrays[name] = change(array)
        arrays = {key: value for key, value in arrays.items() if value is not None}
        error = use(dataclasses.replace(trained, **{group: arrays}))
        assert (error is not None) == is_wrong, name
        if group == "optimizer" and is_wrong:
            assert f"its optimizer/{name} is" in error or f"its optimizer/{name} holds" in error


@pytest.mark.parametrize("group, names", [("model", ["blocks.1.ln_1.weight", "x", ""]),
                                          ("optimizer", ["9.step", "x", ".", ""])])
def test_arrays_too_many(group, names, use, trained):
    for name in names:
        assert use(dataclasses.replace(trained, **{group: getattr(trained, group) | {name: np.zeros(3, np.float32)}}))


def test_squares_that_are_negative(use, trained):
    optimizer = trained.optimizer | {"0.exp_avg_sq": -trained.optimizer["0.exp_avg_sq"]}
    assert "its optimizer/0.exp_avg_sq is not from 0 to inf" in use(dataclasses.replace(trained, optimizer=optimizer))


def test_moments_before_the_first_step_or_none_after_it(use, trained):
    assert use(dataclasses.replace(trained, optimizer={}))
    assert use(dataclasses.replace(trained, step=0))
    assert use(dataclasses.replace(trained, step=0, optimizer={})) is None


def rewrite(path, header=None, members=None) -> None:
    """Write the zip anew, with another header or other members {name: bytes}."""
    with zipfile.ZipFile(path) as archive:
        old = [(name, archive.read(name)) for name in archive.namelist()]
    if header is not None:
        file = io.BytesIO()
        np.save(file, np.frombuffer(header, np.uint8))
        old[0] = (old[0][0], file.getvalue())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in old if members is None else members(old):
            archive.writestr(zipfile.ZipInfo(name), content)


@pytest.mark.parametrize("change", [
    lambda header: [header],
    lambda header: 5,
    lambda header: {},
    lambda header: header | {"format": None},
    lambda header: header | {"format": "minigrad checkpoint 1"},
    lambda header: {name: value for name, value in header.items() if name != "step"},
    lambda header: {name: value for name, value in header.items() if name != "arrays"},
    lambda header: header | {"more": 1},
    lambda header: header | {"model": {}},
    *(lambda header, arrays=arrays: header | {"arrays": arrays}
      for arrays in (None, 5, "x", [], [1], {"model/x": 1}, [None])),
    lambda header: header | {"arrays": header["arrays"][:-1]},
    lambda header: header | {"arrays": header["arrays"] * 2},
    lambda header: header | {"arrays": header["arrays"][::-1]},
])
def test_headers(change, use, trained):
    assert use(trained) is None
    with zipfile.ZipFile(use.path) as archive:
        header = json.loads(np.load(io.BytesIO(archive.read("header.npy"))).tobytes())
    rewrite(use.path, json.dumps(change(header)).encode())
    assert use.go_on(use.path) is not None


@pytest.mark.parametrize("header", [b"", b"x", b"\xff", b"[" * 100_000, b"1" * 10_000, b"NaN"])
def test_headers_that_are_no_json(header, use, trained):
    assert use(trained) is None
    rewrite(use.path, header)
    assert use.go_on(use.path) is not None


HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }"


@pytest.mark.parametrize("members", [
    lambda members: members[:-1],
    lambda members: members[1:],
    lambda members: [*members, ("more.npy", members[-1][1])],
    lambda members: [*members, ("model/more.npy", members[-1][1])],
    lambda members: [(name, b"") for name, _ in members],
    lambda members: [(name, content[:-1]) for name, content in members],
    lambda members: [*members[:-1], (members[-1][0], b"\x93NUMPY\x01\x00v\x00" + HUGE.ljust(117) + b"\n")],
])
def test_members(members, use, trained):
    assert use(trained) is None
    rewrite(use.path, members=members)
    assert use.go_on(use.path) is not None


@pytest.mark.parametrize("fields", [
    *(dict(placement=placement) for placement in PLACEMENTS), dict(bias=False), dict(final_norm=False), dict(layers=0),
    dict(positions="relative"), dict(positions="rotary"), dict(positions="none"), dict(mlp_ratio=1),
    dict(dtype="float64"), dict(activation="relu", width=12, layers=3),
    dict(norm="rms_norm", norm_eps=1e-6, activation="swiglu", positions="rotary", key_value_heads=1, head_size=6,
         hidden_width=20, tied=False, rotary_base=5e5, rotary_scaling="llama3:8:1:4:8192", bias=False),
])
def test_every_model_counts_its_parameters_and_comes_back(fields, use, corpus):
    sizes = dict(vocabulary_size=len(corpus.tokenizer), context=8, layers=2, heads=2, width=8)
    config = TransformerConfig(**sizes | fields)
    trainer = Trainer(CausalTransformer(config), corpus, TrainingConfig(steps=5, batch_size=2))
    assert use(trainer.checkpoint()) is None
    trainer.train_step()
    assert use(trainer.checkpoint()) is None


def test_sizes_that_were_not_saved_are_not_built(use, trained, monkeypatch):
    def build(self, config):
        raise AssertionError(f"built {config}")

    monkeypatch.setattr(CausalTransformer, "__init__", build)
    for fields in (dict(layers=10 ** 7), dict(layers=9999), dict(width=10 ** 9), dict(context=10 ** 9),
                   dict(mlp_ratio=10 ** 9), dict(layers=9999, width=1, heads=1), dict(hidden_width=10 ** 9),
                   dict(head_size=10 ** 9), dict(heads=10 ** 9, head_size=1)):
        assert use(dataclasses.replace(trained, config=trained.config | fields))


def test_another_model_is_another_architecture(use, trained):
    model = trained.model | {"ln_f.weight": np.ones(4, np.float32), "token_embedding.weight": np.ones(92, np.float32)}
    assert "is from another architecture" in use(dataclasses.replace(trained, model=model))


def test_vocabularies_that_do_not_fit_or_cannot_be_printed(use, trained):
    symbols = trained.dataset["tokenizer"]["symbols"]
    for other, says in ((symbols[:-1], "its model has 11 tokens, its tokenizer 10"),
                        (symbols[:-1] + "\ud800", "its dataset.tokenizer is")):
        dataset = trained.dataset | {"tokenizer": {"kind": "characters", "symbols": other}}
        assert says in use(dataclasses.replace(trained, dataset=dataset))
