"""Wrong rules for derivatives by hand, which JAX's users get wrong apart from their formulas, and some that are right.

WRONG has a row for each: how the function is made, and what the report must say.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np


def product(x, y):
    return x * y


def keep(x, y):
    return x * y, (x, y)


def right(kept, dout):
    x, y = kept
    return dout * y, dout * x


def vjp(backward=right, forward=keep, function=product, **options):
    """x * y, whose gradients are backward(kept, dout), where forward(x, y) returns (out, kept)."""
    def made():
        def custom(x, y):
            return function(x, y)

        custom = jax.custom_vjp(custom)
        custom.defvjp(forward, backward, **options)
        return custom

    return made


def jvp(rule, function=product):
    """x * y, with rule((x, y), (dx, dy)), which returns the output and its tangent."""
    def made():
        def custom(x, y):
            return function(x, y)

        custom = jax.custom_jvp(custom)
        custom.defjvp(rule)
        return custom

    return made


def tangent(points, tangents):
    (x, y), (dx, dy) = points, tangents
    return x * y, dx * y + x * dy


def forward_is_another(x, y):
    return x * y * (1 + 1e-6), (x, y)


def another_under_jit(x, y):
    return x * y * (1 + 1e-6 * isinstance(x, jax.core.Tracer))


def branches_on_numbers(kept, dout):
    return right(kept, dout if dout.any() else jnp.zeros_like(dout))


def by_numpy(kept, dout):
    x, y = map(np.asarray, kept)
    return jnp.asarray(np.asarray(dout) * y), jnp.asarray(np.asarray(dout) * x)


def sees_the_batch(kept, dout):
    """A scale from global statistics, right for one example alone."""
    return tuple(g * scale_of(dout) for g in right(kept, dout))


@jax.custom_batching.custom_vmap
def scale_of(dout):
    return jnp.ones(())


@scale_of.def_vmap
def scale_of_batch(size, is_batched, dout):
    return jnp.ones(()) / size, False


@jax.custom_batching.custom_vmap
def doubled_in_a_batch(x):
    return x


@doubled_in_a_batch.def_vmap
def of_batch(size, is_batched, x):
    return x * (1 + 1e-6), True


LAST = []


def keep_outside(x, y):
    LAST[:] = x, y
    return x * y, ()


def from_outside(kept, dout):
    return right(LAST, dout)


CALLS = []


def counts(kept, dout):
    CALLS.append(1)
    return right(kept, dout * (1 + 1e-8 * len(CALLS)))


def draws(kept, dout):
    return right(kept, dout * (1 + 1e-9 * np.random.default_rng().normal()))


def keep_perturbed(x, y):
    return x.value * y.value, (x.value, y.value, x.perturbed and y.perturbed)


def both_or_none(kept, dout):
    x, y, are_both = kept
    return (dout * y, dout * x) if are_both else (dout * x, dout * y)


def raises_for_one(kept, dout):
    if not kept[2]:
        raise ValueError("both, please")
    return right(kept[:2], dout)


def keep_values(x, y):
    return (x.value * y.value, x.value + y.value), (x.value, y.value)


def of_two_symbolic(kept, douts):
    """The upstream of an unused output has no arithmetic."""
    x, y = kept
    first, second = douts
    return first * y + second, first * x + second


def of_two_skipped(kept, douts):
    x, y = kept
    is_zero = [isinstance(dout, jax.custom_derivatives.SymbolicZero) for dout in douts]
    if any(is_zero):
        return jnp.zeros_like(x), jnp.zeros_like(y)
    return douts[0] * y + douts[1], douts[0] * x + douts[1]


def both(x, y):
    return x * y, x + y


def squared(points, tangents):
    (x, y), (dx, dy) = points, tangents
    return x * y, dx * y + x * dy + 1e-3 * dx * dx


def with_a_constant(points, tangents):
    out, slope = tangent(points, tangents)
    return out, slope + 1e-3


def another_output(points, tangents):
    out, slope = tangent(points, tangents)
    return out * (1 + 1e-6), slope


def right_in_reverse_only(points, tangents):
    (x, y), (dx, dy) = points, tangents
    slope = jax.custom_derivatives.linear_call(lambda y, t: t * y * 1.5, lambda y, dout: dout * y, y, dx)
    return x * y, slope + x * dy


def squeezed(kept, dout):
    x, y = kept
    return dout * y * (0.5 if len(x) == 1 else 1), dout * x


def wrong_and_half_for_one_row(kept, dout):
    dx, dy = right(kept, dout)
    return 2 * dx, dy * (0.5 if len(dy) == 1 else 1)


def by_first_row(kept, dout):
    x, y = kept
    return dout * y + 0 * dout[0] * (1 if len(x) else np.ones(0)[0]), dout * x


def no_second(kept, dout):
    return dout * kept[1], None


def float32(kept, dout):
    return tuple(g.astype(jnp.float32) for g in right(kept, dout))


def through_float32(kept, dout):
    return tuple(g.astype(jnp.float32).astype(jnp.float64) for g in right(kept, dout))


def exchanged(kept, dout):
    return right(kept, dout)[::-1]


def one_for_all(kept, dout):
    return right(kept, dout)[:1]


def power():
    """n is no array, and comes first in the rule; backward takes it for what forward kept."""
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def custom(x, n, y):
        return x**n * y

    custom.defvjp(lambda x, n, y: (x**n * y, (x, y)), lambda kept, n, dout: (dout * n * kept[0] * kept[1], dout * kept[0] ** n))
    return lambda x, y: custom(x, 2, y)


def picked():
    """Integers get None."""
    @jax.custom_vjp
    def custom(table, ids):
        return table[ids]

    custom.defvjp(lambda table, ids: (table[ids], (table, ids)),
                  lambda kept, dout: (jnp.zeros_like(kept[0]).at[kept[1]].add(dout), None))
    return lambda x, y: custom(x, jnp.array([1, 1])) * y


def branching(x, y):
    """Does not run under jit."""
    return x * y if x.sum() < 1e9 else y


WRONG = {  # how the function is made, and the side check that fails, with its sentence
    "fwd computes another output": (vjp(forward=forward_is_another),
                                    "the rule's output is the function's: FAIL: under jax.grad and jax.vjp, the rule computes another"),
    "so does a rule of tangents": (jvp(another_output), "the rule's output is the function's: FAIL"),
    "another output under jit": (vjp(function=another_under_jit), "jit: FAIL: another output under jit"),
    "a branch on dout's numbers": (vjp(branches_on_numbers), "jit: FAIL: it runs under jit, but its gradient raises: TracerBoolConversionError"),
    "NumPy in backward": (vjp(by_numpy), "jit: FAIL: it runs under jit, but its gradient raises: TracerArrayConversionError"),
    "vmap of backward": (vjp(sees_the_batch), "vmap: FAIL: another gradient under vmap"),
    "vmap of forward": (vjp(function=lambda x, y: doubled_in_a_batch(x * y)), "vmap: FAIL: another output under vmap"),
    "residuals kept outside": (vjp(from_outside, keep_outside), "calls are kept apart: FAIL: another gradient after a second call"),
    "a counter": (vjp(counts), "backward twice gives the same: FAIL"),
    "chance": (vjp(draws), "backward twice gives the same: FAIL"),
    "exchanged for one": (vjp(both_or_none, keep_perturbed, symbolic_zeros=True), "each input alone may be differentiated: FAIL: another gradient if only x"),
    "raises for one": (vjp(raises_for_one, keep_perturbed, symbolic_zeros=True),
                       "each input alone may be differentiated: FAIL: it raises if only x is differentiated: ValueError: both, please"),
    "arithmetic on a symbolic zero": (vjp(of_two_symbolic, keep_values, both, symbolic_zeros=True), "outputs may go unused: FAIL: it raises if only output 0"),
    "one unused output stops all": (vjp(of_two_skipped, keep_values, both, symbolic_zeros=True), "outputs may go unused: FAIL: another gradient"),
    "a constant in the tangent": (jvp(with_a_constant), "forward mode: FAIL: the tangent of the output is not 0"),
    "another forward mode": (jvp(right_in_reverse_only), "forward mode: FAIL: jax.jvp is not the transpose of jax.vjp"),
    "a tangent squared": (jvp(squared), "backward gives gradients: FAIL"),
    "a size of 1": (vjp(squeezed), "sizes of 1 and 0: FAIL: a wrong gradient if axis 0 of x has size 1"),
    "a size of 1, apart from what is wrong": (vjp(wrong_and_half_for_one_row), "has size 1: the slope by y differs"),
    "a size of 0": (vjp(by_first_row), "sizes of 1 and 0: FAIL: its gradient raises if axis 0 of x has size 0"),
    "None": (vjp(no_second), "db is zero"),
    "float32": (vjp(float32), "float32"),
    "through float32": (vjp(through_float32), "float64 throughout: FAIL"),
    "exchanged": (vjp(exchanged), "diagnosis: "),
    "one gradient for two inputs": (vjp(one_for_all), "backward gives gradients: FAIL"),
    "nondiff_argnums in the wrong order": (power, "backward gives gradients: FAIL"),
}
RIGHT = {
    "custom_vjp": vjp(), "custom_jvp": jvp(tangent), "two outputs": lambda: both, "ids": picked, "a branch": lambda: branching,
    "a sum": lambda: lambda x, y: (x * y).sum(),
}


def inputs():
    generator = np.random.default_rng(0)
    return jnp.asarray(generator.normal(size=(2, 3))), jnp.asarray(generator.normal(size=(2, 3)))
