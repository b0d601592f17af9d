import json

import pytest

import minigrad as mg
import nn
from nn.optim import (
    SGD, ConstantLR, CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, LRScheduler, MultiStepLR, StepLR, warmup_annealing,
)
from nn.optim.lr_scheduler import FactorLR


def make_optimizer():
    groups = [{"params": [nn.Parameter(mg.ones(1))]}, {"params": [nn.Parameter(mg.ones(1))], "lr": 0.5}]
    return SGD(groups, lr=1.0)


SCHEDULES = {
    "lambda": (lambda optimizer: LambdaLR(optimizer, lambda epoch: 0.5 ** epoch), [1, 0.5, 0.25, 0.125, 0.0625]),
    "lambda each": (lambda optimizer: LambdaLR(optimizer, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0]),
                    [1, 0.5, 1 / 3, 0.25, 0.2]),
    "cosine": (lambda optimizer: CosineAnnealingLR(optimizer, T_max=4), [1, 0.8535534, 0.5, 0.1464466, 0]),
    "cosine with floor": (lambda optimizer: CosineAnnealingLR(optimizer, T_max=2, eta_min=0.2), [1, 0.6, 0.2, 0.6, 1]),
    "step": (lambda optimizer: StepLR(optimizer, step_size=2), [1, 1, 0.1, 0.1, 0.01, 0.01]),
    "step with gamma": (lambda optimizer: StepLR(optimizer, 1, gamma=0.5), [1, 0.5, 0.25, 0.125]),
    "step to zero": (lambda optimizer: StepLR(optimizer, 2, gamma=0.0), [1, 1, 0, 0, 0, 0]),
    "milestones": (lambda optimizer: MultiStepLR(optimizer, [4, 1, 4]), [1, 0.1, 0.1, 0.1, 0.001, 0.001]),
    "milestones with gamma": (lambda optimizer: MultiStepLR(optimizer, [2], gamma=0.5), [1, 1, 0.5, 0.5]),
    "exponential": (lambda optimizer: ExponentialLR(optimizer, 0.5), [1, 0.5, 0.25, 0.125]),
    "linear": (lambda optimizer: LinearLR(optimizer), [1 / 3, 7 / 15, 9 / 15, 11 / 15, 13 / 15, 1, 1]),
    "linear down": (lambda optimizer: LinearLR(optimizer, 1.0, 0.0, 2), [1, 0.5, 0, 0]),
    "linear from to in": (lambda optimizer: LinearLR(optimizer, 0.2, 0.8, total_iters=3), [0.2, 0.4, 0.6, 0.8, 0.8]),
    "constant": (lambda optimizer: ConstantLR(optimizer), [1 / 3] * 5 + [1, 1]),
    "constant for two": (lambda optimizer: ConstantLR(optimizer, 0.25, total_iters=2), [0.25, 0.25, 1, 1]),
}


@pytest.mark.parametrize("make, expected", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_rates(make, expected):
    optimizer = make_optimizer()
    scheduler = make(optimizer)
    rates = []
    for _ in expected:
        rates.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        scheduler.step()
    assert rates == pytest.approx(expected, abs=1e-7)


PYTORCHS = {  # for (module of schedulers, optimizer)
    "LambdaLR": lambda m, o: [m.LambdaLR(o, lambda epoch: 0.9 ** epoch)],
    "CosineAnnealingLR": lambda m, o: [m.CosineAnnealingLR(o, 5)],
    "StepLR": lambda m, o: [m.StepLR(o, 3)],
    "StepLR gamma": lambda m, o: [m.StepLR(o, 2, gamma=0.7)],
    "MultiStepLR": lambda m, o: [m.MultiStepLR(o, [2, 3, 9])],
    "MultiStepLR gamma": lambda m, o: [m.MultiStepLR(o, [0, 4, 4], gamma=0.7)],
    "ExponentialLR": lambda m, o: [m.ExponentialLR(o, 0.8)],
    "LinearLR": lambda m, o: [m.LinearLR(o)],
    "LinearLR options": lambda m, o: [m.LinearLR(o, 0.9, 0.3, 7)],
    "ConstantLR": lambda m, o: [m.ConstantLR(o)],
    "ConstantLR options": lambda m, o: [m.ConstantLR(o, 0.7, 3)],
    "chained": lambda m, o: [m.ConstantLR(o, 0.1, 4), m.ExponentialLR(o, 0.9), m.LinearLR(o), m.StepLR(o, 5)],
}


@pytest.mark.parametrize("make", PYTORCHS.values(), ids=PYTORCHS)
def test_rates_are_pytorchs(make):
    torch = pytest.importorskip("torch")
    ours = make_optimizer()
    theirs = torch.optim.SGD([{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.5}], lr=1.0)
    schedulers, their_schedulers = make(nn.optim.lr_scheduler, ours), make(torch.optim.lr_scheduler, theirs)
    for _ in range(12):
        for group, their_group in zip(ours.param_groups, theirs.param_groups, strict=True):
            assert group["lr"] == pytest.approx(their_group["lr"], rel=1e-12)
        theirs.step()
        for scheduler in [*schedulers, *their_schedulers]:
            scheduler.step()


def test_a_rate_changed_by_hand_stays_changed():
    optimizer = make_optimizer()
    scheduler = ExponentialLR(optimizer, 0.5)
    optimizer.param_groups[0]["lr"] = 10.0
    scheduler.step()
    assert scheduler.get_last_lr() == [5.0, 0.25]


RESUMED = {
    "cosine": lambda optimizer, **o: CosineAnnealingLR(optimizer, T_max=9, **o),
    "lambda": lambda optimizer, **o: LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch), **o),
    "step": lambda optimizer, **o: StepLR(optimizer, 2, 0.3, **o),
    "milestones": lambda optimizer, **o: MultiStepLR(optimizer, (2, 4), 0.3, **o),
    "exponential": lambda optimizer, **o: ExponentialLR(optimizer, 0.3, **o),
    "linear": lambda optimizer, **o: LinearLR(optimizer, 0.3, 0.9, 5, **o),
    "constant": lambda optimizer, **o: ConstantLR(optimizer, 0.3, 4, **o),
}


