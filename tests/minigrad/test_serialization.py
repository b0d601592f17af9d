"""mg.save and mg.load: values come back bit for bit; unsupported values and damaged files are refused."""
import errno
import math
import os
import pickle

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.serialization import FORMAT, write_archive


def assert_same(a, b) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    elif isinstance(a, (mg.Tensor, np.ndarray, np.generic)):
        a, b = (x.array if isinstance(x, mg.Tensor) else np.asarray(x) for x in (a, b))
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    else:
        assert a == b or math.isnan(a) and math.isnan(b)


@pytest.mark.parametrize("value", [
    None, True, 3, -10 ** 400, 0.1, math.nan, -math.inf, "", "naïve 🙂 \ud800", [], {}, (), [[], [{}]],
    {"a": [1, (2, "3"), {"b": None}], 5: False, "list": [], "dict": {"tuple": 1}},
    mg.tensor([[1.5, -0.0], [math.nan, math.inf]]), mg.tensor(3), mg.tensor([True]), mg.zeros(0, 4),
    mg.tensor(1e-300, dtype=mg.float64), np.arange(6, dtype=np.int8).reshape(2, 3).T, np.zeros((2, 0)), np.array("text"),
    np.array([1j]), np.float32(0.1), np.int64(7),
    {"tensor": "0", "array": np.arange(3)},
], ids=repr)
def test_round_trip(value, tmp_path):
    mg.save(value, tmp_path / "x")
    assert_same(mg.load(tmp_path / "x"), value)
    assert os.listdir(tmp_path) == ["x"]


def test_parameters_come_back_as_tensors(tmp_path):
    mg.save([nn.Parameter(mg.ones(2))], tmp_path / "x")
    assert type(mg.load(tmp_path / "x")[0]) is mg.Tensor


in_itself: list = []
in_itself.append(in_itself)


@pytest.mark.parametrize("value, says", [
    ({1, 2}, "mg.save cannot store obj, a set; expected dicts, lists"),
    ({"a": [0, b"x"]}, "mg.save cannot store obj['a'][1], a bytes"),
    ({"a": nn.Linear(1, 1)}, "mg.save cannot store obj['a'], a Linear"),
    ((np.array([None]),), "mg.save cannot store obj[0], a ndarray"),
    (1j, "a complex"),
    ({"a": {(1, 2): 3}}, "mg.save cannot store obj['a'] with the key (1, 2); expected strings or ints as keys"),
    (in_itself, "nested too deeply, or contains itself"),
], ids=lambda value: type(value).__name__)
def test_what_cannot_be_stored(value, says, tmp_path):
    mg.save("before", tmp_path / "x")
    with pytest.raises((TypeError, ValueError)) as caught:
        mg.save(value, tmp_path / "x")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert mg.load(tmp_path / "x") == "before" and os.listdir(tmp_path) == ["x"]


def test_paths_that_are_not_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="is a folder, pipe, socket or device, not a file"):
            mg.save(1, path)
    with pytest.raises(ValueError, match="is a pipe, socket or device, not a file"):
        mg.load(tmp_path / "pipe")
    for act in (lambda: mg.save(1, tmp_path / "none" / "x"), lambda: mg.load(tmp_path / "none" / "x")):
        with pytest.raises(FileNotFoundError) as caught:
            act()
        assert caught.value.filename in (str(tmp_path / "none" / "x"), tmp_path / "none" / "x")
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    mg.save("before", tmp_path / "x")

    def refuse(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left on device") as caught:
        mg.save("after", tmp_path / "x")
    assert caught.value.filename == str(tmp_path / "x") and mg.load(tmp_path / "x") == "before"
    assert os.listdir(tmp_path) == ["x"]


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "x"
    mg.save({"w": mg.arange(10), "name": "nano"}, path)
    content = path.read_bytes()
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=f"^{path} is "):
            mg.load(path)
    for position in range(0, 8 * len(content), 7):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            assert_same(mg.load(path), {"w": mg.arange(10), "name": "nano"})  # a bit that means nothing
        except ValueError as error:
            assert str(error).startswith(f"{path} is ") and "\n" not in str(error)


def test_files_from_elsewhere(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="is not an .npz file"):
        mg.load(path)
    with open(path, "wb") as file:
        np.savez(file, header=np.frombuffer(b'{"format": "other", "arrays": []}', np.uint8))
    with pytest.raises(ValueError, match="is from another version: its format is .*, not"):
        mg.load(path)


@pytest.mark.parametrize("value", [{"tensor": "5"}, {"pickle": "0"}, {}, {"a": 1, "b": 2}, {"dict": [[[], 1]]}, {"dict": 5},
                                   {"scalar": []}, {"bfloat16": "float32"}])
def test_headers_that_make_no_sense(value, tmp_path):
    with open(tmp_path / "x", "wb") as file:
        write_archive(file, {"format": FORMAT, "value": value}, {"float32": np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="its header makes no sense"):
        mg.load(tmp_path / "x")
