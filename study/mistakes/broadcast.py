"""Mistakes in a sum and in a product whose factors are broadcast."""
import numpy as np

from .base import family, normal, replaced, same


def copied(g, a):
    """The axes of g along which a was copied: (those before a's own, those where a has size 1, counted in a)."""
    return tuple(range(np.ndim(g) - np.ndim(a))), tuple(axis for axis, n in enumerate(np.shape(a)) if n == 1)


def unbroadcast(g, a):
    """The sum of g over the copies of a."""
    front, ones = copied(g, a)
    return g.sum(front).sum(ones, keepdims=True)


def mean_of_copies(g, a):
    front, ones = copied(g, a)
    return g.mean(front).mean(ones, keepdims=True)


def first_copy(g, a):
    """The gradient of the first copy in place of the sum over all."""
    front, ones = copied(g, a)
    g = g[(0,) * len(front)]
    return g[tuple(slice(1) if axis in ones else slice(None) for axis in range(np.ndim(a)))]


def last_copy(g, a):
    return np.flip(first_copy(np.flip(g), a))


def if_copied(reduce):
    """Reduces the gradient only where its shape differs from the input's."""
    return lambda g, a: reduce(g) if np.shape(g) != np.shape(a) else g


def sum_of_ones(g, a, keepdims=True):
    """Summed where a has size 1, counting the axes of g from the front, like those of a."""
    return g.sum(copied(g, a)[1], keepdims=keepdims)


def sum_of_front(g, a, keepdims=False):
    return g.sum(copied(g, a)[0], keepdims=keepdims)


def one_by_one(g, a):
    g = sum_of_front(g, a)
    for axis in copied(g, a)[1]:
        g = g.sum(axis)
    return g


def from_the_front(g, a):
    front, _ = copied(g, a)
    return sum_of_ones(g, a).sum(front)


def of_the_others(g, a):
    """Summed over the axes that were not copied."""
    ones = copied(g, a)[1]
    g = g.sum(tuple(range(np.ndim(a), np.ndim(g))))
    others = tuple(axis for axis in range(g.ndim) if axis not in ones)
    return g.sum(others, keepdims=True) if ones else g


# {name: (the mistake in a gradient d, what replaces the sum over the copies)}
COPIES = {
    "mean": ("{d} is averaged over the copies of {a}, but the uses of a number add: take the sum, not the mean",
             mean_of_copies),
    "first row": ("{d} is the gradient of the first copy of {a} only; all of the copies should be added", first_copy),
    "last row": ("{d} is the gradient of the last copy of {a} only: in a loop, = overwrites where += adds", last_copy),
    "total": ("{d} is the sum over all axes, and not only over those along which {a} was copied",
              lambda g, a: np.full_like(a, g.sum())),
    "wrong axis": ("{d} is summed over the wrong axis: sum over those along which {a} was copied, not over its own",
                   of_the_others),
}
# the same, with a shape other than the input's
SHAPES = {
    "not summed": ("{d} is not summed over the copies of {a}, so it has the shape of the output and not of {a}",
                   lambda g, a: g),
    "number": ("{d} is one number: it is summed over all axes, and not only over those along which {a} was copied",
               lambda g, a: g.sum()),
    "first axis": ("{d} is always summed over axis 0 where the shapes differ, whichever axis {a} was copied along",
                   if_copied(lambda g: g.sum(0))),
    "first axis kept": ("{d} is always summed over axis 0, with keepdims, where the shapes differ, whichever axis {a} was "
                        "copied along", if_copied(lambda g: g.sum(0, keepdims=True))),
    "last axis": ("{d} is always summed over the last axis where the shapes differ, whichever axis {a} was copied along",
                  if_copied(lambda g: g.sum(-1))),
    "last axis kept": ("{d} is always summed over the last axis, with keepdims, where the shapes differ, whichever axis "
                       "{a} was copied along", if_copied(lambda g: g.sum(-1, keepdims=True))),
    "always first axis": ("{d} is summed over axis 0 whatever the shapes are; sum over the axes along which {a} was "
                          "copied, and over none if there are none", lambda g, a: g.sum(0)),
    "always first axis kept": ("{d} is summed over axis 0, with keepdims, whatever the shapes are; sum over the axes along "
                               "which {a} was copied", lambda g, a: g.sum(0, keepdims=True)),
    "size 1 not summed": ("{d} is summed over the axes that {a} lacks, but not over those where {a} has size 1",
                          sum_of_front),
    "axes in front not summed": ("{d} is summed where {a} has size 1, but not over the leading axes that {a} lacks",
                                 lambda g, a: g.sum(tuple(axis - np.ndim(a) for axis in copied(g, a)[1]), keepdims=True)),
    "no keepdims": ("{d} loses the axes where {a} has size 1: sum over them with keepdims=True",
                    lambda g, a: sum_of_ones(sum_of_front(g, a), a, keepdims=False)),
    "no keepdims, one by one": ("{d} loses the axes where {a} has size 1, and with each of them the others move up: sum "
                                "over them with keepdims=True", one_by_one),
    "axes in front kept": ("{d} keeps the leading axes that {a} lacks, with size 1: sum over them without keepdims",
                           lambda g, a: g.sum((*copied(g, a)[0], *(axis - np.ndim(a) for axis in copied(g, a)[1])),
                                              keepdims=True)),
    "one axis in front": ("{d} is summed over one leading axis only, and {a} may lack several",
                          lambda g, a: sum_of_ones(g.sum(0) if np.ndim(g) > np.ndim(a) else g, a)),
    "size 1 from the front": ("{d} is not summed over the leading axes that {a} lacks, and those where {a} has size 1 are "
                              "counted from the front of the output, not of {a}", sum_of_ones),
    "axes from the front": ("{d} is summed where {a} has size 1 before the leading axes that {a} lacks are gone, so that "
                            "the axes are counted wrongly", from_the_front),
}


