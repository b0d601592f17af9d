"""Note 003, "Positional encoding"."""
import math

import numpy as np

import minigrad as mg
import nn
from nn.position import sinusoidal
from study.notes.attention import Attention
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, products_vary, randn, require_equal, sinusoids, size

claim = claims_of("003")

N, D = 6, 8  # tokens, features


@claim("P2", "Positional encoding", "true if parameters matter; concatenation learns just as well")
def positions_are_added_and_not_concatenated():
    """A position vector could be concatenated with the token or added to it; only the second is recommended.

    formula: [No] x~_n = (x_n, r_n), [Yes] x~_n = x_n + r_n
    here: nn.PositionEncoding("sinusoidal", D, combine="concatenate" or "add")
    measured: loss for the previous token: 0.0004 (0.0003 to 0.0006) with sums, 0.0002 (0.0001 to 0.0002) with
        concatenation, 1.64 (1.63 to 1.66) without positions; 400 steps of Adam at 0.01, 5 seeds
    """
    width, x = 16, randn(N, 16)
    added, joined = (nn.PositionEncoding("sinusoidal", width, combine=combine) for combine in ("add", "concatenate"))
    W = randn(width, width, seed=1)
    same = require_equal(added(x) @ W, joined(x) @ mg.cat([W, W]))
    sizes = [size(Attention(encoding.out_width, key_size=width, value_size=width, output_projection=False))
             for encoding in (added, joined)]
    require(sizes[1] == 2 * sizes[0], f"attention has {sizes} parameters")
    return dict(parameters_added=sizes[0], concatenated=sizes[1], with_a_matrix_twice=same)


@claim("P4", "Positional encoding", "true of the vectors; a model trained with them fails at longer sequences")
def sinusoids_meet_the_demands():
    """Sines in the even and cosines in the odd places are bounded, differ at all positions, generalise to longer sequences
    than those of training, and encode a distance in the same way at any position.

    formula: r_ni = sin(n / L^(i/D)) if i is even, cos(n / L^((i-1)/D)) if i is odd
    here: nn.PositionEncoding("sinusoidal", D)
    also in: 000: Positional Encodings
    measured: the previous token is found at 100% of 16 positions, as in training, and at 40% (37% to 43%) of 64; 400
        steps of Adam at 0.01, 5 seeds
    """
    T, L, shift = 2000, 10_000.0, 7
    r = nn.PositionEncoding("sinusoidal", D).table(T).array
    rotation = np.zeros((D, D))
    for i in range(0, D, 2):
        c = math.cos(shift / L ** (i / D))
        s = math.sin(shift / L ** (i / D))
        rotation[i : i + 2, i : i + 2] = [[c, s], [-s, c]]
    formula = largest(r, sinusoids(T, D))
    shifted = largest(r[shift:], r[:-shift] @ rotation.T)
    products = products_vary(r[:50])
    require(largest(r) <= 1 and closest(r) > 0.1, f"it reaches {largest(r)}; two positions are {closest(r):.0e} apart")
    require(max(formula, shifted, products) < 1e-11, f"formula {formula:.0e}, shift {shifted:.0e}, Gram {products:.0e}")
    return dict(formula=formula, shifted=shifted, products=products, closest=closest(r))


def closest(table: np.ndarray) -> float:
    """The smallest distance between two rows."""
    return float(min(np.linalg.norm(table[step:] - table[:-step], axis=1).min() for step in range(1, len(table))))


@claim("E35", "Positional encoding", "true if L is not 1; the note does not give it")
def the_base_of_the_sinusoids_is_not_given():
    """The entries are sines and cosines of n / L^(i/D).

    formula: sin(n / L^(i/D)), without a word on L
    here: nn.position.sinusoidal(T, D, base=L), by default 10,000
    """
    distances = []
    for L in (1.0, 2.0, 100.0, 10_000.0):
        table = sinusoidal(2000, D, base=L)
        require_equal(table, sinusoids(2000, D, L))
        distances.append(closest(table))
    require(distances[0] < 0.01 and min(distances[1:]) > 0.5, f"smallest distances {distances}")
    return dict(closest=distances)
