"""What files written for PyTorch need, each broken in turn: devices, dtypes, generators, loaders, DLPack, in-place forms."""
import nn.left_out
from minigrad.extend.left_out import FUNCTIONS
from sabotage.base import Sabotage
from sabotage.edit import edit, edits

NAMES = ("tests/minigrad/test_pytorch_names.py",)
DLPACK = ("tests/minigrad/arrays/test_dlpack.py",)
DATA = ("tests/nn/test_data.py",)
LEFT_OUT = ("tests/test_left_out.py",)
CONTIGUOUS = ("tests/minigrad/test_contiguous.py", "-k", "view or shape0")
COMPOSED = ("tests/minigrad/test_composed.py", "-k", "scatter or addc or stack or ravel")

SABOTAGES: list[Sabotage] = [
    *edits(NAMES, "minigrad.arrays.devices", {
        "device: any is taken": ("device", "type not in", "'cpu' not in"),
        "device: any number is taken": ("device", "index not in (None, 0)", "False"),
        "to: a device in device= is not looked at": ("dtype_of_to", "        device(to_device)\n", "        pass\n"),
        "to: a number is no device": ("dtype_of_to", "(device, int)", "device"),
        "to: the dtype after a device is lost": ("dtype_of_to", "dtype = target if dtype is None else dtype", "dtype = target"),
    }),
    *edits(NAMES, "minigrad.creation", {
        "new tensors: device is not looked at": ("_with_options", "        checked_device(device)\n", "        pass\n"),
        "draws: the generator is ignored": ("_drawn", "random.generator(generator)", "random.generator()"),
        "draws: the dtype is ignored": ("_drawn", "*arrays), dtype)", "*arrays))"),
        "new tensors: no dtype is float64": ("_floating", "float32 if dtype is None else ", ""),
        "normal: means are ignored": ("normal", "generator.normal(mean,", "generator.normal(0 * mean,"),
        "normal: always float32": ("normal", "next((x.dtype for", "next((float32 for"),
        "new tensors: size= is ignored": ("_shape", "shape if size is None else (*shape, size)", "shape"),
        "randint: the shape as upper bound": ("randint", "isinstance(high, (tuple, list))", "False"),
        "randperm: any n": ("randperm", "n < 0", "False"),
        "as_tensor: a copy": ("as_tensor", "_given(data, dtype, None)", "_given(data, dtype, True)"),
        "as_tensor: dtype of a tensor is ignored": ("as_tensor", "data.to(dtype, device=device)", "data"),
    }),
    *edits(NAMES, "minigrad.random", {
        "Generator: starts differently each time": ("Generator", "self.manual_seed(67280421310721)", "self._seed = 0"),
        "Generator: the seed is ignored": ("_start", "PCG64(int(seed))", "PCG64(int(seed) * 0)"),
        "Generator: set_state does nothing": (
            "Generator.set_state", "self.numpy_generator.bit_generator.state = state", "pass"),
        "Generator: anything is one": ("generator", "not isinstance(own, Generator)", "False"),
    }),
    *edits(NAMES, "minigrad.ops.dtypes", {
        "to: copy is ignored": ("DtypeMethods.to", "self.clone() if copy", "self if copy"),
    }),
    *edits(NAMES, "minigrad.ops.in_place", {
        "in place: a new tensor": ("InPlaceMethods.exp_", "self.write(", "("),
        "normal_: std ignored": ("InPlaceMethods.normal_", "(mean, std,", "(mean, 1.0,"),
        "normal_: generator ignored": ("InPlaceMethods.normal_", "random.generator(generator)", "random.generator()"),
        "uniform_: low ignored": ("InPlaceMethods.uniform_", "uniform(low,", "uniform(0.0,"),
        "exponential_: the mean for the rate": ("InPlaceMethods.exponential_", "1 / lambd", "lambd"),
        "bernoulli_: the other way round": ("InPlaceMethods.bernoulli_", ") < p)", ") >= p)"),
        "bernoulli_: p is not looked at": ("InPlaceMethods.bernoulli_", "not 0 <= p <= 1", "False"),
        "exponential_: any rate": ("InPlaceMethods.exponential_", "not lambd > 0", "False"),
        "draws in place: of integers too": ("InPlaceMethods._drawn_anew", 'self.dtype.kind != "f"', "False"),
    }),
    *edits(NAMES, "minigrad.ops.multinomial", {
        "multinomial: generator ignored": ("_drawn", "random.generator(own)", "random.generator()"),
        "bernoulli: the other way round": ("_tossed", ") < probabilities)", ") > probabilities)"),
        "bernoulli: probabilities are not looked at": ("_tossed", "not (is_float and probabilities.min(initial=0.0) == 0 and probabilities.max(initial=1.0) == 1)", "False"),
    }),
    *edits(NAMES, "minigrad.autograd.grad_mode", {
        "inference_mode(False): as True": ("inference_mode", "self.mode = not mode", "self.mode = False"),
        "inference_mode: as enable_grad where it decorates": ("inference_mode._new", "not self.mode", "self.mode"),
    }),
    *edits(NAMES, "nn.module", {
        "Module.to: device ignored": ("Module.to", "dtype, device)", "dtype)"),
    }),
    *edits(COMPOSED, "minigrad.ops.gather", {
        "scatter: a number of another kind changes the dtype": ("GatherMethods.scatter", "common_dtype(self, operand(src)) != self.dtype != bool_", "False"),
        "scatter: dtypes are not compared": ("GatherMethods.scatter", "src.dtype != self.dtype", "False"),
        "scatter: all of src": ("_used", "src[tuple(slice(n) for n in indices.shape)]", "src"),
        "scatter: src may be too small": ("_used", "any(n > m for n, m in zip(indices.shape, src.shape))", "False"),
        "scatter: a number may stand nowhere twice": ("GatherMethods.scatter", ", is_checked=True", ""),
    }),
    *edits(COMPOSED, "minigrad.ops.arithmetic", {
        "addcmul: value ignored": ("ArithmeticMethods.addcmul", ", value)", ", 1)"),
        "addcdiv: value ignored": ("ArithmeticMethods.addcdiv", ", value)", ", 1)"),
    }),
    *edits(COMPOSED, "minigrad.ops.shape", {
        "hstack: along the first axis": ("hstack", "tensors[0].ndim == 1", "True"),
        "hstack: numbers are no vectors": ("hstack", "t if t.ndim else t.reshape(1)", "t"),
        "vstack: a vector is a column": ("vstack", "t.reshape(1, -1)", "t.reshape(-1, 1)"),
    }),
    *edits(CONTIGUOUS, "minigrad.ops.shape", {
        "view: a copy": ("ShapeMethods.view", "if not", "if False and not"),
        "view: of what is not contiguous is refused": (
            "ShapeMethods.view", " and not np.may_share_memory(out._array, self._array)", ""),
    }),
    *[Sabotage(f"contiguous: {name} is not", CONTIGUOUS, edit(f"minigrad.{place}", old, new)) for name, (place, old, new) in {
        "softmax": ("fast.softmax:Softmax.forward", "in_order(", "("),
        "a sum": ("ops.reduce:Sum.forward", "in_order(", "("),
        "what is picked by indices": ("ops.indexing:Index.forward", "in_order(", "("),
        "masked_fill": ("ops.comparison:ComparisonMethods.masked_fill", ".contiguous()", ""),
        "einsum": ("ops.einsum:Einsum.forward", "in_order(out)", "out"),
    }.items()],
    *edits(DLPACK, "minigrad.arrays.dlpack", {
        "dlpack: what learns is given away": ("_check_constant", "tensor.requires_grad", "False"),
        "dlpack: NumPy may write": ("exported", "array.flags.writeable = False", "pass"),
        "dlpack: the tensor itself becomes read-only": ("exported", "tensor._values().view()", "tensor._values()"),
        "dlpack: backwards through memory": ("exported", "any(stride < 0 for stride in array.strides)", "False"),
        "dlpack: an array is imported anew": ("imported", "if isinstance(source, np.ndarray) else", "if False else"),
        "dlpack: a copy": ("imported", "np.asarray(source)", "np.array(source)"),
        "dlpack: any dtype": ("imported", "array.dtype not in (float32, float64, int64, bool_)", "False"),
        "dlpack: a tensor that learns is imported": ("imported", "        _check_constant(source)\n", "        pass\n"),
        "dlpack: any device": ("_taken", "source.__dlpack_device__()[0] != CPU_TYPE", "False"),
        "dlpack: NumPy's own errors": ("_taken", "except (RuntimeError, TypeError) as error", "except ZeroDivisionError as error"),
        "dlpack: a captured step gives its memory": ("exported", "tensor._values()", "tensor._array"),
    }),
    *edits(LEFT_OUT, "minigrad.extend.left_out", {
        "left out: no reason": ("left_out", "if name in reasons", "if False"),
        "left out: of the first of several names": ("left_out", "for name in names.split()", "for name in names.split()[:1]"),
        "left out: nothing to guess from": ("left_out", ", obj=sys.modules[module]", ""),
    }),
    *(Sabotage(f"left out: {names} is in no table", LEFT_OUT, lambda table=table, names=names: table.pop(names))
      for table, names in ((FUNCTIONS, "xlogy"), (nn.left_out.LEFT_OUT["nn"], "GLU"),
                           (nn.left_out.LEFT_OUT["nn.functional"], "gumbel_softmax"))),
    Sabotage("left out: what is there", LEFT_OUT, lambda: FUNCTIONS.update({"cumsum": "take a loop"})),
    Sabotage("left out: take what is not there", LEFT_OUT, lambda: FUNCTIONS.update({"xlogy": "take mg.x_log_y"})),
    *edits(DATA, "nn.utils.data", {
        "DataLoader: the last batch always": ("DataLoader._cut", "or not self.drop_last", "or True"),
        "DataLoader: the last batch never": ("DataLoader._cut", "or not self.drop_last", ""),
        "DataLoader: length without the last": ("DataLoader.__len__", "if self.drop_last else -(-n // self.batch_size)", ""),
        "DataLoader: length ignores the sampler": ("DataLoader.__len__", "self.dataset if self.sampler is None else self.sampler",
            "self.dataset"),
        "DataLoader: never shuffles": ("DataLoader._order", "if self.shuffle else", "if False else"),
        "DataLoader: generator ignored": ("DataLoader._order", "generator=self.generator", "generator=None"),
        "DataLoader: sampler ignored": ("DataLoader._order", "self.sampler is not None", "False"),
        "DataLoader: workers are taken": ("DataLoader", "num_workers != 0", "False"),
        "DataLoader: collate_fn ignored": ("DataLoader._batch", "self.collate_fn is not None", "False"),
        "DataLoader: a subset as the whole": (
            "DataLoader._batch", "dataset, positions = dataset.dataset, [dataset.indices[i] for i in positions]",
            "dataset = dataset.dataset"),
        "random_split: in order": ("random_split", "mg.randperm(n, generator=generator).tolist()", "list(range(n))"),
        "random_split: generator ignored": ("random_split", "generator=generator", "generator=None"),
        "random_split: what is left over is lost": ("random_split", "range(n - sum(lengths))", "range(0)"),
        "random_split: all left over for the first": ("random_split", "lengths[i % len(lengths)]", "lengths[0]"),
        "random_split: lengths are not added up": ("random_split", "sum(lengths) != n", "False"),
        "default_collate: floats as float32": ("default_collate", "dtype=mg.float64", "dtype=mg.float32"),
        "default_collate: a named tuple as a list": ("default_collate", 'hasattr(first, "_fields")', "False"),
        "default_collate: the shortest decides": (
            "default_collate", "any(len(sample) != len(first) for sample in batch)", "False"),
        "ConcatDataset: positions are not counted anew": (
            "ConcatDataset.__getitem__", "index - (self.ends[which - 1] if which else 0)", "index"),
        "ConcatDataset: no bounds": ("ConcatDataset.__getitem__", "not -len(self) <= index < len(self)", "False"),
        "TensorDataset: of arrays": ("TensorDataset", "not all(isinstance(tensor, Tensor) for tensor in tensors)", "False"),
        "TensorDataset: of any lengths": ("TensorDataset", "any(len(tensor) != len(tensors[0]) for tensor in tensors)", "False"),
    }),
]
