"""Schedules by their rates, and resumed; each is text."""
import json

import pytest

import minigrad as mg
import nn
from nn.optim import lr_scheduler, warmup_annealing
from nn.optim.lr_scheduler import LRScheduler


def make_optimizer():
    return nn.optim.SGD([{"params": [nn.Parameter(mg.ones(1))]}, {"params": [nn.Parameter(mg.ones(1))], "lr": 0.5}], lr=1.0)


def make(text, optimizer, **options):
    def made(schedule, *rest, **named):
        return schedule(optimizer, *rest, **named, **options)

    return eval(text, vars(lr_scheduler) | {"made": made, "make_optimizer": make_optimizer})


SCHEDULES = {  # text: rates of the first group
    "made(LambdaLR, lambda epoch: 0.5 ** epoch)": [1, 0.5, 0.25, 0.125, 0.0625],
    "made(LambdaLR, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0])": [1, 0.5, 1 / 3, 0.25, 0.2],
    "made(CosineAnnealingLR, T_max=4)": [1, 0.8535534, 0.5, 0.1464466, 0],
    "made(CosineAnnealingLR, T_max=2, eta_min=0.2)": [1, 0.6, 0.2, 0.6, 1],
    "made(StepLR, step_size=2)": [1, 1, 0.1, 0.1, 0.01, 0.01],
    "made(StepLR, 1, gamma=0.5)": [1, 0.5, 0.25, 0.125],
    "made(StepLR, 2, gamma=0.0)": [1, 1, 0, 0, 0, 0],
}
over_schedules = pytest.mark.parametrize("text", SCHEDULES)


@over_schedules
def test_rates(text):
    optimizer, rates = make_optimizer(), []
    scheduler = make(text, optimizer)
    for _ in SCHEDULES[text]:
        rates.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        scheduler.step()
    assert rates == pytest.approx(SCHEDULES[text], abs=1e-7)


def test_a_rate_changed_by_hand_stays_changed():
    optimizer = make_optimizer()
    scheduler = make("made(StepLR, 1, 0.5)", optimizer)
    optimizer.param_groups[0]["lr"] = 10.0
    scheduler.step()
    assert scheduler.get_last_lr() == [5.0, 0.25]


@over_schedules
def test_scheduler_resumes(text):
    """From its state, options included; or from the optimizer's and the epoch."""
    first, second = make(text, make_optimizer()), make(text, make_optimizer())
    for _ in range(3):
        first.step()
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    for name, value in vars(second).items():  # as if made with other options
        if isinstance(value, (int, float)):
            setattr(second, name, value + 1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    optimizer = make_optimizer()
    optimizer.load_state_dict(first.optimizer.state_dict())
    third = make(text, optimizer, last_epoch=3)  # continues with the next epoch
    for _ in range(3):
        first.step()
        second.step()
        assert first.get_last_lr() == second.get_last_lr() == third.get_last_lr()
        assert first.last_epoch == second.last_epoch == third.last_epoch
        third.step()


@pytest.mark.parametrize("options, expected", [
    (dict(warmup_steps=0, total_steps=4, peak=1.0, floor=0.0), [1, 0.8535534, 0.5, 0.1464466, 0, 0]),
    (dict(warmup_steps=3, total_steps=5, peak=1.0, floor=0.2), [0.25, 0.5, 0.75, 1, 0.6, 0.2]),
    (dict(warmup_steps=2, total_steps=2, peak=3.0, floor=1.0), [1, 2, 1, 1, 1, 1]),
])
def test_warmup_annealing(options, expected):
    assert [warmup_annealing(step, **options) for step in range(6)] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("text", [
    "warmup_annealing(0, warmup_steps=5, total_steps=4, peak=1.0, floor=0.0)",
    "warmup_annealing(0, warmup_steps=-1, total_steps=4, peak=1.0, floor=0.0)", "made(CosineAnnealingLR, T_max=0)",
    "made(LambdaLR, [lambda epoch: 1])", "made(StepLR, 0)", "made(StepLR, 2, gamma=-0.1)", "made(StepLR, 2, gamma=float('nan'))",
    "made(StepLR, 2, last_epoch=3)",  # of an optimizer that has no initial rates
])
def test_misuse(text):
    with pytest.raises(ValueError):
        make(text, make_optimizer())


def test_a_schedule_without_a_formula():
    with pytest.raises(NotImplementedError):
        LRScheduler(make_optimizer())
