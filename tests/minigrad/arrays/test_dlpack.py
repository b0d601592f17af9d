"""Memory shared with NumPy and PyTorch: without copies, in any layout; what the tape notices, and what is refused."""
import re

import numpy as np
import pytest

import minigrad as mg

ARRAYS = {
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3), "float64": np.arange(3.0), "int64": np.arange(4),
    "bool": np.array([[True], [False]]), "0-d": np.array(2.5), "empty": np.zeros((0, 3), np.float32),
    "transposed": np.arange(6.0).reshape(2, 3).T, "every other": np.arange(10.0)[1::2],
    "a column": np.arange(6, dtype=np.float32).reshape(2, 3)[:, 1], "spread": np.broadcast_to(np.float32(3), (2, 2)),
}


def address(array) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("name", ARRAYS)
def test_numpy_gives_and_takes_memory(name):
    array = ARRAYS[name]
    tensor = mg.from_dlpack(array)
    assert tensor.dtype == array.dtype and tensor.shape == array.shape and not tensor.requires_grad
    back = np.from_dlpack(tensor)
    assert address(tensor.array) == address(back) == address(array)
    assert (back == array).all() and back.shape == array.shape and (back.strides == array.strides or not array.size)


def test_values_written_here_are_seen_there_and_numpy_cannot_write():
    x = mg.zeros(3)
    array = np.from_dlpack(x)
    x.data[1] = 5.0
    assert array.tolist() == [0, 5, 0]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    x[0] = 1.0  # which leaves x itself as it was
    assert array[0] == 1.0


def test_a_library_that_knows_no_read_only_memory_gets_it_all_the_same():
    x = mg.ones(2)
    assert "dltensor" in str(x.__dlpack__())
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="readonly"):  # a write to one element would change several
        x[:1].expand(2).__dlpack__()


@pytest.mark.parametrize("write", [
    lambda tensor, array: tensor.add_(1.0), lambda tensor, array: tensor.data.__setitem__(0, 7.0),
    lambda tensor, array: mg.from_dlpack(array).data.__setitem__(0, 7.0), lambda tensor, array: mg.from_dlpack(tensor).fill_(0),
    lambda tensor, array: mg.from_dlpack(array[1:]).mul_(2.0),
], ids=["in place", "data", "another import", "an import of the tensor", "of a part"])
def test_the_tape_notices_writes_through_any_tensor_of_the_memory(write):
    array = np.arange(3.0)
    tensor = mg.from_dlpack(array)
    w = mg.ones(3, dtype=mg.float64, requires_grad=True)
    product = (w * tensor).sum()
    write(tensor, array)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_memory_that_is_only_read_is_not_written_to():
    array = np.zeros(2)
    array.flags.writeable = False
    tensor = mg.from_dlpack(array)
    with pytest.raises(RuntimeError, match="this memory cannot be written to"):
        tensor.add_(1.0)
    assert (tensor + 1).tolist() == [1, 1]


class Elsewhere:
    def __dlpack__(self, **options):
        raise AssertionError("asked for memory of another device")

    def __dlpack_device__(self):
        return 2, 0


def test_what_cannot_be_shared_is_refused_in_one_line():
    learning = mg.ones(2, requires_grad=True)
    for take in (np.from_dlpack, mg.from_dlpack):
        for tensor in (learning, learning * 2):
            with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach()"):
                take(tensor)
    with pytest.raises(BufferError, match=re.escape("this tensor of shape (2,) has negative strides; clone() it")):
        np.from_dlpack(mg.from_numpy(np.arange(2.0)[::-1]))
    with pytest.raises(BufferError, match="this Elsewhere is on another device than"):
        mg.from_dlpack(Elsewhere())
    for value, name in ((3.0, "float"), ([1.0], "list"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"expected an array or a tensor.* got {name}"):
            mg.from_dlpack(value)
    for dtype in (np.float16, np.int32, np.uint8, np.complex64, ">f4", "U1", "datetime64[s]", object):
        with pytest.raises(TypeError, match=re.escape(f"not {np.dtype(dtype)}; convert it first")):
            mg.from_dlpack(np.zeros(2, dtype))


def test_a_captured_step_does_not_give_its_memory_away(kernels):
    with pytest.raises(RuntimeError, match="compile: this step reads the values"):
        mg.compile(lambda x: mg.from_numpy(np.from_dlpack(x * 2)))(mg.ones(2))


@pytest.mark.parametrize("name", ARRAYS)
def test_pytorch_gives_and_takes_memory(name):
    torch = pytest.importorskip("torch")
    array = ARRAYS[name].copy(order="K") if name != "spread" else ARRAYS[name]
    tensor = mg.from_dlpack(array)
    there = torch.from_dlpack(tensor)
    assert there.data_ptr() == address(array) or not array.size
    assert there.tolist() == array.tolist() and str(there.dtype) == f"torch.{array.dtype}"
    theirs = torch.as_strided(torch.arange(12), (2, 3), (1, 4)) if name == "transposed" else torch.tensor(array.copy())
    here = mg.from_dlpack(theirs)
    assert here.shape == tuple(theirs.shape) and here.tolist() == theirs.tolist()
    if theirs.numel():
        assert here.data_ptr() == theirs.data_ptr() and here.stride() == theirs.stride()
        here.fill_(1)
        assert bool((theirs == 1).all())


def test_pytorch_memory_that_cannot_be_taken():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="require grad"):
        mg.from_dlpack(torch.ones(2, requires_grad=True))
    for dtype in (torch.float8_e4m3fn, torch.bfloat16):
        with pytest.raises(TypeError, match="from_dlpack: NumPy cannot read this Tensor; tensors hold float32"):
            mg.from_dlpack(torch.ones(2).to(dtype))
    with pytest.raises(TypeError, match="not float16"):
        mg.from_dlpack(torch.ones(2, dtype=torch.float16))
    with pytest.raises(BufferError, match="negative strides"):  # the process would end
        torch.from_dlpack(mg.from_numpy(np.arange(6.0).reshape(2, 3)[::-1]))