def in_gradient(table: dict[str, tuple], d: str, part: str) -> dict[str, tuple]:
    """The mistakes of a table like COPIES in one gradient, such as "db"."""
    a = d.removeprefix("d")
    return replaced(part, {name: (sentence.format(d=d, a=a), wrong) for name, (sentence, wrong) in table.items()})


def add_backward(dout, a, b, *, upstream=same, sum_a=unbroadcast, sum_b=unbroadcast, finish_a=same, finish_b=same):
    dout = upstream(dout)
    return finish_a(sum_a(dout, a)).copy(), finish_b(sum_b(dout, b))


family("broadcast_add", lambda a, b: a + b, add_backward, normal((4, 4), (4,)), {
    **in_gradient(COPIES, "db", "sum_b"),
    "sign": ("db has the wrong sign: it is added, not subtracted", dict(finish_b=lambda g: -g)),
    "no upstream": ("dout is not used: ones are used instead", dict(upstream=np.ones_like)),
    "cut off": ("b gets no gradient", dict(finish_b=lambda g: None)),
})


def mul_backward(
    dout, a, b, *, upstream=same, for_a=lambda dout, other, own: dout * other, for_b=lambda dout, other, own: dout * other,
    sum_a=unbroadcast, sum_b=unbroadcast, finish_a=same, finish_b=same, order=lambda da, db: (da, db),
):
    dout = upstream(dout)
    da = finish_a(sum_a(for_a(dout, b, a), a))
    db = finish_b(sum_b(for_b(dout, a, b), b))
    return order(da, db)


def summed_early(dout, other, own):
    return unbroadcast(dout, own) * other


def sums_multiplied(dout, other, own):
    return unbroadcast(dout, own) * unbroadcast(np.broadcast_to(other, dout.shape), own)


# {name: (the mistake in a gradient d, what replaces dout * the other factor)}
FACTORS = {
    "no factor": ("{d} is dout itself; it should be multiplied by the other factor", lambda dout, other, own: dout),
    "own factor": ("{d} is dout times {a} itself; the derivative of a product by {a} is the other factor",
                   lambda dout, other, own: dout * own),
    "both factors": ("{d} is multiplied by the whole product; the derivative by {a} is the other factor alone",
                     lambda dout, other, own: dout * other * own),
    "divided": ("{d} is divided by the other factor instead of multiplied by it", lambda dout, other, own: dout / other),
    "without dout": ("dout is not used in {d}: the chain rule multiplies the other factor by it",
                     lambda dout, other, own: np.ones_like(dout) * other),
    "sum of factors": ("{d} is dout times the sum of both factors; the derivative by {a} is the other factor alone",
                       lambda dout, other, own: dout * (own + other)),
    "dout added": ("dout is added to the other factor in {d}: the chain rule multiplies",
                   lambda dout, other, own: dout + other),
}
# the same; these are mistakes only if {a} was copied
EARLY = {
    "sums multiplied": ("in {d} the sum of dout is multiplied by the sum of the other factor; multiply first, then sum",
                        sums_multiplied),
}
ENDINGS = {
    "sign": ("{d} has the wrong sign", lambda g: -g),
    "twice": ("{d} is twice too large", lambda g: 2 * g),
    "zero": ("{d} is zero: {a} is taken for a constant", lambda g: 0 * g),
}

family("broadcast_mul", lambda a, b: a * b, mul_backward, normal((4, 4), (1, 4)), {
    **in_gradient(COPIES | SHAPES, "db", "sum_b"),
    **in_gradient(FACTORS | EARLY, "db", "for_b"),
    **in_gradient(ENDINGS, "db", "finish_b"),
    "no upstream": ("dout is not used at all: the chain rule multiplies by it", dict(upstream=np.ones_like)),
    "upstream squared": ("multiplied by dout twice", dict(upstream=lambda dout: dout**2)),
}, telling=normal((2, 2, 3, 3), (1, 3)))
