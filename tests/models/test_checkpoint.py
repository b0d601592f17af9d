"""Checkpoint files: round trips, damage, and saves that are killed or fail without losing the checkpoint before."""
import contextlib
import dataclasses
import errno
import gzip
import itertools
import os
import pathlib
import pickle
import resource

import numpy as np
import pytest

from minigrad.serialization import write_archive
from models import checkpoint as checkpoints
from minigrad.extend import to_bfloat16
from models.checkpoint import Checkpoint, CheckpointError, load, save
from models.loading import load as load_model
from models.loading import training_config
from models.train import Trainer
from refusals import all_refused


def example(step: int, size: int = 5) -> Checkpoint:
    generator = np.random.default_rng(step)
    return Checkpoint(
        step=step, best_loss=1 / 3, architecture="causal", config={"width": 8}, training={"lr": 0.001},
        dataset={"task": None, "path": None, "sha256": "0" * 64, "tokenizer": {"kind": "characters", "symbols": "\nab"}},
        generators={name: np.random.PCG64(step).state for name in ("batches", "minigrad")},
        model={"w.weight": generator.normal(size=(3, size)).astype(np.float32), "scalar": np.array(2.5)},
        optimizer={"moments": generator.normal(size=(2, size)), "none": np.zeros((0, 4), np.int64)},
    )


def assert_same(a: Checkpoint, b: Checkpoint) -> None:
    for field in dataclasses.fields(Checkpoint):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if field.name in Checkpoint.ARRAYS:
            assert list(x) == list(y)
            x = [(v.dtype, v.shape, v.tobytes()) for v in x.values()]
            y = [(v.dtype, v.shape, v.tobytes()) for v in y.values()]
        assert x == y, field.name


def test_save_and_load_round_trip(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, example(step))
    assert sorted(os.listdir(tmp_path)) == [checkpoints.NAME, checkpoints.PREVIOUS]
    assert save(tmp_path, example(1), checkpoints.BEST) == tmp_path / checkpoints.BEST
    for step, run, best in ((3, tmp_path, False), (3, tmp_path / checkpoints.NAME, False), (2, tmp_path / checkpoints.PREVIOUS, False),
                            (1, tmp_path, True)):
        assert_same(load(run, best), example(step))
    (tmp_path / checkpoints.BEST).unlink()
    all_refused(lambda run: load(run, best=True), [
        (tmp_path, f"holds no {checkpoints.BEST}; give the folder of a run"),
        (tmp_path / checkpoints.NAME, "is not a folder; give the folder of a run")], CheckpointError)
    content = save(tmp_path, example(1)).read_bytes()
    assert save(tmp_path, example(1)).read_bytes() == content, "the same state has the same bytes"


@pytest.mark.parametrize("narrow, error", [(to_bfloat16, 2**-8), (np.float16, 2**-11)])
def test_a_model_in_two_bytes_is_read_as_float32(narrow, error, tmp_path):
    written, ids = example(1), np.arange(3, dtype=np.uint16)
    weight = written.model["w.weight"]
    save(tmp_path, dataclasses.replace(written, model={"w": narrow(weight)}, optimizer={"ids": ids}))
    read = load(tmp_path)
    assert read.model["w"].dtype == np.float32 and np.all(np.abs(read.model["w"] - weight) <= error * np.abs(weight))
    assert read.optimizer["ids"].dtype == np.uint16


def test_a_save_removes_stale_temporary_files(tmp_path):
    (tmp_path / ".checkpoint.npz-123.tmp").write_bytes(b"half")
    save(tmp_path, example(1))
    assert os.listdir(tmp_path) == [checkpoints.NAME]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_any_change_of_the_folder_leaves_a_checkpoint(tmp_path, monkeypatch, when):
    class Killed(BaseException):
        pass

    for moment in range(4):
        folder = tmp_path / str(moment)
        folder.mkdir()
        save(folder, example(1))
        save(folder, example(2))
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            moments = itertools.count()
            for name in ("replace", "fsync"):
                def change(*paths, call=getattr(os, name), moments=moments, moment=moment, **options):
                    is_now = next(moments) == moment
                    if not is_now or when == "after":
                        call(*paths, **options)
                    if is_now:
                        raise Killed

                patch.setattr(os, name, change)
            save(folder, example(3))
            pytest.fail("it was not killed")
        assert_same(load(folder), example(3 if moment + (when == "after") > 2 else 2))


