"""Datasets and loaders: what each batch holds."""
import collections

import numpy as np
import pytest

import minigrad as mg
from nn.utils.data import DataLoader, Dataset, RandomSampler, Subset, TensorDataset, default_collate, random_split


class Squares(Dataset):
    def __init__(self, n: int):
        self.n = n

    def __getitem__(self, index):
        return mg.tensor([float(index)]), index**2

    def __len__(self):
        return self.n


Point = collections.namedtuple("Point", "x y")


def labels(loader) -> list[list[int]]:
    return [batch[1].tolist() for batch in loader]


@pytest.mark.parametrize("dataset", [Squares(7), TensorDataset(mg.arange(7).float().unsqueeze(1), mg.arange(7) ** 2)],
                         ids=["own", "tensors"])
def test_batches(dataset):
    assert labels(DataLoader(dataset, 3)) == [[0, 1, 4], [9, 16, 25], [36]]
    assert labels(DataLoader(dataset, batch_size=3, drop_last=True)) == [[0, 1, 4], [9, 16, 25]]
    assert labels(DataLoader(dataset, sampler=[5, 2], batch_size=2)) == [[25, 4]]
    assert labels(DataLoader(dataset, batch_sampler=[[1], [2, 0]])) == [[1], [4, 0]]
    assert labels(DataLoader(Subset(Subset(dataset, [6, 5, 4]), [2, 0]), 2)) == [[16, 36]]
    for loader, n in ((DataLoader(dataset, 3), 3), (DataLoader(dataset, 3, drop_last=True), 2),
                      (DataLoader(dataset, batch_size=None), 7), (DataLoader(dataset, batch_sampler=[[1], [2]]), 2),
                      (DataLoader(dataset, 2, sampler=[1, 2, 3]), 2), (DataLoader(dataset), 7)):
        assert len(loader) == n == len(list(loader))
    inputs, _ = next(iter(DataLoader(dataset, 3)))
    assert isinstance(inputs, mg.Tensor) and inputs.shape == (3, 1) and inputs.dtype == mg.float32
    assert [int(y) for _, y in DataLoader(dataset, batch_size=None)] == [n**2 for n in range(7)]
    assert list(DataLoader(dataset, 4, collate_fn=len)) == [4, 3]


def test_samplers():
    data, generator = Squares(7), mg.Generator().manual_seed(0)
    samplers = {  # sampler: its length, and what it may yield, how often at most
        RandomSampler(data, generator=generator): (7, range(7), 1),
        RandomSampler(data, num_samples=17): (17, range(7), 3),
        RandomSampler(data, replacement=True, num_samples=400): (400, range(7), 400),
    }
    for sampler, (n, positions, most) in samplers.items():
        drawn = list(sampler)
        assert len(drawn) == len(sampler) == n and max(map(drawn.count, positions)) <= most
        assert set(drawn) == set(positions) and all(type(i) is int for i in drawn)
        assert len(labels(DataLoader(data, 3, sampler=sampler))) == -(-n // 3)
    order = list(RandomSampler(Squares(50), generator=mg.Generator().manual_seed(3)))
    assert order == list(RandomSampler(Squares(50), generator=mg.Generator().manual_seed(3))) != sorted(order)
    with pytest.raises(ValueError, match="RandomSampler: num_samples must be a positive integer, got 0"):
        RandomSampler(data, num_samples=0)


def test_shuffling_follows_the_seed_or_the_generator():
    loader = DataLoader(Squares(50), 50, shuffle=True)
    mg.manual_seed(1)
    (first,), (second,) = labels(loader), labels(loader)
    mg.manual_seed(1)
    assert labels(loader) == [first] and first != second
    assert sorted(first) == sorted(second) == [n**2 for n in range(50)] != first
    generator = mg.Generator()
    loader = DataLoader(Squares(50), 50, shuffle=True, generator=generator)
    (first,) = labels(loader)
    mg.manual_seed(1)
    untouched = mg.rand(3).tolist()
    generator.manual_seed(generator.initial_seed())
    mg.manual_seed(1)
    assert labels(loader) == [first]
    assert mg.rand(3).tolist() == untouched


def test_a_split_has_no_overlap_and_leaves_nothing_out():
    for lengths, expected in (([6, 1, 3], [6, 1, 3]), ([0.5, 0.25, 0.25], [6, 2, 2]), ([1 / 3] * 3, [4, 3, 3]),
                              ([0.25] * 4, [3, 3, 2, 2]), ([10], [10]), ([1.0], [10])):
        parts = random_split(range(10), lengths, generator=mg.Generator().manual_seed(3))
        assert [len(part) for part in parts] == expected
        assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(10))
    again = random_split(range(10), [10], generator=mg.Generator().manual_seed(3))[0]
    assert again.indices == random_split(range(10), [1.0], mg.Generator().manual_seed(3))[0].indices != list(range(10))


def test_samples_of_any_structure_are_collated():
    sample = {"x": np.ones((2, 2), np.float32), "pair": (1.5, "a"), "point": Point(np.int64(3), True), "list": [mg.zeros(2)]}
    batch = default_collate([sample] * 3)
    assert batch["x"].shape == (3, 2, 2) and batch["x"].dtype == mg.float32
    assert batch["pair"][0].tolist() == [1.5] * 3 and batch["pair"][0].dtype == mg.float64
    assert batch["pair"][1] == ["a"] * 3
    assert isinstance(batch["point"], Point) and batch["point"].x.dtype == mg.int64 and batch["point"].y.dtype == mg.bool
    assert batch["list"][0].shape == (3, 2)
