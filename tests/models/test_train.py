"""The trainer on a text: losses, evaluation, steps of many parts, Muon, and norms by layer. test_task.py has its formulas, test_run.py the
folder of a run."""
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minigrad as mg
import naive
import naive_models
import nn
import nn.functional as F
from minigrad.implementations import implementations
from models import Trainer, TrainingConfig, TrainingError, train
from models.data import IGNORED, mean_loss
from models.distributed import ALONE, Alone, Ranks
from refusals import all_refused

# PyTorch's losses too, given the same parameters and batches.
FIRST_TEN_LOSSES = [2.445873, 2.413718, 2.414271, 2.397594, 2.385541, 2.398971, 2.380981, 2.376919, 2.368304, 2.354171]


def losses(trainer, steps=10) -> list[float]:
    return [trainer.train_step()["loss"] for _ in range(steps)]


def test_the_first_ten_losses_on_any_number_of_threads(make_trainer):
    several, threads = losses(make_trainer()), mg.get_num_threads()
    try:
        mg.set_num_threads(1)
        assert losses(make_trainer()) == several  # bit for bit
    finally:
        mg.set_num_threads(threads)
    np.testing.assert_allclose(several, FIRST_TEN_LOSSES, rtol=2e-5)  # vector widths differ from machine to machine


def test_evaluation_is_the_mean_over_all_tokens(make_trainer):
    trainer = make_trainer(eval_windows=1000)
    tokens = trainer.dataset.validation
    total = 0.0
    for first in range(0, len(tokens) - 1, 32):
        window = tokens[first:first + 33]
        _, loss = trainer.model(mg.tensor(window[None, :-1]), mg.tensor(window[None, 1:]))
        total += loss.item() * (len(window) - 1)
    loss = total / (len(tokens) - 1)
    assert trainer.evaluate() == pytest.approx({"val_loss": loss, "bits_per_byte": loss / math.log(2)}, rel=1e-6)


def test_evaluation_has_no_dropout_no_tape_and_eval_windows_windows(make_trainer):
    trainer, seen = make_trainer(dropout=0.5, eval_windows=10, batch_size=4), []
    trainer.model.register_forward_pre_hook(
        lambda module, args: seen.append((len(args[0]), module.training, mg.is_grad_enabled())))
    one, two = (trainer.evaluate() for _ in range(2))
    assert one == two and seen == [(8, False, False), (2, False, False)] * 2 and trainer.model.training


def test_a_validation_loss_that_is_not_finite_stops_the_training(make_trainer):
    trainer = make_trainer()
    trainer.model.ln_f.weight.data[0] = np.inf
    with pytest.raises(TrainingError, match="the validation loss became (nan|inf) at step 1"):
        trainer.evaluate()


V, T, C = 5, 4, 3  # of Bigram
STEPS = dict(seed=264, steps=10, lr=0.1, warmup_steps=2, max_grad_norm=0.05, beta2=0.9)
IGNORING = {  # a target's share of being ignored: that of all, that of a whole row, and that of a whole batch
    "none": (0, 0, 0), "targets": (0.5, 0, 0), "rows": (0.3, 0.4, 0), "batches": (0.3, 0.3, 0.4),
}


class Bigram(nn.Module):
    """Logits of the next token from the last one alone, so that a line of NumPy has their gradients."""

    config = SimpleNamespace(context=T, dtype="float64")

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(0)
        self.embedding = nn.Parameter(random.normal(size=(V, C)))
        self.read_out = nn.Parameter(random.normal(size=(V, C)))

    def forward(self, tokens: mg.Tensor, targets: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        logits = F.embedding(tokens, self.embedding) @ self.read_out.T
        return logits, F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1))


def draw(generator: np.random.Generator, size: int, ignoring: str) -> tuple[np.ndarray, np.ndarray]:
    tokens, targets = generator.integers(V, size=(2, size, T))
    drawn = [generator.random(shape) for shape in ((size, T), (size, 1), 1)]
    is_ignored = np.any([np.broadcast_to(x < share, (size, T)) for x, share in zip(drawn, IGNORING[ignoring])], axis=0)
    return tokens, np.where(is_ignored, IGNORED, targets)


