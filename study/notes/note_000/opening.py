"""Note 000, the opening and "Preliminaries"."""
import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.encoder_decoder import Encoder
from models.transformer import MLP
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    attend, influence, largest, normal, normalised, operations_in_a_row, plain_attention, randn, require_equal, states_of,
)

claim = claims_of("000")


@claim("C2", "Transformers")
def attention_is_quadratic_and_an_rnn_sequential():
    """Evaluating an RNN and its gradients takes O(T) time, which is a severe limitation; a transformer processes an
    entire sequence in parallel. The cost of attention is O(T²).

    formula: RNN: O(T) time; attention: O(T^2) cost (Conclusion)
    here: nn.RNN(D, D), nn.MultiHeadAttention(D, 2), mg.count_flops()
    also in: 000: Conclusion; 001: Lack of Parallelizability; 001: Problems
    """
    D, lengths, costs, chains = 8, (8, 16, 32), [], []
    attention = nn.MultiHeadAttention(D, 2)
    rnn = states_of(nn.RNN(D, D, batch_first=True))
    for T in lengths:
        x = mg.randn(1, T, D)
        with mg.count_flops() as count:
            attention(x)
        costs.append(count.total - 4 * T * D**2)  # without the projections
        chains.append([operations_in_a_row(layer(x)) for layer in (attention, rnn)])
    of_attention, of_rnn = zip(*chains)
    require(costs == [2 * T**2 * D for T in lengths], f"multiply-adds of pairs: {costs}")
    require(len(set(of_attention)) == 1, f"attention's operations in a row: {of_attention}")
    require(of_rnn[2] - of_rnn[1] == 2 * (of_rnn[1] - of_rnn[0]) > 0, f"an RNN's operations in a row: {of_rnn}")
    return dict(multiply_adds=costs, in_a_row_in_attention=of_attention[0], in_a_row_in_an_rnn=of_rnn)


@claim("L1", "Preliminaries")
def rows_are_tokens():
    """The data are a matrix T x D, whose row t is the vector of the t-th token.

    formula: X^(0) in R^(T x D), with row x_t^(0) in R^D
    here: nn.Embedding(V, D)(ids), Attention(D)
    also in: 001: Sequence-Stacked form of attention; 003: Transformer processing
    """
    embedding, ids = nn.Embedding(5, 6).double(), [4, 0, 4, 2, 1]
    x = embedding(mg.tensor(ids))
    rows = require_equal(x, np.array([embedding.weight.array[i] for i in ids]))
    y = plain_attention(6, query_key="none")(x)
    return dict(rows=rows, attention=require_equal(y, attend(x.array, x.array, x.array)))


@claim("L4", "Preliminaries")
def embeddings_are_learned_or_fixed():
    """A token is the embedding of a word, sub-word or character, either learned with the model or fixed.

    formula: the tokens could be a vector embedding of a word, sub-word, or character ... fixed or learned
    here: nn.Embedding(V, D), nn.Embedding(V, D).requires_grad_(False)
    also in: 002: Modelling with tokens
    """
    ids, upstream = np.array([4, 0, 4, 2, 1]), normal(0, 5, 3)
    learned = nn.Embedding(5, 3).double()
    fixed = nn.Embedding(5, 3).double().requires_grad_(False)
    (learned(mg.tensor(ids)) + fixed(mg.tensor(ids))).backward(mg.tensor(upstream))
    expected = np.array([upstream[ids == i].sum(axis=0) for i in range(5)])
    require(fixed.weight.grad is None, "a fixed embedding has a gradient")
    return dict(gradient=require_equal(learned.weight.grad, expected), largest=largest(expected))


@claim("L3", "Preliminaries")
def blocks_keep_the_shape():
    """A transformer is a stack of M blocks, each applied to the output of the one before; the output has the shape of
    the input.

    formula: X^(m) = transformer-block(X^(m-1))
    here: Encoder(TransformerConfig(layers=M))
    also in: 002: Transformer block; 003: Transformer layers
    """
    x, changes = randn(2, 5, 8), []
    for M in range(5):
        encoder = Encoder(TransformerConfig(context=5, layers=M, heads=2, width=8)).double()
        start = y = x + encoder.position_embedding.weight
        for block in encoder.blocks:
            y = block(y)
        require(y.shape == x.shape, f"{M} blocks made {y.shape} of {x.shape}")
        require_equal(encoder(x), normalised(y.array))
        changes.append(largest(y, start))
    require(changes[0] == 0 < min(changes[1:]), f"the input changed by {changes}")
    return dict(changes=changes)


@claim("A28", "Preliminaries", "true if attention has no values or read-out: these mix features, too")
def a_block_mixes_tokens_and_then_features():
    """A block has two stages: the first combines information across the sequence, the second across features. In note 003's
    words, the first mixes the corresponding features of different tokens, and the second acts on each row alone.

    formula: one that operates vertically, combining information across the sequence length; another that operates
        horizontally, combining information across feature dimensions
    here: Attention(D, value=False, output_projection=False), models.transformer.MLP
    also in: 002: Transformer block; 003: Transformer processing
    """
    x = randn(1, 4, 6)
    reach = influence(MLP(TransformerConfig(heads=1, width=6)).double(), x)
    others = largest(reach - np.diag(np.diag(reach)))
    mixed = []
    for is_projected in (False, True):
        y, A = plain_attention(6, value=is_projected, output_projection=is_projected)(x, need_weights=True)
        mixed.append(largest(y, A[:, 0] @ x))  # which averages the features one by one
    require(others == mixed[0] == 0 < mixed[1], f"MLP {others:.0e}, attention {mixed}")
    return dict(mlp=others, average=mixed[0], with_values=mixed[1])
