"""Note 000, "Multi-Headed Self-Attention" and "Queries, Keys, and Values"."""
import numpy as np

import minigrad as mg
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import attend, misprint, normal, plain_attention, randn, require_equal, scrambled, size

claim = claims_of("000")


@claim("A10", "Multi-Headed Self-Attention")
def heads_with_full_rank_read_outs():
    """A block uses a bank of H attention heads in parallel; their outputs, Y_h = A_h X, are combined linearly, with a D x D
    read-out matrix V_h for each.

    formula: Y^(h) = A^(h) X in R^(T x D), Y = sum_h Y^(h) (V^(h))^T, V^(h) in R^(D x D)
    here: Attention(D, H, value=False, scale=1.0)
    """
    H, D, x = 3, 6, normal(7, 5, 6)
    layer = scrambled(plain_attention(D, H, output_projection=True))
    U_q, U_k, V = (np.split(projection.weight.array, H, axis) for projection, axis in (
        (layer.query, 0), (layer.key, 0), (layer.out, 1)))
    expected = sum(attend(x @ q.T, x @ k.T, x) @ v.T for q, k, v in zip(U_q, U_k, V))
    return dict(difference=require_equal(layer(mg.tensor(x)), expected), parameters=size(layer))


@claim("A11", "Queries, Keys, and Values")
def values_are_a_low_rank_read_out():
    """The original paper averages values U_v x of K features, and projects the average back with U_o: a low-rank
    read-out.

    formula: Y^(h) = A^(h) (X (U_v^(h))^T) in R^(T x K), Y = sum_h Y^(h) (U_o^(h))^T
    here: Attention(D, H, value_size=K)
    """
    H, D, K, x = 2, 6, 3, randn(5, 6)
    low = scrambled(plain_attention(D, H, value=True, output_projection=True))
    full = plain_attention(D, H, output_projection=True)
    U_v = np.split(low.value.weight.array, H)
    U_o = np.split(low.out.weight.array, H, axis=1)
    V = [o @ v for o, v in zip(U_o, U_v)]
    full.load_state_dict(low.state_dict() | {"out.weight": np.hstack(V)}, strict=False)
    ranks = [int(np.linalg.matrix_rank(read_out)) for read_out in V]
    require(ranks == [K] * H, f"ranks {ranks} of {D}")
    return dict(difference=require_equal(low(x), full(x)), rank=K, features=D)


@claim("E3", "Queries, Keys, and Values", FALSE)
def the_read_out_is_the_product_with_a_transpose():
    """Values and outputs correspond to a low-rank read-out, V = U_o U_v^T, where U_o is D x K and U_v is K x D.

    formula: V = U_o U_v^T
    here: out.weight @ value.weight of Attention(D, value_size=K): V = U_o U_v
    """
    D, x = 6, randn(5, 6)
    low, square = (plain_attention(D, value=True, output_projection=True, value_size=K) for K in (3, D))

    def with_values(layer, U_v):
        return layer(x), layer(x, need_weights=True)[1][0] @ x @ (layer.out.weight @ U_v).mT

    return misprint([with_values(low, low.value.weight)], [with_values(square, square.value.weight.mT)],
                    [lambda: low.out.weight @ low.value.weight.mT], least=0.01)
