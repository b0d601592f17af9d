"""Note 000, "Positional Encodings" and "Autoregressive Modeling"."""
import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.config import TransformerConfig
from models.encoder_decoder import Classifier, Encoder
from models.generate import draw
from models.transformer import CausalTransformer, scale_of_tokens
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    EXACT, influence, largest, over_seeds, randn, require_causal, require_equal, scrambled, sinusoids, softmax,
)
from study.notes.note_000.shared import small_model

claim = claims_of("000")


@claim("L5", "Positional Encodings")
def sets_and_image_patches():
    """Except for the triangular constraint on attention, a transformer does not know the order of tokens: it treats them
    as a set. So it works for other data too, such as images cut into patches.

    formula: the transformer essentially treats the data as an unordered set of tokens
    here: TransformerConfig(positions="none"), nn.patchify(images, 2)
    also in: 002: Modelling with tokens; 004: Transformers
    """
    def change(model):
        """Of the logits, if all tokens but the last come in another order."""
        scrambled(model)
        before, after = (model(mg.tensor([ids]))[0].array for ids in ([3, 4, 5, 6, 7, 8], [6, 3, 7, 5, 4, 8]))
        return largest(before, after) if before.ndim == 2 else largest(before[:, -1], after[:, -1])

    none, waves = (TransformerConfig(vocabulary_size=9, context=6, layers=2, heads=2, width=8, positions=positions)
                   for positions in ("none", "sinusoidal"))
    a_set = change(Classifier(none, 3))
    positioned = change(Classifier(waves, 3))
    causal = change(CausalTransformer(none))
    require(a_set < EXACT, f"a set in another order changes logits by {a_set:.0e}")
    require(min(causal, positioned) > 1e-3, f"another order changes logits by {causal}, {positioned}")

    images = randn(2, 1, 8, 8)
    patches = nn.patchify(images, 2).array.reshape(2, 4, 4, 2, 2)  # 16 tokens of 4 features: 4 x 4 patches of 2 x 2 pixels
    require_equal(images[:, 0], patches.swapaxes(2, 3).reshape(2, 8, 8))
    return dict(permuted=a_set, permuted_with_positions=positioned, permuted_and_causal=causal)


@claim("P1", "Positional Encodings")
def positions_are_added_to_content():
    """A simple way to encode order is to add a position to the content of each token: x_t = c_t + p_t.

    formula: x_t^(0) = c_t + p_t
    here: nn.PositionEncoding("learned" | "sinusoidal", D), TransformerConfig(positions=...)
    also in: 001: 1. Sequence order; 003: Positional encoding
    """
    T, D, differences = 4, 6, []
    content = randn(3, T, D)
    encoding = nn.PositionEncoding("learned", D, size=T).double()
    require_equal(encoding(content), content + encoding.weight)
    for positions in ("learned", "sinusoidal"):  # in a model
        encoder = Encoder(TransformerConfig(context=T, layers=1, heads=1, width=D, positions=positions)).double()
        table = encoder.position_embedding.weight.array if positions == "learned" else sinusoids(T, D)
        expected = content.array * scale_of_tokens(encoder.config) + table
        differences.append(require_equal(encoder.embed(content), expected))
    return dict(difference=max(differences))


@claim("T1", "Autoregressive Modeling")
def the_next_token_is_drawn_from_a_softmax():
    """The next word, one of V, is drawn from a categorical distribution with the probabilities softmax(W x_t).

    formula: l_(t+1) ~ Cat(softmax(W x_t^(M)))
    here: models.CausalTransformer, models.generate
    """
    model = small_model()
    tokens = mg.tensor([[3, 1, 4, 5]])
    targets = np.array([1, 4, 5, 9])
    logits = model.run(tokens).array[0] @ model.token_embedding.weight.array.T
    p, count = softmax(logits), 20_000
    loss = require_equal(model(tokens, mg.tensor(targets[None]))[1], -np.log(p[np.arange(4), targets]).mean())

    def chi_square(seed):
        drawn = draw(np.tile(logits[-1], (count, 1)), 1.0, None, None, np.random.default_rng(seed))
        return ((np.bincount(drawn, minlength=11) - count * p[-1]) ** 2 / (count * p[-1])).sum()

    deviation = over_seeds(chi_square)
    require(deviation.median < 18.3, f"chi-square {deviation:.1f}, of 10 degrees of freedom 5 % exceed 18.3")
    return dict(loss=loss, chi_square_of_draws=deviation)


@claim("T8", "Autoregressive Modeling")
def the_read_out_is_a_matrix_of_its_own():
    """Predictions are made from the final layer's representations by a matrix W of V x D.

    formula: W in R^(V x D)
    here: model.token_embedding.weight; a W of its own is nn.Linear(D, V, bias=False)
    """
    model = small_model()
    tokens = mg.tensor([[3, 1, 4, 5]])
    targets = mg.tensor([1, 4, 5, 9])
    embedding = model.token_embedding.weight
    W = mg.tensor(embedding.array.copy(), requires_grad=True)  # of its own
    _, tied = model(tokens, targets[None])
    own = F.cross_entropy((model.run(tokens) @ W.T)[0], targets)
    (of_both,) = mg.grad(tied, [embedding])
    of_embedding, of_W = mg.grad(own, [embedding, W])
    difference = require_equal(of_both, of_embedding + of_W)
    require(min(largest(of_W), largest(of_embedding)) > 0.01, "one of the two gradients is missing")
    require(W.shape == (11, 16), f"W is {W.shape}")
    return dict(saved_parameters=W.numel(), tied_is_the_sum=difference)


@claim("T9", "Autoregressive Modeling")
def the_last_layer_knows_all_that_is_past():
    """Like the hidden states of an RNN, the final layer's representations combine information from all tokens up to and
    including their own.

    formula: the final layer's representations x_t^(M) combine information from all tokens up to and including t
    here: models.CausalTransformer
    """
    least = require_causal(influence(small_model().run, randn(1, 6, 16)))
    require(least > 1e-3, f"the least influence is {least:.0e}")
    return dict(least_influence=least)
