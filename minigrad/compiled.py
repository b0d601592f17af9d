"""A computation recorded once and replayed: the same kernels on the same memory, without the tape and without layers."""
import functools
import threading
from typing import Any, Callable, Sequence

import numpy as np

from . import float_errors, recording, tape, watchers
from .kernels.jit import get_num_threads
from .tensor import Tensor, wrap

MOST_RECORDINGS = 8  # of one step: for as many shapes of inputs; then the oldest goes


def compile(function: Callable) -> "Compiled":
    """A faster form of `function(*tensors)`, such as a training step: recorded at the first call, and then replayed.

    A replay copies the inputs to where those of the recording lie and makes the same calls again: the results have the
    same bits. What costs time in between, and more than the kernels if the model is tiny, is left out: layers, checks,
    the tape, fresh memory. The function takes Tensors and returns one, or a tuple of them, or None; results come back
    as copies, off the tape. It may call backward(), an optimizer's step() and zero_grad(). Gradients stay in their
    places: what `p.grad` refers to is overwritten by the next call, so clone() what you want to keep.

    A recording holds for inputs of the same shapes and dtypes and the same number of threads, while the parameters are
    the same objects, and until a module's train() or eval() is called; then there is a new one. What Python decides is
    decided while recording, so Python must not look at values then: a RuntimeError says where the step does (item(), an
    if, a write in place, a hook, create_graph). Other things that Python reads, as a number in a closure, stay as they
    were: call `forget()` when they change. Under detect_anomaly() and count_flops() nothing is replayed.

    >>> import minigrad as mg
    >>> w = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> @mg.compile
    ... def step(x):
    ...     loss = (w * x).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> step(mg.tensor([1.0, 1.0])), step(mg.tensor([3.0, 1.0])).item()  # recorded, replayed
    (tensor(5.), 13.0)
    >>> w.grad  # accumulated: [2, 4] + [18, 4]
    tensor([20.,  8.])
    """
    return Compiled(function)


class Compiled:
    """What `compile` returns."""

    def __init__(self, function: Callable):
        self.function = function
        self._recordings: dict[tuple, _Recording] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *inputs: Tensor) -> Any:
        if recording.state.recorder is not None or watchers.state.watchers:  # within another recording, or watched
            return self.function(*inputs)
        key = tuple([(x.array.shape, x.array.dtype) if isinstance(x, Tensor) else self._refuse(x) for x in inputs])
        key += threading.get_ident(), get_num_threads(), tape.mode.enabled
        known = self._recordings.get(key)
        if known is not None and known.is_current():
            return known.replay(inputs)
        self._recordings.pop(key, None)
        result, known = record(self.function, inputs)
        self._recordings[key] = known
        if len(self._recordings) > MOST_RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        return result

    def forget(self) -> None:
        """Record anew at the next call: something has changed that Python reads while recording."""
        self._recordings.clear()

    def _refuse(self, value: Any) -> None:
        raise TypeError(f"compile: a compiled step takes Tensors, got {type(value).__name__}; wrap arrays and numbers "
                        "with minigrad.tensor, or let the step read them from outside if they never change")


class _Recording:
    """One recording, with the arrays of its inputs and results."""

    def __init__(self, recorder: recording.Recorder, inputs: Sequence[np.ndarray], results: Any):
        self.pool, self.calls, self.arrivals = recorder.pool, recorder.calls, recorder.arrivals
        self.sources = list({id(source[0]): source for source in recorder.sources}.values())
        self.inputs, self.results = inputs, results
        self.generation = recording.generation

    def is_current(self) -> bool:
        """Does what it was recorded with still hold?"""
        if self.generation != recording.generation:
            return False
        for tensor, array, node in self.sources:
            if tensor.array is not array or tensor.node is not node:
                return False
        return True

    @float_errors.ignored
    def replay(self, inputs: Sequence[Tensor]) -> Any:
        for array, tensor in zip(self.inputs, inputs):
            array[...] = tensor.array
        self._set_gradients_apart()
        for function, arguments in self.calls:
            function(*arguments)
        return copied(self.results)

    def _set_gradients_apart(self) -> None:
        """Gradients of the last replay that were not cleared are to be added to, and their place is about to be used."""
        for node, array in self.arrivals:
            gradient = node.grad
            if gradient is not None and (gradient if isinstance(gradient, np.ndarray) else gradient.array) is array:
                node.grad = array.copy()


def record(function: Callable, inputs: Sequence[Tensor]) -> tuple[Any, _Recording]:
    """function(*inputs), and what it did."""
    for x in inputs:
        if x.requires_grad:
            raise RuntimeError("compile: an input of a compiled step requires a gradient; let the step read it from "
                               "outside, as parameters are read")
    arrays = [x.array.copy() for x in inputs]
    with recording.Recorder() as recorder:
        results = function(*[wrap(recording.Closed(array)) for array in arrays])
    results = opened_results(results, bool(recorder.arrivals))
    known = _Recording(recorder, arrays, results)
    return copied(results), known


def opened_results(results: Any, is_differentiated: bool) -> Any:
    """The arrays of Tensors that a step returned."""
    if results is None:
        return None
    if isinstance(results, (tuple, list)):
        return tuple(opened_results(result, is_differentiated) for result in results)
    if not isinstance(results, Tensor):
        raise TypeError(f"compile: a compiled step returns Tensors, got {type(results).__name__}")
    if results.requires_grad and not is_differentiated:
        raise RuntimeError("compile: a replay's results are off the tape, and this step calls no backward(); call it "
                           "inside, or compute under no_grad()")
    return recording.opened(results.array)


def copied(results: Any) -> Any:
    """Tensors with copies of the results."""
    if isinstance(results, tuple):
        return tuple(map(copied, results))
    return None if results is None else wrap(results.copy())
