"""Note 003, "Attention" to "Multi-head attention": tokens are the rows of X (N, D)."""
import numpy as np

import minigrad as mg
import nn
from models.task import FIRST
from models.tasks import TASKS
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    attend, heads_of, matrices, mhsa, misprint, normal, plain_attention, randn, refusal, require_equal, scrambled, softmax,
)

claim = claims_of("003")

N, D = 6, 8  # tokens, features


@claim("G31", "Attention")
def bank_attends_to_the_telling_word():
    """To find out which bank is meant, a network should attend to specific words of the sentence, such as river or cash,
    whose places depend on the sentence.

    formula: swam, river -> bank of a river; cash -> financial institution
    here: Attention(D)(x, need_weights=True)
    measured: the meaning of 100% of new sentences is right; of 8 words, the telling one, wherever it is, gets 0.98
        (0.68 to 1.00) of the weight (uniform: 0.12); 300 steps of Adam at 0.01, 5 seeds
    """
    words, is_money = TASKS["bank"].make(np.random.default_rng(99), 500, 8)
    tells = (words > FIRST) & (words <= FIRST + 8)  # river ... account
    require((tells.sum(axis=1) == 1).all(), "a sentence does not have exactly one telling word")
    require(np.array_equal(words[tells] > FIRST + 4, is_money == 1), "the telling word does not say which bank is meant")
    V = words.max() + 1
    layer = plain_attention(V, key_size=1)
    layer.query.weight.data[...], layer.key.weight.data[...] = 1.0, 0.0
    layer.key.weight.data[0, FIRST + 1 : FIRST + 9] = 10.0  # asks for such a word, wherever it is
    weights = layer(mg.tensor(np.eye(V)[words]), need_weights=True)[1].array[:, 0, -1]
    least = weights[tells].min()
    require(least > 0.99 and len(set(tells.argmax(axis=1))) == 7, f"the telling word gets {least:.2f}")
    return dict(weight=least, uniform=1 / 8)


@claim("A7", "Network parameters")
def queries_keys_and_values():
    """Three matrices turn tokens into queries, keys and values, and Y = softmax(Q Kᵀ) V. Values may have another size
    than keys.

    formula: Q = X W^(q), K = X W^(k), V = X W^(v), Y = softmax(Q K^T) V
    here: Attention(D, key_size=D_k, value_size=D_v, scale=1.0, output_projection=False)
    also in: 001: Sequence-Stacked form of attention; 004: Self-Attention
    """
    X = normal(0, N, D)
    layer = scrambled(Attention(D, key_size=3, value_size=5, output_projection=False, scale=1.0))
    Q, K, V = (X @ matrix for matrix in matrices(layer))
    difference = require_equal(layer(mg.tensor(X)), attend(Q, K, V))
    square = plain_attention(D, value=True)
    plain = plain_attention(D, query_key="none")
    for projection in (square.query, square.key, square.value):
        projection.weight.data[...] = np.eye(D)
    identity = max(require_equal(layer(mg.tensor(X)), softmax(X @ X.T) @ X) for layer in (square, plain))
    return dict(difference=difference, without_parameters=identity)


@claim("A44", "Network parameters", "true if no matrix W^(o) follows")
def values_as_wide_as_tokens():
    """If D_v = D, residual connections are easy to include, and layers can be stacked.

    formula: D_v = D
    here: x + Attention(D, value_size=D, output_projection=False)(x)
    """
    X = normal(0, N, D)
    layers = [Attention(D, value_size=D, output_projection=False).double() for _ in range(3)]
    ours, expected = mg.tensor(X), X
    for layer in layers:
        ours = ours + layer(ours)
        expected = expected + heads_of(layer, expected)
    narrow = Attention(D, value_size=5, output_projection=False).double()
    refusal(lambda: mg.tensor(X) + narrow(mg.tensor(X)))
    refusal(lambda: narrow(narrow(mg.tensor(X))))
    shape = Attention(D, value_size=5).double()(mg.tensor(X)).shape
    require(shape == (N, D), f"with W^(o) the shape is {shape}")
    return dict(difference=require_equal(ours, expected))