def error_of(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


def test_a_flipped_bit_in_any_array_is_noticed(tmp_path):
    save(tmp_path, example(1))
    path = save(tmp_path, example(1, size=100))
    content = path.read_bytes()
    for array in (*example(1, size=100).model.values(), example(1, size=100).optimizer["moments"]):
        damaged = bytearray(content)
        damaged[content.index(array.tobytes()) + array.nbytes // 2] ^= 4
        path.write_bytes(damaged)
        message = error_of(path)
        assert "is damaged (Bad CRC-32" in message and f"use the one before it: {tmp_path / checkpoints.PREVIOUS}" in message


def test_other_files(tmp_path):
    pickled, archive, objects = (tmp_path / name for name in ("a.npz", "b.npz", "c.npz"))
    pickled.write_bytes(pickle.dumps({"model": [1, 2]}))
    np.savez(archive, weight=np.ones(3))
    np.savez(objects, header=np.array([{"format": checkpoints.FORMAT}], dtype=object))
    assert "is not an .npz file, or only part of one; give a checkpoint.npz that" in error_of(pickled)
    assert "is damaged (\"There is no item named 'header.npy'" in error_of(archive)
    assert "Object arrays cannot be loaded" in error_of(objects)
    with open(tmp_path / "old.npz", "wb") as file:
        write_archive(file, {"format": "minigrad checkpoint 2"}, {})
    assert error_of(tmp_path / "old.npz").endswith(
        "is from another version: its format is 'minigrad checkpoint 2', not 'minigrad checkpoint 3'; use the version of "
        "minigrad that wrote it, or train again")
    assert "does not exist" in error_of(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert f"holds no {checkpoints.NAME}; give the folder of a run" in error_of(tmp_path / "empty")
    (tmp_path / "empty/config.json").write_text("{}")
    assert "it is a Hugging Face folder, for `minigrad train --init-from` and `minigrad sample`, without --best" in error_of(tmp_path / "empty")


@contextlib.contextmanager
def file_size_limit():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def failing(holder, name: str, code: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holder, name, lambda *_, **options: (_ for _ in ()).throw(OSError(code, os.strerror(code))))
        yield


@pytest.mark.parametrize("disk, says", [
    (file_size_limit(), "File too large"), (failing(os, "fsync", errno.ENOSPC), "No space left on device"),
    (failing(os, "fsync", errno.EACCES), "Permission denied"),
], ids=["file too large", "full", "no permission"])
def test_a_save_that_fails_loses_nothing(tmp_path, disk, says):
    save(tmp_path, example(1))
    save(tmp_path, example(2))
    with disk:
        all_refused(lambda size: save(tmp_path, example(3, size)), [(50_000, f"cannot save {tmp_path / checkpoints.NAME}: {says}")],
                    CheckpointError)
    assert_same(load(tmp_path), example(2))
    assert_same(load(tmp_path / checkpoints.PREVIOUS), example(1))
    assert sorted(os.listdir(tmp_path)) == [checkpoints.NAME, checkpoints.PREVIOUS]


def test_a_first_save_that_fails_leaves_nothing(tmp_path):
    with failing(np.lib.format, "write_array", errno.ENOSPC), pytest.raises(CheckpointError) as caught:
        save(tmp_path, example(1))
    assert str(caught.value) == (f"cannot save {tmp_path / checkpoints.NAME}: No space left on device; there is no "
                                 "previous checkpoint: free some space or make the folder writable, then start again")
    assert os.listdir(tmp_path) == []


def test_pipes_devices_and_long_names(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", pathlib.Path(os.devnull)):
        assert "is a pipe, socket or device, not a file" in error_of(path)
    os.mkfifo(tmp_path / checkpoints.NAME)
    assert f"holds no {checkpoints.NAME}" in error_of(tmp_path)
    long = error_of(tmp_path / ("x" * 300))
    assert "File name too long" in long or "does not exist" in long  # which Path.exists says since Python 3.14


GROUPED = pathlib.Path(__file__).with_name("grouped_heads.npz.gz")
# Three steps of: minigrad train --task reverse --model causal --steps 6 --layers 1 --heads 4 --width 8 --hidden-width 8 --context 17
# --batch-size 4 --eval-every 3 --eval-windows 4 --optimizer muon --positions relative --key-value-heads 2 --no-decay-all


def test_queries_keys_and_values_in_three_matrices_are_packed(tmp_path):
    """A checkpoint of an earlier version goes on with the losses that it had there."""
    (tmp_path / checkpoints.NAME).write_bytes(gzip.decompress(GROUPED.read_bytes()))
    checkpoint, model = load(tmp_path), load_model(tmp_path).train()
    trainer = Trainer(model, model.tokenizer, training_config(checkpoint))
    trainer.restore(checkpoint)
    steps = [trainer.train_step()["loss"] for _ in range(3)]
    np.testing.assert_allclose(steps, [2.928590774536133, 2.6240100860595703, 2.7272632122039795], rtol=1e-6)
