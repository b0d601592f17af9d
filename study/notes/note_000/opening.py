"""Note 000, the opening and "Preliminaries"."""
import dataclasses

import numpy as np

import minigrad as mg
import nn
from models.encoder_decoder import Encoder
from models.config import TransformerConfig
from models.transformer import MLP
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    attend, influence, largest, longest_chain, mhsa, normal, normalised, plain_attention, require_equal,
)
from study.notes.note_000.shared import ATTENTION

claim = claims_of("000")


@claim("C2", "Transformers", formula="RNN: O(T) time; attention: O(T^2) cost (Conclusion)",
       ours="nn.RNN(D, D), nn.MultiHeadAttention(D, 2), mg.count_flops()",
       code="nn/recurrent.py:RNN, minigrad/tracing/flops.py",
       also=("000: Conclusion", "001: Lack of Parallelizability", "001: Problems"))
def attention_is_quadratic_and_an_rnn_sequential():
    """Evaluating an RNN and its gradients takes O(T) time, which is a severe limitation; a transformer processes an
    entire sequence in parallel. The cost of attention is O(T²)."""
    D, lengths = 8, (8, 16, 32)
    mg.manual_seed(0)
    attention, rnn = nn.MultiHeadAttention(D, 2).double(), nn.RNN(D, D, batch_first=True).double()
    pairs, depths = [], []
    for T in lengths:
        x = mg.tensor(normal(T, 1, T, D))
        with mg.count_flops() as of_attention:
            y = attention(x)
        require_equal(y[0], mhsa(attention, x.array[0]))
        with mg.count_flops() as of_rnn:
            states, _ = rnn(x)
        linear = of_attention.forward_counts["Linear"]
        pairs.append(of_attention.total - linear)
        depths.append((longest_chain(y), longest_chain(states)))
        require(linear == 4 * T * D**2 and pairs[-1] == 2 * T**2 * D, f"T = {T}: {of_attention.forward_counts}")
        require(of_rnn.total == 2 * T * D**2, f"T = {T}: {of_rnn.forward_counts}")
    of_attention, of_rnn = zip(*depths)
    each = (of_rnn[1] - of_rnn[0]) // 8
    require(len(set(of_attention)) == 1, f"attention's operations in a row: {of_attention}")
    require(each >= 1 and of_rnn[2] - of_rnn[1] == 16 * each, f"an RNN's operations in a row: {of_rnn}")
    return dict(multiply_adds=pairs, in_a_row_in_attention=of_attention[0], in_a_row_in_an_rnn=of_rnn)


@claim("L1", "Preliminaries", formula="X^(0) in R^(T x D), with row x_t^(0) in R^D",
       ours='nn.Embedding(V, D)(ids), Attention(D, layout="rows")', code=f"nn/embedding.py:Embedding, {ATTENTION}",
       also=("001: Sequence-Stacked form of attention", "003: Transformer processing"))
def rows_are_tokens():
    """The data are a matrix T x D, whose row t is the vector of the t-th token."""
    mg.manual_seed(0)
    ids = [4, 0, 4, 2, 1]
    embedding = nn.Embedding(5, 6).double()
    x = embedding(mg.tensor(ids))
    require(x.shape == (5, 6), f"5 tokens of 6 features have shape {x.shape}")
    require(all(np.array_equal(x.array[t], embedding.weight.array[i]) for t, i in enumerate(ids)), "rows are mixed up")
    attention = plain_attention(6, query_key="none")
    y = attention(x)
    difference = require_equal(y, attend(x.array, x.array, x.array))
    columns = require_equal(plain_attention(6, query_key="none", layout="columns")(x.mT).mT, y)
    require_equal(attention(mg.stack([x, x.flip(0)]))[0], y)
    return dict(rows=difference, columns=columns)


@claim("L4", "Preliminaries",
       formula="the tokens could be a vector embedding of a word, sub-word, or character ... fixed or learned",
       ours="nn.Embedding(V, D), nn.Embedding(V, D).requires_grad_(False)", code="nn/embedding.py:Embedding",
       also=("002: Modelling with tokens",))