def loss_and_gradients(embedding: np.ndarray, read_out: np.ndarray, batches: list) -> tuple[float, list[np.ndarray]]:
    """Of the mean over all targets that count."""
    tokens, targets = (np.concatenate([array.ravel() for array in arrays]) for arrays in zip(*batches))
    tokens, targets = (array[targets != IGNORED] for array in (tokens, targets))
    x, N = embedding[tokens], len(targets)
    p = naive.softmax(x @ read_out.T, 1)
    dlogits, dembedding = (p - np.eye(V)[targets]) / N, np.zeros_like(embedding)
    np.add.at(dembedding, tokens, dlogits @ read_out)
    return -np.log(p[np.arange(N), targets]).mean(), [dembedding, dlogits.T @ x]


class Together:
    """MPI of several ranks, each a thread: a sum waits for all."""

    def __init__(self, size: int):
        self.size, self.shown, self.barrier, self.own = size, {}, threading.Barrier(size, timeout=20), threading.local()

    @property
    def rank(self) -> int:
        return self.own.rank

    def allgather(self, own: Any) -> list[Any]:
        self.shown[self.rank] = own
        self.barrier.wait()
        everyone = [self.shown[rank] for rank in range(self.size)]
        self.barrier.wait()
        return everyone

    def Allreduce(self, own: np.ndarray, total: np.ndarray) -> None:
        total[...] = sum(self.allgather(own))

    def bcast(self, result: Any) -> Any:
        return self.allgather(result)[0]

    def run(self, function: Callable[[Ranks], Any]) -> list[Any]:
        """function(ranks) on each rank."""
        def of_rank(rank: int) -> Any:
            self.own.rank = rank
            return function(Ranks(self))

        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(of_rank, range(self.size)))


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("ranks, accumulation, sizes, ignoring", [
    (1, 1, (4, None), "none"), (1, 1, (4, 16), "none"), (1, 1, (4, 12), "rows"), (1, 3, (2, None), "none"), (1, 3, (2, 5), "targets"),
    (1, 3, (1, None), "batches"), (2, 1, (4, None), "none"), (2, 1, (4, 6), "rows"), (3, 1, (3, 12), "rows"), (2, 3, (2, 4), "batches"),
])
def test_ten_steps_are_those_of_one_big_batch(ranks, accumulation, sizes, ignoring, is_compiled):
    config = TrainingConfig(**STEPS, accumulation=accumulation, batch_size=sizes[0], final_batch_size=sizes[1])
    expected = [p.array.copy() for p in Bigram().parameters()]
    losses = naive_models.training(config, expected, lambda generator, size: draw(generator, size, ignoring),
                                   lambda batches: loss_and_gradients(*expected, batches))
    dataset = SimpleNamespace(ignored=IGNORED, batch=lambda generator, size, context: draw(generator, size, ignoring))

    def train(ranks: Alone) -> tuple[list[float], list[np.ndarray]]:
        trainer = Trainer(Bigram(), dataset, config, ranks=ranks)
        if not is_compiled:
            trainer._loss_and_gradients = trainer._loss_and_gradients.function
        return trainer.train(), [p.array for p in trainer.model.parameters()]

    for found, parameters in Together(ranks).run(train) if ranks > 1 else [train(ALONE)]:
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        for came, due in zip(parameters, expected, strict=True):
            np.testing.assert_allclose(came, due, rtol=0, atol=1e-12)


def test_nothing_to_learn_or_to_evaluate():
    ignored = np.zeros((2, T), int), np.full((2, T), IGNORED)
    trainer = Trainer(Bigram(), SimpleNamespace(ignored=IGNORED, batch=lambda *sizes: ignored), TrainingConfig(accumulation=2))
    with pytest.raises(TrainingError, match="^step 1 has nothing to learn: all its targets are -100, which does not count; give"):
        trainer.train_step()
    with pytest.raises(ValueError, match="^there is nothing to evaluate: all targets are -100, which does not count; give others$"):
        mean_loss(trainer.model, [ignored], IGNORED)
    counted = ignored[0], np.where(np.arange(T), IGNORED, ignored[0])
    assert mean_loss(trainer.model, [ignored, counted], IGNORED) == mean_loss(trainer.model, [counted], IGNORED)


def test_the_learning_rate_follows_each_annealing(make_trainer):
    for annealing, function in nn.optim.ANNEALING.items():
        trainer = make_trainer(steps=8, warmup_steps=2, lr=1e-2, final_lr=0.5, annealing=annealing)
        rates = [trainer.train_step()["lr"] for _ in range(8)]
        ends = 1e-2 if annealing == "constant" else 5e-3
        assert rates[2:] == pytest.approx([*(5e-3 + 5e-3 * function((step - 2) / 5) for step in range(2, 7)), ends]), annealing


