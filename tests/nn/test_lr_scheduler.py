import pytest

import minigrad as mg
import nn
from nn.optim import SGD, CosineAnnealingLR, LambdaLR, LRScheduler, warmup_cosine


def make_optimizer():
    groups = [{"params": [nn.Parameter(mg.ones(1))]}, {"params": [nn.Parameter(mg.ones(1))], "lr": 0.5}]
    return SGD(groups, lr=1.0)


SCHEDULES = {
    "lambda": (lambda optimizer: LambdaLR(optimizer, lambda epoch: 0.5 ** epoch), [1, 0.5, 0.25, 0.125, 0.0625]),
    "lambda each": (lambda optimizer: LambdaLR(optimizer, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0]),
                    [1, 0.5, 1 / 3, 0.25, 0.2]),
    "cosine": (lambda optimizer: CosineAnnealingLR(optimizer, T_max=4), [1, 0.8535534, 0.5, 0.1464466, 0]),
    "cosine with floor": (lambda optimizer: CosineAnnealingLR(optimizer, T_max=2, eta_min=0.2), [1, 0.6, 0.2, 0.6, 1]),
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


@pytest.mark.parametrize("name", ["LambdaLR", "CosineAnnealingLR"])
def test_rates_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    argument = (lambda epoch: 0.9 ** epoch) if name == "LambdaLR" else 5
    theirs_optimizer = torch.optim.SGD([{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.5}], lr=1.0)
    ours = getattr(nn.optim.lr_scheduler, name)(make_optimizer(), argument)
    theirs = getattr(torch.optim.lr_scheduler, name)(theirs_optimizer, argument)
    for _ in range(12):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), abs=1e-12)
        ours.step()
        theirs_optimizer.step()
        theirs.step()


def test_scheduler_resumes():
    first, second = (CosineAnnealingLR(make_optimizer(), T_max=9) for _ in range(2))
    for _ in range(3):
        first.step()
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        assert first.get_last_lr() == second.get_last_lr()
        first.step()
        second.step()


@pytest.mark.parametrize("options, expected", [
    (dict(warmup_steps=0, total_steps=4, peak=1.0, floor=0.0), [1, 0.8535534, 0.5, 0.1464466, 0, 0]),
    (dict(warmup_steps=3, total_steps=5, peak=1.0, floor=0.2), [0.25, 0.5, 0.75, 1, 0.6, 0.2]),
    (dict(warmup_steps=2, total_steps=2, peak=3.0, floor=1.0), [1, 2, 1, 1, 1, 1]),
])
def test_warmup_cosine(options, expected):
    assert [warmup_cosine(step, **options) for step in range(6)] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("misuse", [
    lambda: warmup_cosine(0, warmup_steps=5, total_steps=4, peak=1.0, floor=0.0),
    lambda: warmup_cosine(0, warmup_steps=-1, total_steps=4, peak=1.0, floor=0.0),
    lambda: CosineAnnealingLR(make_optimizer(), T_max=0),
    lambda: LambdaLR(make_optimizer(), [lambda epoch: 1]),
])
def test_misuse(misuse):
    with pytest.raises(ValueError):
        misuse()


def test_a_schedule_without_rates():
    with pytest.raises(NotImplementedError):
        LRScheduler(make_optimizer())
