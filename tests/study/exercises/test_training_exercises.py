"""Exercises of training beside other ways to the same: the library's Adam, one long vector, differences."""
import numpy as np
import pytest

import minigrad as mg
import nn
from study.exercises import COURSE


def inputs_of(name):
    return [list(inputs.values()) for seed in range(3) for inputs in COURSE[name].inputs(seed)]


def test_clipping_is_that_of_one_long_vector():
    for *gradients, max_norm in inputs_of("clip_by_global_norm"):
        long = np.concatenate([g.ravel() for g in gradients])
        norm = np.linalg.norm(long)
        wanted = long * (max_norm / norm if norm > max_norm else 1)
        found = COURSE["clip_by_global_norm"].solution(*gradients, max_norm)
        np.testing.assert_allclose(np.concatenate([g.ravel() for g in found]), wanted, rtol=1e-13)


def test_steps_of_adam_are_the_librarys():
    r = np.random.default_rng(0)
    start, gradients = r.normal(size=(2, 3)), r.normal(size=(4, 2, 3))
    parameter, m, v = start, np.zeros((2, 3)), np.zeros((2, 3))
    theirs = nn.Parameter(mg.tensor(start, dtype=mg.float64))
    optimizer = nn.optim.Adam([theirs], lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    for t, gradient in enumerate(gradients, 1):
        parameter, m, v = COURSE["adam_step"].solution(parameter, gradient, m, v, t, 0.1, 0.8, 0.95, 1e-3)
        theirs.grad = mg.tensor(gradient, dtype=mg.float64)
        optimizer.step()
        np.testing.assert_allclose(parameter, theirs.detach().numpy(), rtol=1e-12)


def layer_norm(x, weight, bias, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def dweight(x, weight, targets):
    e = np.exp(x @ weight.T - (x @ weight.T).max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) - np.eye(len(weight))[targets]).T @ x / len(x)


ALONG = {  # name -> what moves along the velocities, as a function of h
    "layer_norm_jvp": lambda h, x, weight, bias, eps, vx, vweight, vbias: layer_norm(
        x + h * vx, weight + h * vweight, bias + h * vbias, eps),
    "cross_entropy_hvp": lambda h, x, weight, targets, v: dweight(x, weight + h * v, targets),
}


@pytest.mark.parametrize("name", ALONG)
def test_a_derivative_along_a_direction_is_what_differences_say(name):
    for arguments in inputs_of(name):
        ahead, behind = (ALONG[name](h, *arguments) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(COURSE[name].solution(*arguments), (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-6)