def test_muon_trains_the_matrices_of_blocks_and_adamw_the_rest(make_trainer):
    trainer = make_trainer(optimizer="muon", muon_lr=0.1, muon_momentum=0.5, weight_decay=0.3, steps=8, warmup_steps=1)
    names = {parameter: name for name, parameter in trainer.model.named_parameters()}
    muon, adamw = trainer.optimizer.optimizers
    by_muon = {names[p]: group["blocks"] for group in muon.param_groups for p in group["params"]}
    of_block = {"attention.in_proj_weight": 6, "attention.out_proj.weight": 1, "mlp.expand.weight": 1, "mlp.project.weight": 1}
    assert by_muon == {f"blocks.{i}.{name}": parts for i in range(2) for name, parts in of_block.items()}
    assert {names[p] for group in adamw.param_groups for p in group["params"]} == set(names.values()) - by_muon.keys()
    assert all(group["momentum"] == 0.5 and group["weight_decay"] == 0.3 for group in muon.param_groups)
    for step in range(8):
        assert trainer.train_step()["lr"] == adamw.param_groups[0]["lr"]
        rates = [group["lr"] for group in trainer.optimizer.param_groups]
        assert rates == pytest.approx([100 * trainer.config.learning_rate_at(step)] * 2 + [rates[-1]] * 2)


def test_every_field_of_muon_changes_the_losses(make_trainer):
    for base, changes in (({}, dict(optimizer="muon")), (dict(optimizer="muon"), dict(muon_lr=1e-3)),
                          (dict(optimizer="muon"), dict(muon_momentum=0.5))):
        assert losses(make_trainer(warmup_steps=1, **base), 5) != losses(make_trainer(warmup_steps=1, **base | changes), 5)


def test_a_gradient_that_is_not_finite_stops_the_training(make_trainer, monkeypatch):
    trainer = make_trainer()
    monkeypatch.setattr(trainer.optimizer, "step", lambda: setattr(trainer.optimizer, "_grad_norm", math.inf))
    with pytest.raises(TrainingError, match="the norm of the gradient became inf at step 1"):
        trainer.train_step()


