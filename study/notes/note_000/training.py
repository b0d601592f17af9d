"""Note 000, "Training" and "Conclusion"."""
import dataclasses
import math
import types

import numpy as np

import minigrad as mg
import nn
from models.architectures import make_model
from models.data import IGNORED, mean_loss, windows
from models.task import FIRST
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.config import TransformerConfig
from models.transformer import Cache
from study.notes.claims import claims_of, require
from study.notes.helpers import EXACT, Spread, largest, normal, over_seeds, require_equal, softmax
from study.notes.note_000.shared import small_model

claim = claims_of("000")


@claim("T3", "Training", formula="Standard practice is to use the Adam optimizer",
       ours="nn.optim.Adam(parameters, lr), nn.optim.AdamW", code="nn/optim/adam.py:Adam")
def adam():
    """Standard practice is to use the Adam optimiser."""
    lr, beta1, beta2, eps = 0.1, 0.9, 0.999, 1e-8
    start, c = normal(26, 6), normal(27, 6)
    parameter = nn.Parameter(mg.tensor(start))
    optimizer = nn.optim.Adam([parameter], lr=lr)
    p, m, v, worst = start.copy(), np.zeros(6), np.zeros(6), 0.0
    for step in range(1, 11):
        optimizer.zero_grad()
        (parameter.sin() * mg.tensor(c) + parameter.square()).sum().backward()
        optimizer.step()
        g = np.cos(p) * c + 2 * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        p = p - lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps)
        worst = max(worst, largest(parameter, p))
        if step == 1:
            first = float(np.abs(np.abs(parameter.array - start) - lr).max())
            uncorrected = (1 - beta1) / math.sqrt(1 - beta2)
    require(worst < EXACT and first < 1e-5, f"difference {worst:.0e}, first step {first:.0e} from lr")
    return dict(difference=worst, first_step_from_lr=first, without_correction=uncorrected)


@claim("T4", "Training", formula="gradient clipping",
       ours="nn.optim.clip_grad_norm_(parameters, 1.0), nn.optim.Adam(..., max_grad_norm=1.0)",
       code="nn/optim/adam.py:Adam")
def gradients_are_clipped():
    """Gradient clipping is one of the usual tricks."""
    gradients = [[scale * normal(28 + i, 3, 2), scale * normal(38 + i, 4)] for i, scale in enumerate((0.1, 10.0, 1.0))]

    def make():
        return [nn.Parameter(mg.tensor(normal(48, 3, 2))), nn.Parameter(mg.tensor(normal(49, 4)))]

    by_hand, at_once, unclipped = make(), make(), make()
    optimizers = [nn.optim.Adam(by_hand, lr=0.1), nn.optim.Adam(at_once, lr=0.1, max_grad_norm=1.0),
                  nn.optim.Adam(unclipped, lr=0.1)]
    norms = []
    for both in gradients:
        for parameters in (by_hand, at_once, unclipped):
            for parameter, gradient in zip(parameters, both):
                parameter.grad = mg.tensor(gradient)
        norm = math.sqrt(sum((g**2).sum() for g in both))
        require(abs(nn.optim.clip_grad_norm_(by_hand, 1.0) - norm) < EXACT * norm, f"the norm is not {norm}")
        clipped = np.concatenate([parameter.grad.array.ravel() for parameter in by_hand])
        whole = np.concatenate([g.ravel() for g in both])
        norms.append((norm, float(np.linalg.norm(clipped))))
        cosine = clipped @ whole / (norms[-1][0] * norms[-1][1])
        require(norms[-1][1] <= 1 and abs(cosine - 1) < EXACT, f"norm {norms[-1]}, cosine {cosine}")
        require(norm > 1 or np.array_equal(clipped, whole), "a short gradient was changed")
        for optimizer in optimizers:
            optimizer.step()
    same, other = (max(largest(p, q) for p, q in zip(by_hand, each)) for each in (at_once, unclipped))
    require(same < EXACT and other > 1e-3, f"within the step {same:.0e}, without {other:.0e}")
    return dict(norms=[norm for pair in norms for norm in pair], within_the_step=same)


@claim("T5", "Training", formula="learning rate annealing schedules",
       ours="nn.optim.warmup_annealing, nn.optim.CosineAnnealingLR, minigrad train --annealing",
       code="nn/optim/lr_scheduler.py:warmup_annealing")
