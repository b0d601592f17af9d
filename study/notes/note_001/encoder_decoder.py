"""Note 001, "Transformer Encoder", "Putting them both together", and "Problems"."""

import numpy as np

import minigrad as mg
import nn
from models.attention_maps import attention_maps
from models.encoder_decoder import PAD, Decoder, Encoder, EncoderDecoder
from models.task import FIRST
from models.config import TransformerConfig
from models.transformer import Block
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    check_gradients, heads_of, influence, largest, matrices, normal, require_causal,
    require_equal,
)
from study.notes.note_001.decoder import NOTES_BLOCK, centred_scores

claim = claims_of("001")


@claim("G2", "Transformer Encoder", formula="we remove the masking in the self-attention",
       ours="Encoder(config), of Block(config, is_causal=False)", code="models/encoder_decoder.py:Encoder")
def an_encoder_is_a_decoder_without_the_mask():
    """A decoder is limited to unidirectional context. An encoder has bidirectional context, like a bidirectional RNN: the
    masking in the self-attention is removed."""
    mg.manual_seed(0)
    x, rnn = normal(0, 1, 6, 16), nn.RNN(16, 16, batch_first=True, bidirectional=True).double()
    decoder, encoder = Block(NOTES_BLOCK).double(), Block(NOTES_BLOCK, is_causal=False).double()
    encoder.load_state_dict(decoder.state_dict())
    last = require_equal(encoder(mg.tensor(x))[:, -1], decoder(mg.tensor(x))[:, -1])
    whole = Encoder(NOTES_BLOCK).double()
    pairs = [int((influence(layer, x) > 0).sum()) for layer in (decoder, encoder, whole, lambda x: rnn(x)[0])]
    require(pairs == [21, 36, 36, 36], f"pairs with an influence: {pairs}")
    require_causal(influence(decoder, x))
    weakest = influence(whole, x).min()
    require(weakest > 1e-4, f"the weakest influence is {weakest:.0e}")
    by_blocks = mg.tensor(x) + whole.position_embedding.weight[:6]
    for block in whole.blocks:
        by_blocks = block(by_blocks)
    require_equal(whole(mg.tensor(x)), by_blocks)
    padding = mg.tensor([[False] * 4 + [True] * 2])  # which no token looks at
    require_equal(whole(mg.tensor(x), padding)[:, :4], whole(mg.tensor(x[:, :4])))
    return dict(pairs=pairs, weakest=weakest, last_token=last)


SMALL = TransformerConfig(vocabulary_size=13, context=8, layers=1, heads=2, width=32)
def changed_by_each(function, tokens: np.ndarray) -> np.ndarray:
    """(T, S): how much the output at t changes with another symbol at s. function: (B, S) -> (B, T, C)."""
    others = np.repeat(tokens[None], len(tokens) + 1, axis=0)
    others[1:] += np.eye(len(tokens), dtype=int)
    out = function(mg.tensor(others)).array
    return np.abs(out[1:] - out[0]).max(axis=2).T


@claim("G3", "Putting them both together", formula="(a picture)", ours='make_model(task, "encoder-decoder", config)',
       code="models/encoder_decoder.py:EncoderDecoder",
       measured="of new sequences of 4 letters 100.0% are reversed and 99.6% (99.6% to 100.0%) sorted correctly; 200 "
                "steps of AdamW at 0.005, 5 seeds")
def an_encoder_and_a_decoder_are_put_together():
    """Encoder and decoder are put together: the decoder attends to the outputs of the encoder."""
    mg.manual_seed(0)
    model = EncoderDecoder(SMALL).double()
    source, inputs = FIRST + np.arange(5), FIRST + np.arange(4)
    fixed_source, fixed_inputs = mg.tensor(np.tile(source, (5, 1))), mg.tensor(np.tile(inputs, (6, 1)))
    of_memory = changed_by_each(model.encode, source)
    of_logits = changed_by_each(lambda source: model(source, fixed_inputs)[0], source)
    of_inputs = changed_by_each(lambda inputs: model(fixed_source, inputs)[0], inputs)
    weakest = min(of_memory.min(), of_logits.min())
    require(weakest > 1e-4, f"a symbol of the source changes an output by only {weakest:.0e}")
    require_causal(of_inputs)
    padded = np.append(source, [PAD, PAD])[None]
    require_equal(model(mg.tensor(padded), fixed_inputs[:1])[0], model(fixed_source[:1], fixed_inputs[:1])[0])
    return dict(weakest=weakest)


@claim("A18", "Cross-attention", formula="k_i = K h_i, v_i = V h_i, q_i = Q z_i",
       ours="Attention(8, heads=2, memory_width=6)(z, h)", code="study/notes/attention.py:Attention",
       also=("002: Self-attention",))
