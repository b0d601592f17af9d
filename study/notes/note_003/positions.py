"""Note 003, "Positional encoding"."""
import functools
import itertools
import math

import numpy as np

import minigrad as mg
import nn
from nn.position import sinusoidal
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, over_seeds, refusal, require_equal
from study.notes.training import Tagger, choices, classes_loss, fit

claim = claims_of("003")

N, D = 6, 8  # tokens, features
POSITIONS = "nn/position.py:PositionEncoding"


class PreviousToken(Tagger):
    """Which token came before each one?"""

    def __init__(self, symbols: int, width: int, kind: str, combine: str = "add", size: int | None = None):
        super().__init__(symbols, symbols, width, kind, size, combine, key_size=width, value_size=width,
                         output_projection="none", bias=True)

    def train_for(self, seed: int, length: int = 8, steps: int = 400) -> float:
        """The last losses."""
        generator, symbols = np.random.default_rng(seed), len(self.embedding.weight)
        return fit(functools.partial(classes_loss, self), self.parameters(),
                   lambda: (x := generator.integers(symbols, size=(32, length)), np.roll(x, 1, axis=1)), steps,
                   lr=1e-2, seed=seed)


@claim("P2", "Positional encoding", "true if parameters matter; concatenation learns just as well",
       formula="[No] x~_n = (x_n, r_n), [Yes] x~_n = x_n + r_n",
       ours='nn.PositionEncoding("sinusoidal", D, combine="concatenate" or "add")', code=POSITIONS)
def positions_are_added_and_not_concatenated():
    """A position vector could be concatenated with the token or added to it; only the second is recommended."""
    width, symbols = 16, 8
    mg.manual_seed(0)
    x = mg.randn(N, width, dtype=mg.float64)
    added, joined = (nn.PositionEncoding("sinusoidal", width, combine=combine) for combine in ("add", "concatenate"))
    W = mg.randn(width, width, dtype=mg.float64)
    require_equal(added(x) @ W, joined(x) @ mg.cat([W, W]))
    require_equal(joined(x)[:, :width], x)

    def loss(kind, combine):
        return over_seeds(lambda seed: PreviousToken(symbols, width, kind, combine).train_for(seed))

    without, of_sum, of_both = loss("none", "add"), loss("sinusoidal", "add"), loss("sinusoidal", "concatenate")
    require(without.median > 1, f"without positions the loss falls to {without:.2f}")
    require(max(of_sum.median, of_both.median) < 0.02, f"losses {of_sum:.3f} and {of_both:.3f}")
    sizes = [sum(p.numel() for p in PreviousToken(symbols, width, "sinusoidal", combine).attention.parameters())
             for combine in ("add", "concatenate")]
    require(sizes[1] == sizes[0] + 3 * width * width, f"attention has {sizes} parameters")
    return (f"both learn which token came before: after 400 steps the loss is {of_sum:.4f} with sums, {of_both:.4f} with "
            f"concatenation, and {without:.2f} without positions; concatenation needs {sizes[1]} parameters of attention "
            f"instead of {sizes[0]}, and a sum is its special case in which tokens and positions share a matrix")


@claim("P4", "Positional encoding", "true of the vectors; a model trained with them fails at longer sequences",
       formula="r_ni = sin(n / L^(i/D)) if i is even, cos(n / L^((i-1)/D)) if i is odd",
       ours='nn.PositionEncoding("sinusoidal", D)', code="nn/position.py:sinusoidal",
       also=("000: Positional Encodings",))
