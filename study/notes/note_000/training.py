"""Note 000, "Training" and "Conclusion"."""
import math
import types

import numpy as np

import minigrad as mg
import nn
from models.architectures import make_model
from models.config import TransformerConfig
from models.data import IGNORED, mean_loss, windows
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import Cache
from study.notes.claims import claims_of, require
from study.notes.helpers import Spread, normal, over_seeds, require_equal, softmax
from study.notes.note_000.shared import small_model

claim = claims_of("000")


@claim("T3", "Training")
def adam():
    """Standard practice is to use the Adam optimiser.

    formula: Standard practice is to use the Adam optimizer
    here: nn.optim.Adam(parameters, lr), nn.optim.AdamW
    """
    lr, beta1, beta2, eps, worst = 0.1, 0.9, 0.999, 1e-8, 0.0
    parameter = nn.Parameter(mg.zeros(6, dtype=mg.float64))
    p, m, v = np.zeros(6), np.zeros(6), np.zeros(6)
    optimizer = nn.optim.Adam([parameter], lr=lr)
    for step, g in enumerate(normal(26, 10, 6), start=1):
        parameter.grad = mg.tensor(g)
        optimizer.step()
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        p = p - lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps)
        worst = max(worst, require_equal(parameter, p))
    return dict(difference=worst)


@claim("T4", "Training")
def gradients_are_clipped():
    """Gradient clipping is one of the usual tricks.

    formula: gradient clipping
    here: nn.optim.clip_grad_norm_(parameters, 1.0), nn.optim.Adam(..., max_grad_norm=1.0)
    """
    parameters = [nn.Parameter(mg.zeros(n, dtype=mg.float64)) for n in (3, 4)]
    norms = []
    for scale in (0.1, 10.0):
        gradients = [scale * normal(seed, p.numel()) for seed, p in enumerate(parameters)]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = mg.tensor(gradient)
        nn.optim.clip_grad_norm_(parameters, 1.0)
        norm = float(np.linalg.norm(np.concatenate(gradients)))
        for parameter, gradient in zip(parameters, gradients):  # in the same direction
            require_equal(parameter.grad, gradient / max(norm, 1.0), 1e-6)
        norms += [norm, float(np.linalg.norm(np.concatenate([p.grad.array for p in parameters])))]
    require(norms[1] < 1 and abs(norms[3] - 1) < 1e-6, f"norms, and then {norms}")
    return dict(norms=norms)


@claim("T5", "Training")
def learning_rates_are_annealed():
    """Schedules that anneal the learning rate are one of the usual tricks.

    formula: learning rate annealing schedules
    here: nn.optim.warmup_annealing, nn.optim.CosineAnnealingLR, minigrad train --annealing
    """
    warmup, total, peak, floor = 10, 110, 2.0, 0.2
    rates = [nn.optim.warmup_annealing(step, warmup_steps=warmup, total_steps=total, peak=peak, floor=floor)
             for step in (0, warmup, (warmup + total) // 2, total)]
    require_equal(np.array(rates), np.array([peak / (warmup + 1), peak, (peak + floor) / 2, floor]))
    return dict(rates=rates)


@claim("T6", "Training")
def minibatches_grow():
    """Minibatches of increasing size are one of the usual tricks.

    formula: increasing minibatch sizes
    here: TrainingConfig(batch_size=4, final_batch_size=16)
    """
    task, sizes = TASKS["copy"], []

    def batch(generator, size, context):
        sizes.append(size)
        return task.batch(generator, size, context)

    data = types.SimpleNamespace(batch=batch, ignored=task.ignored)
    model = make_model(task, "causal", TransformerConfig(context=32, layers=1, heads=2, width=16))
    Trainer(model, data, TrainingConfig.of(task, steps=9, batch_size=4, final_batch_size=16)).train()
    require(sizes == [4] * 3 + [8] * 3 + [16] * 3, f"batches of {sizes}")
    return dict(batch_sizes=sizes)


@claim("T7", "Training")
def dropout():
    """Dropout is one of the usual tricks.

    formula: dropout
    here: nn.Dropout(p), TransformerConfig(dropout=p)
    """
    p, count, x, shares = 0.3, 8000, normal(29, 10), []

    def standard_errors(seed):
        """How far the mean of many masks is from x, in the worst of ten features."""
        y = nn.Dropout(p)(mg.tensor(np.tile(x, (count, 1)))).array
        shares.append((y != 0).mean())
        return (abs(y.mean(0) - x) / (abs(x) * math.sqrt(p / (1 - p) / count))).max()

    errors = over_seeds(standard_errors)
    kept = Spread(tuple(map(float, shares)))
    require(0.3 < errors.median < 3, f"the mean is {errors:.1f} standard errors off")
    require(abs(kept.median - 0.7) < 0.02, f"{kept:.0%} kept")
    return dict(kept=kept, standard_errors=errors)


@claim("T2", "Conclusion")
def predicting_is_parallel_and_sampling_is_not():
    """A transformer allows predictions to be made in parallel across an entire sequence, but sampling from it still takes
    linear time.

    formula: predictions ... in parallel across an entire sequence, sampling ... still takes linear time
    here: model(tokens), and models.transformer.Cache(model, batch_size=1)
    """
    T, model = 12, small_model()
    tokens = np.random.default_rng(0).integers(0, 11, (1, 12))
    cache = Cache(model, batch_size=1)
    with mg.no_grad(), mg.count_flops() as at_once:
        parallel = model(mg.tensor(tokens))[0].array
    with mg.no_grad(), mg.count_flops() as one_by_one:
        plain = [model(mg.tensor(tokens[:, :t]))[0].array[:, -1] for t in range(1, T + 1)]
    cached = [cache.read(tokens[:, :1]), *(cache.append(tokens[:, t]) for t in range(1, T))]
    difference = max(require_equal(parallel, np.stack(each, axis=1)) for each in (plain, cached))
    loss, _ = mean_loss(model, windows(tokens[0], T, batch_size=1), IGNORED)  # of all predictions at once
    of_each = -np.log(softmax(np.concatenate(plain))[np.arange(T - 1), tokens[0, 1:]])
    require_equal(loss, of_each.mean(), 1e-5)
    ratio = one_by_one.total / at_once.total
    require(ratio > 5, f"without a cache it takes {ratio:.1f} times as much")
    return dict(difference=difference, multiply_adds_without_cache=ratio)