def test_tokens_per_second_counts_all_accumulated_batches(make_trainer, monkeypatch):
    trainer, clock = make_trainer(accumulation=3), iter([10.0, 12.0])
    monkeypatch.setattr("models.train.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert trainer.train_step()["tokens_per_second"] == 3 * 8 * 32 / 2


def test_layers_are_measured_about_twenty_times_in_a_run(make_trainer):
    for steps, eval_every, points in [(300, 100, 22), (2000, 250, 24), (5000, 250, 20), (100, 50, 10), (25, 100, 3), (9, 4, 3),
                                      (1, 100, 1)]:
        trainer = make_trainer(steps=steps, eval_every=eval_every)
        measured = list(filter(trainer.is_measured, range(1, steps + 1)))
        assert len(measured) == points and set(filter(trainer.is_stop, range(1, steps + 1))) <= set(measured)


def test_norms_of_gradients_and_updates_by_layer(make_trainer):
    trainer = make_trainer(eval_every=2, max_grad_norm=0.01, steps=3, warmup_steps=1)
    model, twin = trainer.model, make_trainer().model
    layers = {"token_embedding": "token_embedding.", "position_embedding": "position_embedding.", "blocks.0": "blocks.0.",
              "blocks.1": "blocks.1.", "ln_f": "ln_f."}
    for is_stop in (False, True, True):  # the second, and the last
        before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
        twin.load_state_dict(before)
        twin.zero_grad()
        batches = np.random.default_rng()
        batches.bit_generator.state = trainer.generator.bit_generator.state
        twin(*map(mg.tensor, trainer.dataset.batch(batches, 8, 32)))[1].backward()
        row = trainer.train_step()
        if not is_stop:
            assert row["layers"] is None
            continue
        assert list(row["layers"]) == list(layers)
        for layer, prefix in layers.items():
            names = [name for name in before if name.startswith(prefix)]
            gradient, update, weight = (math.sqrt(sum(float((np.float64(array) ** 2).sum()) for array in arrays)) for arrays in (
                [dict(twin.named_parameters())[name].grad.numpy() for name in names],
                [model.state_dict()[name].numpy() - before[name] for name in names], [before[name] for name in names]))
            assert row["layers"][layer]["grad_norm"] == pytest.approx(gradient, rel=1e-4)
            assert row["layers"][layer]["update_to_weight"] == pytest.approx(update / weight, rel=1e-4)
        total = math.sqrt(sum(layer["grad_norm"] ** 2 for layer in row["layers"].values()))
        assert row["grad_norm"] == pytest.approx(total, rel=1e-6)


def test_measuring_layers_changes_no_bit_and_is_only_done_at_its_steps(make_trainer, monkeypatch):
    measured = []
    monkeypatch.setattr(train, "FEWEST_BETWEEN", 4)
    monkeypatch.setattr(train, "LayerNorms", lambda layers, make=train.LayerNorms: measured.append(1) or make(layers))
    trainers, losses = [], []
    for every in (1, 100):
        trainers.append(make_trainer(eval_every=every, dropout=0.1))
        losses.append(trainers[-1].train())
    assert losses[0] == losses[1] and len(measured) == 10 + 3, "after each step; after 4, 8 and 10"
    for a, b in zip(*[trainer.model.parameters() for trainer in trainers], strict=True):
        np.testing.assert_array_equal(a.array, b.array)


def test_norms_of_frozen_empty_and_zero_layers():
    layers = {"zero": [nn.Parameter(mg.zeros(2))], "frozen": [nn.Parameter(mg.ones(2), requires_grad=False)], "none": []}
    layers["zero"][0].grad = mg.tensor([3.0, 4.0])
    before = train.LayerNorms(layers)
    layers["zero"][0].data[...] = 1
    assert before.measured() == {"zero": {"grad_norm": 5.0, "update_to_weight": None},
                                 "frozen": {"grad_norm": 0.0, "update_to_weight": 0.0},
                                 "none": {"grad_norm": 0.0, "update_to_weight": None}}
    layers["frozen"][0].data[...] = math.inf
    assert before.measured()["frozen"]["update_to_weight"] is None


def test_bad_configs():
    all_refused(lambda fields: TrainingConfig(**fields), [
        (dict(steps=0), "steps must be a whole number from 1"), (dict(steps=1.5), "steps must be"),
        (dict(batch_size=-3), "batch_size must be a whole number from 1"), (dict(eval_every=0), "eval_every must be"),
        (dict(seed=-1), "seed must be a whole number from 0"), (dict(lr=0.0), "lr must be more than 0 and at most 1, got 0.0"),
        (dict(lr=math.nan), "lr must be"), (dict(final_lr=2.0), "final_lr must be at least 0 and at most 1"),
        (dict(beta2=1.0), "beta2 must be at least 0 and less than 1"), (dict(weight_decay=-0.1), "weight_decay must be"),
        (dict(final_batch_size=11), "final_batch_size must be a whole number from 12"),
        (dict(optimizer="sgd"), "optimizer must be one of adamw, muon, got 'sgd'"),
        (dict(muon_lr=0.0), "muon_lr must be more than 0 and at most 1"),
        (dict(muon_momentum=1.0), "muon_momentum must be at least 0 and less than 1"),
        (dict(decay_all=1), "decay_all must be True or False, got 1"),
        (dict(label_smoothing=1.0), "label_smoothing must be at least 0 and less than 1"),
        (dict(max_grad_norm=0.0), "max_grad_norm must be more than 0 and finite"),
        (dict(max_grad_norm=math.nan), "max_grad_norm must be"), (dict(max_grad_norm=10 ** 400), "max_grad_norm must be"),
    ])


def test_precision_is_that_of_the_products(make_trainer, monkeypatch):
    plain, low = make_trainer(), make_trainer(precision="bfloat16")
    stepped, step = [], low.optimizer.step  # under autocast?
    monkeypatch.setattr(low.optimizer, "step", lambda: stepped.append(mg.is_autocast_enabled()) or step())
    rows = [(plain.train_step()["loss"], low.train_step()["loss"]) for _ in range(10)]
    assert all(0 < abs(a - b) < 2e-3 for a, b in rows), rows
    assert stepped == [True] * 10
    assert low.evaluate() != plain.evaluate() and not mg.is_autocast_enabled()
    for native, expected in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(train, "multiplies_bfloat16", lambda native=native: native)
        trainer = make_trainer(precision="auto")
        assert trainer.config.precision == trainer.checkpoint().training["precision"] == expected
        assert train.precision("auto", "float64") == "float32"


def test_precision_without_a_use_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="^precision bfloat16 needs a model in float32, and this one is in float64$"):
        train.precision("bfloat16", "float64")
    monkeypatch.delitem(implementations, mg.ops.matmul.MatMul)
    with pytest.raises(ValueError, match="^precision bfloat16: autocast: products in bfloat16 need the kernels, but Numba"):
        train.precision("bfloat16", "float32")