@claim("E8", "Network parameters", FALSE)
def the_shape_of_the_projections():
    """The matrices of queries and keys are N x D_k, that of values N x D_v. There are C heads, and W^(o) is H D_v x D.

    formula: W^(q), W^(k): N x D_k, W^(v): N x D_v; C heads, W^(o): H D_v x D
    here: Attention(D, heads=C, key_size=D_k, value_size=D_v): W^(q) is D x C D_k, W^(o) is C D_v x D
    also in: 003: Multi-head attention
    """
    D_k, D_v, C = 3, 5, 2
    X = randn(N, D)
    layer = Attention(D, heads=C, key_size=D_k, value_size=D_v).double()
    W_q, W_k, W_v = matrices(layer)
    shapes = [W.shape for W in (W_q, W_k, W_v, layer.out.weight.T)]
    require(shapes == [(D, C * D_k), (D, C * D_k), (D, C * D_v), (C * D_v, D)], f"the layer's shapes are {shapes}")
    return misprint([(X @ mg.tensor(W_q), layer.query(X))], refused=[lambda: X @ randn(N, D_k)])


@claim("A16", "Scaled self-attention")
def the_variance_of_a_dot_product():
    """If all entries of q and k are independent with mean 0 and variance 1, q . k has variance D_k; so logits should be
    divided by its square root.

    formula: var(q^T k) = D_k; softmax(Q K^T / sqrt(D_k)) V
    here: Attention(D_k), where scale is 1 / sqrt(key_size) by default
    """
    variances, scaled = [], []
    for D_k in (4, 64, 256):
        q = mg.randn(400, D_k, dtype=mg.float64)
        k = mg.randn(400, D_k, dtype=mg.float64)
        layer = Attention(D_k, query_key="none", value=False, output_projection=False)
        logits = np.log(layer(q, k, need_weights=True)[1].array)  # up to a number for each row
        variances.append((q @ k.mT).var().item())
        scaled.append((logits - logits.mean(axis=-1, keepdims=True)).var())
        require(abs(variances[-1] / D_k - 1) < 0.1, f"for D_k = {D_k} the variance is {variances[-1]:.1f}")
        require(abs(scaled[-1] - 1) < 0.1, f"for D_k = {D_k} the layer's logits have the variance {scaled[-1]:.2f}")
    return dict(variances=variances, of_the_layers_logits=scaled)


@claim("A13", "Multi-head attention")
def concatenated_heads_times_a_matrix():
    """The heads are concatenated, and one matrix maps them to the output, Y = (H_1, ..., H_C) W^(o).

    formula: Y = (H_1, ..., H_C) W^(o)
    here: Attention(D, heads=C)
    also in: 000: Multi-Headed Self-Attention; 000: Queries, Keys, and Values; 001: Multi-headed attention; 004:
        Self-Attention
    """
    X = normal(0, N, D)
    layer = Attention(D, heads=2).double()
    packed = nn.MultiHeadAttention(D, 2).double()
    heads, W_o = heads_of(layer, X), layer.out.weight.array.T
    summed = sum(H_c @ W_c for H_c, W_c in zip(np.split(heads, 2, axis=1), np.split(W_o, 2)))  # a matrix for each head
    y = layer(mg.tensor(X))
    return dict(difference=require_equal(y, heads @ W_o), summed=require_equal(y, summed),
                in_a_block=require_equal(packed(mg.tensor(X[None]))[0], mhsa(packed, X)))


@claim("A45", "Multi-head attention")
def heads_attend_to_several_patterns():
    """Several heads in parallel can attend to several patterns in the data at the same time.

    formula: H_c = Attention(Q_c, K_c, V_c), c = 1 ... C
    here: Attention(D, heads=C)
    also in: 000: Multi-Headed Self-Attention; 001: Multi-headed attention
    measured: asked for the tokens before and after each token, two heads are right 100%, and one head as wide as both
        60% (60% to 61%); 600 steps of Adam at 0.01, 5 seeds
    """
    before, after = (np.roll(np.eye(N), shift, axis=0) for shift in (1, -1))  # one-hot tokens, before and after each
    one = plain_attention(N, key_size=N)
    two = plain_attention(N, 2, key_size=N)
    for layer, wanted in ((one, [before + after]), (two, [before, after])):
        layer.query.weight.data[...] = 100 * np.vstack([rows.T for rows in wanted])
        layer.key.weight.data[...] = np.vstack([np.eye(N)] * len(wanted))
    x = mg.tensor(np.eye(N))
    both = require_equal(two(x), np.hstack([before, after]))
    averaged = require_equal(one(x), (before + after) / 2)  # a read-out cannot tell which is which
    return dict(both=both, averaged_by_one_head=averaged)