@pytest.mark.parametrize("make", RESUMED.values(), ids=RESUMED)
def test_scheduler_resumes(make):
    first, second = (make(make_optimizer()) for _ in range(2))
    for _ in range(3):
        first.step()
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    third_optimizer = make_optimizer()
    third_optimizer.load_state_dict(first.optimizer.state_dict())
    third = make(third_optimizer, last_epoch=3)  # goes on to the next epoch
    for _ in range(3):
        first.step()
        second.step()
        assert first.get_last_lr() == second.get_last_lr() == third.get_last_lr()
        assert first.last_epoch == second.last_epoch == third.last_epoch
        third.step()


def test_the_numbers_of_a_schedule_are_part_of_its_state():
    first, second = StepLR(make_optimizer(), 2, 0.3), StepLR(make_optimizer(), 5, 0.9)
    second.load_state_dict(first.state_dict())
    assert (second.step_size, second.gamma) == (2, 0.3)


@pytest.mark.parametrize("options, expected", [
    (dict(warmup_steps=0, total_steps=4, peak=1.0, floor=0.0), [1, 0.8535534, 0.5, 0.1464466, 0, 0]),
    (dict(warmup_steps=3, total_steps=5, peak=1.0, floor=0.2), [0.25, 0.5, 0.75, 1, 0.6, 0.2]),
    (dict(warmup_steps=2, total_steps=2, peak=3.0, floor=1.0), [1, 2, 1, 1, 1, 1]),
])
def test_warmup_annealing(options, expected):
    assert [warmup_annealing(step, **options) for step in range(6)] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("misuse", [
    lambda: warmup_annealing(0, warmup_steps=5, total_steps=4, peak=1.0, floor=0.0),
    lambda: warmup_annealing(0, warmup_steps=-1, total_steps=4, peak=1.0, floor=0.0),
    lambda: CosineAnnealingLR(make_optimizer(), T_max=0),
    lambda: LambdaLR(make_optimizer(), [lambda epoch: 1]),
    lambda: StepLR(make_optimizer(), 0),
    lambda: StepLR(make_optimizer(), 2, gamma=-0.1),
    lambda: MultiStepLR(make_optimizer(), [1], gamma=float("nan")),
    lambda: ExponentialLR(make_optimizer(), float("inf")),
    lambda: LinearLR(make_optimizer(), start_factor=0.0),
    lambda: LinearLR(make_optimizer(), end_factor=1.5),
    lambda: LinearLR(make_optimizer(), total_iters=0),
    lambda: ConstantLR(make_optimizer(), factor=0.0),
    lambda: ConstantLR(make_optimizer(), factor=1.5),
    lambda: ConstantLR(make_optimizer(), total_iters=0),
    lambda: StepLR(make_optimizer(), 2, last_epoch=3),  # of an optimizer that has no initial rates
])
def test_misuse(misuse):
    with pytest.raises(ValueError):
        misuse()


def test_a_schedule_without_rates():
    with pytest.raises(NotImplementedError):
        LRScheduler(make_optimizer())
    with pytest.raises(NotImplementedError):
        FactorLR(make_optimizer())