def sinusoids_meet_the_demands():
    """Sines in the even and cosines in the odd places are bounded, differ at all positions, generalise to longer sequences
    than those of training, and encode a distance in the same way at any position."""
    T, L, shift = 2000, 10_000.0, 7
    r, odd = (nn.PositionEncoding("sinusoidal", width).table(T).array for width in (D, 7))
    formula = 0.0
    for table, width in ((r, D), (odd, 7)):
        for n, i in itertools.product((0, 1, 2, 77, T - 1), range(width)):
            entry = math.sin(n / L ** (i / width)) if i % 2 == 0 else math.cos(n / L ** ((i - 1) / width))
            formula = max(formula, abs(table[n, i] - entry))
    rotation = np.zeros((D, D))
    for i in range(0, D, 2):
        c, s = math.cos(shift / L ** (i / D)), math.sin(shift / L ** (i / D))
        rotation[i : i + 2, i : i + 2] = [[c, s], [-s, c]]
    shifted = largest(r[shift:], r[:-shift] @ rotation.T)
    gram = r[:50] @ r[:50].T
    toeplitz = max(np.ptp(np.diag(gram, d)) for d in range(50))
    later = largest(nn.PositionEncoding("sinusoidal", D).table(10, start=T), sinusoidal(T + 10, D)[T:])
    require(largest(r) <= 1, f"it reaches {largest(r)}")
    require(closest(r) > 0.1, f"two positions are only {closest(r):.0e} apart")
    require(max(formula, shifted, toeplitz, later) < 1e-11,
            f"formula {formula:.0e}, shift {shifted:.0e}, Gram {toeplitz:.0e}, later {later:.0e}")

    trained_with, tested_with = 16, 64

    def right(length):
        tokens = np.random.default_rng(99).integers(8, size=(100, length))

        def of(seed):
            model = PreviousToken(8, 16, "sinusoidal")
            model.train_for(seed, trained_with)
            return (choices(model, tokens) == np.roll(tokens, 1, axis=1)).mean()

        return over_seeds(of)

    within, beyond = right(trained_with), right(tested_with)
    require(within.median > 0.99 and beyond.median < 0.8, f"right within {within:.0%}, beyond {beyond:.0%}")
    learned = PreviousToken(8, 16, "learned", size=trained_with)
    message = refusal(lambda: learned(mg.zeros(1, tested_with, dtype=mg.int64)))
    require("positions 'learned'" in message, message)
    return (f"the vectors match the formula within {formula:.0e}, a shift is a rotation within {shifted:.0e}, products "
            f"depend only on the distance within {toeplitz:.0e}, and {T} positions are at least {closest(r):.2f} apart. "
            "There is a vector for every position, but a model has not learned what to do with it: attention trained for "
            f"400 steps to find the previous token is right at {within:.0%} of {trained_with} positions, as in training, "
            f"and at {beyond:.0%} of {tested_with} (with learned positions, {tested_with} are a ValueError)")


def closest(table: np.ndarray) -> float:
    """The smallest distance between two rows."""
    return float(min(np.linalg.norm(table[step:] - table[:-step], axis=1).min() for step in range(1, len(table))))


@claim("E35", "Positional encoding", "true if L is not 1; the note does not give it",
       formula="sin(n / L^(i/D)), without a word on L",
       ours="nn.position.sinusoidal(T, D, base=L), by default 10,000", code="nn/position.py:sinusoidal")
def the_base_of_the_sinusoids_is_not_given():
    """The entries are sines and cosines of n / L^(i/D)."""
    T, bases = 2000, (1.0, 2.0, 100.0, 10_000.0)
    require_equal(sinusoidal(T, D), sinusoidal(T, D, base=10_000.0))
    distances = []
    for L in bases:
        table = sinusoidal(T, D, base=L)
        require_equal(table[:, 2], np.sin(np.arange(T) / L ** (2 / D)))
        distances.append(closest(table))
    require(distances[0] < 0.01 and min(distances[1:]) > 0.5, f"smallest distances {distances}")
    return (f"the two closest of {T} positions with {D} features are "
            + ", ".join(f"{distance:.2g}" for distance in distances)
            + f" apart for L = {', '.join(f'{L:,.0f}' for L in bases)}: at 1 all features have the same frequency, and "
            "positions nearly recur; the others tell them apart")
