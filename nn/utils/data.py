"""Datasets and batches: a dataset is anything with __getitem__ and __len__, and a DataLoader iterates over it.

>>> import minigrad as mg
>>> x, y = mg.arange(10).float().unsqueeze(1), mg.arange(10)
>>> for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=4):
...     print(inputs.shape, labels.tolist())
(4, 1) [0, 1, 2, 3]
(4, 1) [4, 5, 6, 7]
(2, 1) [8, 9]
"""
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Protocol

import numpy as np

import minigrad as mg
from minigrad import Generator, Tensor
from nn.checks import positive_int


class Samples(Protocol):
    """What a DataLoader iterates over: a Dataset with a length, a list, an array, ..."""

    def __getitem__(self, index: int, /) -> Any: ...
    def __len__(self) -> int: ...


class Dataset:
    """Samples by position: a subclass has __getitem__ and __len__."""

    def __getitem__(self, index: int) -> Any:
        """The sample at this position."""
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__(): define it in the class")


class TensorDataset(Dataset):
    """Sample i is the tuple of the i-th rows of all tensors."""

    def __init__(self, *tensors: Tensor):
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TypeError(f"TensorDataset: expected Tensors, got {', '.join(type(t).__name__ for t in tensors)}; "
                            "minigrad.from_numpy converts arrays")
        if not tensors or any(len(tensor) != len(tensors[0]) for tensor in tensors):
            raise ValueError(f"TensorDataset: expected tensors of equal length, got {[t.shape for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The samples at these positions of another dataset."""

    def __init__(self, dataset: Samples, indices: Sequence[int]):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Samples, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Split a dataset at random into parts without overlap, with these lengths, or fractions that add up to 1.

    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    n = len(dataset)
    lengths = list(lengths)
    if math.isclose(sum(lengths), 1):
        lengths = [math.floor(n * fraction) for fraction in lengths]
        for i in range(n - int(sum(lengths))):  # the remainder, one by one
            lengths[i % len(lengths)] += 1
    if sum(lengths) != n or any(length < 0 or length != int(length) for length in lengths):
        raise ValueError(f"random_split: expected lengths that add up to {n}, the number of samples, or fractions that add "
                         f"up to 1, got {lengths}")
    order, ends = mg.randperm(n, generator=generator).tolist(), itertools.accumulate(map(int, lengths))
    return [Subset(dataset, order[end - int(length) : end]) for end, length in zip(ends, lengths)]


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples: tensors, arrays and numbers are stacked along a new first axis, in the samples' own structure.

    Tuples, lists and strings become lists, mappings dicts, and Python floats float64, as in PyTorch.

    >>> default_collate([{"x": mg.zeros(3), "y": 1}, {"x": mg.ones(3), "y": 2}])["y"]
    tensor([1, 2])
    """
    if not batch:
        raise ValueError("default_collate: expected at least one sample, got an empty batch")
    first = batch[0]
    if isinstance(first, Tensor):
        return mg.stack(batch)
    if isinstance(first, float) and not isinstance(first, np.generic):
        return mg.tensor(batch, dtype=mg.float64)
    if isinstance(first, (bool, int, np.generic, np.ndarray)):
        return mg.tensor(np.stack(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            raise ValueError(f"default_collate: samples of one batch have {sorted(set(map(len, batch)))} elements; give a "
                             "collate_fn that combines them")
        columns = [default_collate(column) for column in zip(*batch)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(f"default_collate: expected tensors, arrays, numbers, strings, dicts, tuples or lists, got "
                    f"{type(first).__name__}; give a collate_fn that combines them")


class Sampler:
    """The order of one epoch: a subclass has __iter__, which yields positions (or lists of them, for batch_sampler=)."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__(): define it in the class")


class RandomSampler(Sampler):
    """num_samples positions of a dataset, by default as many as it has, in random order: each once, or with replacement.

    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator: Generator | None = None):
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        count = len(data_source) if num_samples is None else num_samples
        self.num_samples: int = positive_int("RandomSampler", "num_samples", count)

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        if self.replacement:
            return iter(mg.randint(n, (self.num_samples,), generator=self.generator).tolist())
        rounds = -(-self.num_samples // n)
        orders = (mg.randperm(n, generator=self.generator).tolist() for _ in range(rounds))
        return itertools.islice(itertools.chain.from_iterable(orders), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


def in_batches(values: Iterable[int], batch_size: int, drop_last: bool) -> Iterator[list[int]]:
    """Positions in lists of batch_size; a shorter last one is kept or dropped."""
    values = iter(values)
    while batch := list(itertools.islice(values, batch_size)):
        if len(batch) == batch_size or not drop_last:
            yield batch


class DataLoader:
    """Iterates over a dataset in batches, once per epoch, in order or shuffled by the global or the given generator.

    `sampler` yields positions in another order, `batch_sampler` lists of them; `collate_fn` makes a batch from a list of
    samples. With batch_size=None there are no batches. Everything runs in this process: what PyTorch's
    `num_workers`, `persistent_workers`, `prefetch_factor`, `worker_init_fn` and `pin_memory` ask for is ignored.
    """

    def __init__(
        self, dataset: Samples, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[int] | None = None, batch_sampler: Iterable[Sequence[int]] | None = None, num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False, *,
        generator: Generator | None = None, worker_init_fn: Callable[[int], Any] | None = None,
        persistent_workers: bool = False, prefetch_factor: int | None = None,
    ):
        if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
            raise ValueError(f"DataLoader: batch_size must be a positive integer or None, got {batch_size!r}")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        if shuffle and sampler is not None:
            raise ValueError("DataLoader: shuffle excludes sampler")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: without batches (batch_size=None) there is no last one to drop")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle: bool = bool(shuffle)
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is not None:
            return map(self._batch, self.batch_sampler)
        if self.batch_size is None:
            return map(self.collate_fn or (lambda sample: sample), (self.dataset[i] for i in self._order()))
        return map(self._batch, in_batches(self._order(), self.batch_size, self.drop_last))

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        n = len(self.dataset if self.sampler is None else self.sampler)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def _order(self) -> Iterable[int]:
        """The positions of one epoch."""
        if self.sampler is not None:
            return self.sampler
        n = len(self.dataset)
        return mg.randperm(n, generator=self.generator).tolist() if self.shuffle else range(n)

    def _batch(self, positions: Sequence[int]) -> Any:
        dataset: Any = self.dataset
        positions = list(positions)
        if self.collate_fn is not None:
            return self.collate_fn([dataset[i] for i in positions])
        while type(dataset) is Subset:
            positions = [dataset.indices[i] for i in positions]
            dataset = dataset.dataset
        if type(dataset) is TensorDataset:  # all rows at once: 25 times faster than one by one
            return list(dataset[positions])
        return default_collate([dataset[i] for i in positions])