def embeddings_are_learned_or_fixed():
    """A token is the embedding of a word, sub-word or character, either learned with the model or fixed."""
    mg.manual_seed(0)
    ids = np.array([[4, 0, 4, 2, 1]])
    learned, upstream = nn.Embedding(5, 3).double(), normal(0, 1, 5, 3)
    learned(mg.tensor(ids)).backward(mg.tensor(upstream))
    expected = np.zeros((5, 3))
    np.add.at(expected, ids, upstream)
    gradient = require_equal(learned.weight.grad, expected)

    ids = mg.tensor([[1, 2, 1, 5], [1, 0, 2, 2]])
    fixed, head = nn.Embedding(6, 3).double().requires_grad_(False), nn.Linear(3, 2).double()
    before, head_before = fixed.weight.array.copy(), head.weight.array.copy()
    optimizer = nn.optim.AdamW([*fixed.parameters(), *head.parameters()], lr=0.1, weight_decay=0.1)
    head(fixed(ids)).square().sum().backward()
    optimizer.step()
    require(fixed.weight.grad is None and np.array_equal(fixed.weight.array, before), "a fixed embedding has moved")
    moved = largest(head.weight, head_before)
    require(moved > 0, "nothing has moved")
    return dict(gradient=gradient, layer_above_moves=moved)


@claim("L3", "Preliminaries", formula="X^(m) = transformer-block(X^(m-1))",
       ours="models.Encoder(TransformerConfig(layers=M, final_norm=False))", code="models/encoder_decoder.py:Encoder",
       also=("002: Transformer block", "003: Transformer layers"))
def blocks_keep_the_shape():
    """A transformer is a stack of M blocks, each applied to the output of the one before; the output has the shape of
    the input."""
    x, changes = mg.tensor(normal(0, 2, 5, 8)), []
    for M in range(5):
        mg.manual_seed(M)
        config = TransformerConfig(context=5, layers=M, heads=2, width=8, final_norm=False)
        encoder = Encoder(config).double()
        start = x + encoder.position_embedding.weight.detach()
        y, one_by_one = encoder(x), start
        require(len(encoder.blocks) == M, f"{len(encoder.blocks)} blocks instead of {M}")
        for block in encoder.blocks:
            one_by_one = block(one_by_one)
        require(y.shape == x.shape, f"{M} blocks made {y.shape} of {x.shape}")
        require_equal(y, one_by_one)
        with_norm = Encoder(dataclasses.replace(config, final_norm=True)).double()
        with_norm.load_state_dict(encoder.state_dict(), strict=False)
        require_equal(with_norm(x), normalised(one_by_one.array))
        changes.append(largest(y, start))
    require(changes[0] == 0 and min(changes[1:]) > 0, f"the input changed by {changes}")
    return dict(changes=changes)


@claim("A28", "Preliminaries", "true if attention has no values or read-out: these mix features, too",
       formula="one that operates vertically, combining information across the sequence length; another that operates "
               "horizontally, combining information across feature dimensions",
       ours="Attention(D, value=False, output_projection=\"none\"), models.transformer.MLP",
       code=f"{ATTENTION}, models/transformer.py:MLP", also=("002: Transformer block", "003: Transformer processing"))
def a_block_mixes_tokens_and_then_features():
    """A block has two stages: the first combines information across the sequence, the second across features. In note 003's
    words, the first mixes the corresponding features of different tokens, and the second acts on each row alone."""
    T, D, x = 4, 6, mg.tensor(normal(0, 4, 6))
    mg.manual_seed(0)
    mlp = MLP(TransformerConfig(heads=1, width=D)).double()
    others_of_mlp = np.delete(influence(mlp, x.array[None]), np.arange(0, T * T, T + 1))
    mixed = {}
    for name, switches in (("plain", {}), ("with values", {"value": True, "output_projection": "concat"})):
        layer = plain_attention(D, **switches)
        A = layer(x, need_weights=True)[1].detach()
        change = np.zeros((T, D))
        change[:, 0] = normal(1, T)  # of the first feature alone, of what is averaged
        moved = A[0] @ mg.tensor(change) if name == "plain" else layer.out(A[0] @ layer.value(mg.tensor(change)))
        mixed[name] = float(np.abs(moved.array[:, 1:]).max())
        require(largest(moved[:, 0]) > 0.01, "the first feature does not change")
    require(mixed["plain"] == 0 < mixed["with values"] and not others_of_mlp.any(), f"{mixed}, {others_of_mlp.max():.0e}")
    return dict(mlp=others_of_mlp.max(), average=mixed["plain"], with_values=mixed["with values"])