def learning_rates_are_annealed():
    """Schedules that anneal the learning rate are one of the usual tricks."""
    warmup, total, peak, floor = 10, 110, 2.0, 0.2
    rates = [nn.optim.warmup_annealing(s, warmup_steps=warmup, total_steps=total, peak=peak, floor=floor)
             for s in (0, warmup, (warmup + total) // 2, total)]
    expected = [peak / (warmup + 1), peak, (peak + floor) / 2, floor]
    require(np.allclose(rates, expected, rtol=EXACT), f"rates {rates}, not {expected}")
    every = [nn.optim.warmup_annealing(s, warmup_steps=warmup, total_steps=total, peak=peak) for s in range(total + 1)]
    require(all(np.diff(every[: warmup + 1]) > 0) and all(np.diff(every[warmup:]) < 0), "not up and then down")

    optimizer = nn.optim.SGD([nn.Parameter(mg.zeros(1))], lr=peak)
    schedule, difference = nn.optim.CosineAnnealingLR(optimizer, T_max=total - warmup), 0.0
    for rate in every[warmup:]:
        difference = max(difference, abs(optimizer.param_groups[0]["lr"] - rate))
        schedule.step()
    require(difference < EXACT, f"the scheduler differs by {difference:.0e}")
    return dict(rates=rates, scheduler=difference)


@claim("T6", "Training", formula="increasing minibatch sizes",
       ours="TrainingConfig(batch_size=4, final_batch_size=16), accumulation=4",
       code="models/training_config.py:TrainingConfig")
def minibatches_grow():
    """Minibatches of increasing size are one of the usual tricks."""
    sizes, copy_task = [], dataclasses.replace(TASKS["copy"], lengths=(4, 4))

    def batch(generator, size, context):  # in fours, so that other sizes have the same examples
        sizes.append(size)
        return tuple(map(np.concatenate, zip(*(copy_task.batch(generator, 4, context) for _ in range(size // 4)))))

    data = types.SimpleNamespace(batch=batch, ignored=copy_task.ignored)
    config = TransformerConfig(context=16, layers=1, heads=2, width=16, dtype="float64")
    growing = TrainingConfig.of(copy_task, steps=9, batch_size=4, final_batch_size=16, lr=1e-3)
    Trainer(make_model(copy_task, "causal", config), data, growing).train()
    grown = list(sizes)
    require(grown == [4] * 3 + [8] * 3 + [16] * 3, f"batches of {grown}")

    model = make_model(copy_task, "encoder-decoder", config)
    tokens = mg.tensor(np.random.default_rng(0).integers(FIRST, copy_task.vocabulary_size, (3, 8, 5)))
    gradients = []
    for parts in (1, 4):
        model.zero_grad()
        for part in range(parts):
            own = slice(part * 8 // parts, (part + 1) * 8 // parts)
            (model(*tokens[:, own].unbind(0))[1] / parts).backward()
        gradients.append([p.grad.array.copy() for p in model.parameters() if p.grad is not None])
    difference = max(require_equal(a, b) for a, b in zip(*gradients, strict=True))

    return dict(batch_sizes=grown, of_four_parts=difference)


@claim("T7", "Training", formula="dropout", ours="nn.Dropout(p), TransformerConfig(dropout=p)",
       code="nn/dropout.py:Dropout")
def dropout():
    """Dropout is one of the usual tricks."""
    p, count, x = 0.3, 8000, normal(29, 10)
    layer, shares = nn.Dropout(p), []

    def standard_errors(seed):
        """How far the mean of many masks is from x, in the worst of ten features."""
        y = layer(mg.tensor(np.tile(x, (count, 1)))).array
        shares.append((y != 0).mean())
        return (abs(y.mean(0) - x) / (abs(x) * math.sqrt(p / (1 - p) / count))).max()

    errors = over_seeds(standard_errors)
    require(0.3 < errors.median < 3, f"the mean is {errors:.1f} standard errors off")
    kept = Spread(tuple(map(float, shares)))
    require(abs(kept.median - 0.7) < 0.02, f"{kept:.0%} kept")
    leaf = mg.tensor(np.tile(x, (20, 1)), requires_grad=True)
    y = layer(leaf)
    y.sum().backward()
    require(np.array_equal(leaf.grad.array == 0, y.array == 0), "the gradient has another mask")
    require_equal(leaf.grad.array * leaf.array, y)
    mg.gradcheck(layer, mg.tensor(x, requires_grad=True))
    layer.eval()
    require(np.array_equal(layer(mg.tensor(x)).array, x), "it is not the identity in evaluation")
    return dict(kept=kept, standard_errors=errors)


@claim("T2", "Conclusion",
       formula="predictions ... in parallel across an entire sequence, sampling ... still takes linear time",
       ours="model(tokens), and models.transformer.Cache(model, batch_size=1)", code="models/transformer.py:Cache")
def predicting_is_parallel_and_sampling_is_not():
    """A transformer allows predictions to be made in parallel across an entire sequence, but sampling from it still takes
    linear time."""
    T, B, differences = 12, 2, {}
    tokens = np.random.default_rng(0).integers(0, 11, (B, T))
    for dtype in ("float64", "float32"):
        model = small_model(std=0.2, dtype=dtype)
        cache = Cache(model, batch_size=B)
        with mg.no_grad(), mg.count_flops() as at_once:
            parallel = model(mg.tensor(tokens))[0].array
        with mg.no_grad(), mg.count_flops() as one_by_one:
            plain = [model(mg.tensor(tokens[:, :t]))[0].array[:, -1] for t in range(1, T + 1)]
        cached = [cache.read(tokens[:, :1]), *(cache.append(tokens[:, t]) for t in range(1, T))]
        differences[dtype] = max(largest(parallel, np.stack(each, axis=1)) for each in (plain, cached))
        text, logits = tokens[0], np.stack(plain, axis=1)[0, :-1].astype("float64")
        loss, count = mean_loss(model, windows(text, T, batch_size=1), IGNORED)  # all in one window
        expected = -np.log(softmax(logits)[np.arange(T - 1), text[1:]]).mean()
        require(count == T - 1 and abs(loss - expected) < 1e-5, f"the loss is {loss} of {count}, token by token {expected}")
    require(differences["float64"] < EXACT and differences["float32"] < 1e-5, f"they differ by {differences}")
    ratio = one_by_one.total / at_once.total
    require(ratio > 5, f"without a cache it takes {ratio:.1f} times as much")

    return dict(difference=differences["float64"], multiply_adds_without_cache=ratio)
