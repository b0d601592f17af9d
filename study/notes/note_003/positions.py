"""Note 003, "Positional encoding"."""
import itertools
import math

import numpy as np

import minigrad as mg
import nn
from nn.position import sinusoidal
from study.notes.attention import Attention
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, refusal, require_equal

claim = claims_of("003")

N, D = 6, 8  # tokens, features
POSITIONS = "nn/position.py:PositionEncoding"


@claim("P2", "Positional encoding", "true if parameters matter; concatenation learns just as well",
       formula="[No] x~_n = (x_n, r_n), [Yes] x~_n = x_n + r_n",
       ours='nn.PositionEncoding("sinusoidal", D, combine="concatenate" or "add")', code=POSITIONS,
       measured="loss for the previous token: 0.0004 (0.0003 to 0.0006) with sums, 0.0002 (0.0001 to 0.0002) with "
                "concatenation, 1.64 (1.63 to 1.66) without positions; 400 steps of Adam at 0.01, 5 seeds")
def positions_are_added_and_not_concatenated():
    """A position vector could be concatenated with the token or added to it; only the second is recommended."""
    width = 16
    mg.manual_seed(0)
    x = mg.randn(N, width, dtype=mg.float64)
    added, joined = (nn.PositionEncoding("sinusoidal", width, combine=combine) for combine in ("add", "concatenate"))
    W = mg.randn(width, width, dtype=mg.float64)
    require_equal(added(x) @ W, joined(x) @ mg.cat([W, W]))
    require_equal(joined(x)[:, :width], x)

    sizes = [sum(p.numel() for p in Attention(encoding.out_width, key_size=width, value_size=width, bias=True,
                                                 output_projection="none").parameters()) for encoding in (added, joined)]
    require(sizes[1] == sizes[0] + 3 * width * width, f"attention has {sizes} parameters")
    return dict(parameters_added=sizes[0], concatenated=sizes[1])


@claim("P4", "Positional encoding", "true of the vectors; a model trained with them fails at longer sequences",
       formula="r_ni = sin(n / L^(i/D)) if i is even, cos(n / L^((i-1)/D)) if i is odd",
       ours='nn.PositionEncoding("sinusoidal", D)', code="nn/position.py:sinusoidal",
       also=("000: Positional Encodings",),
       measured="the previous token is found at 100% of 16 positions, as in training, and at 40% (37% to 43%) of 64; "
                "400 steps of Adam at 0.01, 5 seeds")
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
    require(largest(r) <= 1, f"it reaches {largest(r)}")
    require(closest(r) > 0.1, f"two positions are only {closest(r):.0e} apart")
    require(max(formula, shifted, toeplitz) < 1e-11, f"formula {formula:.0e}, shift {shifted:.0e}, Gram {toeplitz:.0e}")
    message = refusal(nn.PositionEncoding("learned", D, size=16), mg.zeros(1, 64, D))
    require("positions 'learned'" in message, message)
    return dict(formula=formula, shifted=shifted, products=toeplitz, closest=closest(r))


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
    return dict(closest=distances)