def cross_attention_takes_queries_from_the_decoder_and_the_rest_from_the_encoder():
    """In self-attention, keys, queries and values come from the same source. In cross-attention, keys and values are
    drawn from the encoder's outputs h, like a memory, and queries from the decoder's inputs z."""
    mg.manual_seed(0)
    z, h = normal(0, 1, 3, 8), normal(1, 1, 5, 6)
    layer = Attention(8, heads=2, memory_width=6).double()
    difference = require_equal(layer(mg.tensor(z), mg.tensor(h))[0], heads_of(layer, z[0], h[0]) @ layer.out.weight.array.T)
    error = check_gradients(layer, z, h)
    same = Attention(8, heads=2).double()
    require_equal(same(mg.tensor(z), mg.tensor(z)), same(mg.tensor(z)))

    decoder = Decoder(TransformerConfig(context=3, layers=1, width=8, heads=2, positions="none", final_norm=False)).double()
    (block,) = decoder.blocks
    for seed, parameter in enumerate(block.parameters()):
        parameter.data[...] = normal(seed, *parameter.shape)
    norms = sum(isinstance(module, nn.LayerNorm) for module in block.modules())
    require(norms == 3, f"{norms} norms for self-attention, cross-attention and the MLP")
    x, memory = mg.tensor(z), mg.tensor(normal(2, 1, 5, 8))
    y = x + block.attention(block.ln_1(x), is_causal=True)
    y = y + block.cross_attention(block.ln_context(y), memory[:, :3])
    y = y + block.mlp(block.ln_2(y))
    require_equal(decoder(x, memory, mg.tensor([[False] * 3 + [True] * 2])), y)
    return dict(difference=difference, gradients=error)


@claim("E26", "Cross-attention", FALSE,
       formula="h_1, ..., h_n output vectors of the encoder; x_i in R^d; z_1, ..., z_n, z_i in R^d",
       ours="EncoderDecoder(config)(source, inputs)", code="models/encoder_decoder.py:EncoderDecoder")
def encoder_and_decoder_have_one_length():
    """The encoder's outputs are h_1 to h_n, where x_i is in R^d, and the decoder's inputs z_1 to z_n: of both there are
    n."""
    mg.manual_seed(0)
    model = EncoderDecoder(SMALL).double()
    source, inputs = (mg.tensor(FIRST + np.arange(n)[None]) for n in (7, 4))
    h = model.encode(source)
    logits, _ = model(source, inputs)
    weights = attention_maps(model, source, inputs)["decoder.blocks.0.cross_attention"]
    require(h.shape == (1, 7, 32) and logits.shape == (1, 4, 13), f"outputs {h.shape}, logits {logits.shape}")
    shape = weights.shape[2:]
    require(shape == (4, 7), f"the weights are {shape}")
    require_equal(weights.sum(-1), np.ones((1, 2, 4)))
    return dict(shape_of_weights=shape)


def rotated(x: np.ndarray) -> np.ndarray:
    """Each pair of features 2i, 2i + 1 of row t turned by the angle t / 10000^(2i / D), as complex numbers."""
    T, D = x.shape
    angles = np.arange(T)[:, None] / 10_000 ** (np.arange(0, D, 2) / D)
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=2).reshape(T, D)


def scores_with_positions(layer: Attention, X: np.ndarray) -> np.ndarray:
    """Of each head, (H, T, T), from the formulas; each row's mean is 0."""
    Q, K, _ = (np.split(matrix, layer.heads, axis=1) for matrix in matrices(layer))
    T, scores = len(X), []
    for head in range(layer.heads):
        q, k = X @ Q[head], X @ K[head]
        q, k = (rotated(q), rotated(k)) if layer.positions == "rotary" else (q, k)
        bias = np.zeros((T, T))
        if layer.positions == "relative":
            table, most = layer.relative_bias.array[head], layer.max_distance
            bias = np.array([[table[most + t - s] for s in range(T)] for t in range(T)])
        scores.append(q @ k.T / np.sqrt(layer.key_size) + bias)
    return np.array(scores) - np.mean(scores, axis=-1, keepdims=True)


@claim("P8", "Problems", "true if texts may be longer than in training",
       formula="Simple absolute indices are not the best way to represent position",
       ours='Attention(8, heads=2, positions="rotary" or "relative")', code="study/notes/attention.py:Attention",
       measured="a layer that names the token 2 places before, trained on texts of 8, is right at places 9 to 16 with "
                "learned positions 22% (20% to 24%), sinusoids 29% (20% to 43%), relative 80% (78% to 81%), rotary 66% "
                "(65% to 73%), by chance 17%; 300 steps of Adam at 0.01, 5 seeds")
def absolute_indices_are_not_the_best_positions():
    """Simple absolute indices are not the best way to represent position."""
    mg.manual_seed(0)
    D, ahead, tokens = 8, normal(0, 7, 8), normal(1, 5, 8)
    moved = {}
    for positions in ("rotary", "relative", "none"):
        layer = Attention(D, heads=2, positions=positions).double()
        if positions == "relative":
            layer.relative_bias.data[...] = normal(2, *layer.relative_bias.shape)
        absolute = nn.PositionEncoding("sinusoidal" if positions == "none" else "none", D)
        inputs = [absolute(mg.tensor(x)) for x in (tokens, np.vstack([ahead, tokens]))]
        at_start, later = (centred_scores(layer(x, need_weights=True)[1]) for x in inputs)
        require_equal(at_start, scores_with_positions(layer, inputs[0].array))
        moved[positions] = largest(at_start, centred_scores(np.exp(later[:, 7:, 7:])))
    require(max(moved["rotary"], moved["relative"]) < 1e-12 and moved["none"] > 0.01, f"7 places later: {moved}")
    return dict(**{f"moved_{positions}": change for positions, change in moved.items()})
