"""Parameters with gradients, for tests of optimizers, and the same steps in PyTorch."""
import numpy as np

import minigrad as mg
import nn


def make_parameters(shapes, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [nn.Parameter(np.asarray(rng.normal(size=shape), dtype)) for shape in shapes]


def set_gradients(parameters, seed):
    rng = np.random.default_rng(seed)
    for parameter in parameters:
        parameter.grad = mg.tensor(np.asarray(rng.normal(size=parameter.shape), parameter.dtype))


def values(parameters):
    return [parameter.array.copy() for parameter in parameters]


def steps_beside_pytorch(optimizer, parameters, tolerance, **options):
    """Ten steps by the optimizer and by PyTorch's of the same name end at the same values; (ours, PyTorch's)."""
    import torch  # an extra

    theirs = [torch.nn.Parameter(torch.tensor(parameter.array)) for parameter in parameters]
    optimizers = optimizer(parameters, **options), getattr(torch.optim, optimizer.__name__)(theirs, **options)
    for t in range(10):
        set_gradients(parameters, seed=t)
        for a, b in zip(parameters, theirs):
            b.grad = torch.tensor(a.grad.array)
        for each in optimizers:
            each.step()
    for a, b in zip(parameters, theirs):
        np.testing.assert_allclose(a.array, b.detach().numpy(), rtol=tolerance, atol=tolerance)
    return optimizers
