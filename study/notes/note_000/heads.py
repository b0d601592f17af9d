"""Note 000, "Multi-Headed Self-Attention" and "Queries, Keys, and Values"."""

import numpy as np

import minigrad as mg
import nn
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import attend, check_gradients, mhsa, misprint, normal, plain_attention, require_equal
from study.notes.note_000.shared import ATTENTION

claim = claims_of("000")


@claim("A10", "Multi-Headed Self-Attention",
       formula="Y^(h) = A^(h) X in R^(T x D), Y = sum_h Y^(h) (V^(h))^T, V^(h) in R^(D x D)",
       ours='Attention(D, H, value=False, output_projection="sum", scale="none")', code=ATTENTION)
def heads_with_full_rank_read_outs():
    """A block uses a bank of H attention heads in parallel; their outputs, Y_h = A_h X, are combined linearly, with a D x D
    read-out matrix V_h for each."""
    H, D, K = 3, 6, 2
    mg.manual_seed(0)
    x = normal(7, 5, D)
    layer = plain_attention(D, H, output_projection="sum", key_size=K)
    U_q, U_k = (projection.weight.array.reshape(H, K, D) for projection in (layer.query, layer.key))
    V = layer.out_weights.array
    expected = sum(attend(x @ U_q[h].T, x @ U_k[h].T, x) @ V[h].T for h in range(H))
    difference = require_equal(layer(mg.tensor(x)), expected)
    count = sum(p.numel() for p in layer.parameters())
    require(count == H * (2 * K * D + D * D), f"{count} parameters")
    check_gradients(layer, x)

    single, without = plain_attention(D, output_projection="sum", key_size=K), plain_attention(D, key_size=K)
    single.out_weights.data[0] = np.eye(D)
    without.load_state_dict({name: single.state_dict()[name] for name in without.state_dict()})
    require_equal(single(mg.tensor(x)), without(mg.tensor(x)))
    packed = nn.MultiHeadAttention(D, H).double()  # the heads of a block, side by side in one matrix
    require_equal(packed(mg.tensor(x[None]))[0], mhsa(packed, x))
    return dict(difference=difference, parameters=count)


@claim("A11", "Queries, Keys, and Values",
       formula="Y^(h) = A^(h) (X (U_v^(h))^T) in R^(T x K), Y = sum_h Y^(h) (U_o^(h))^T",
       ours='Attention(D, H, value=True, value_size=K, output_projection="sum")', code=ATTENTION)
def values_are_a_low_rank_read_out():
    """The original paper averages values U_v x of K features, and projects the average back with U_o: a low-rank
    read-out."""
    H, D, K = 2, 6, 3
    mg.manual_seed(0)
    x = normal(8, 5, D)
    low = plain_attention(D, H, value=True, output_projection="sum", key_size=K, value_size=K)
    full = plain_attention(D, H, output_projection="sum", key_size=K)
    for name in ("query", "key"):
        getattr(full, name).load_state_dict(getattr(low, name).state_dict())
    U_v, U_o = low.value.weight.array.reshape(H, K, D), low.out_weights.array
    full.out_weights.data[...] = U_o @ U_v
    difference = require_equal(low(mg.tensor(x)), full(mg.tensor(x)))
    ranks = [int(np.linalg.matrix_rank(V)) for V in full.out_weights.array]
    require(ranks == [K] * H, f"ranks {ranks} of {D}")
    check_gradients(low, x)
    return dict(difference=difference, rank=ranks[0], features=D)


@claim("E3", "Queries, Keys, and Values", FALSE, formula="V = U_o U_v^T",
       ours="layer.out_weights[h] @ layer.value.weight: V = U_o U_v", code=ATTENTION)
def the_read_out_is_the_product_with_a_transpose():
    """Values and outputs correspond to a low-rank read-out, V = U_o U_v^T, where U_o is D x K and U_v is K x D."""
    mg.manual_seed(0)
    D, x = 6, mg.tensor(normal(30, 5, 6))
    low, square = (plain_attention(D, value=True, output_projection="sum", key_size=2, value_size=K) for K in (3, D))

    def with_values(layer, U_v):
        return layer(x), layer(x, need_weights=True)[1][0] @ x @ (layer.out_weights[0] @ U_v).mT

    return misprint([with_values(low, low.value.weight)], [with_values(square, square.value.weight.mT)],
                    [lambda: low.out_weights[0] @ low.value.weight.mT], least=0.01)
