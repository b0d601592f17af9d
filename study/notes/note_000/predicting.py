"""Note 000, "Positional Encodings" and "Autoregressive Modeling"."""
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.encoder_decoder import Classifier, Encoder
from models.generate import draw
from models.config import TransformerConfig
from models.transformer import CausalTransformer, scale_of_tokens
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, largest, normal, over_seeds, require_causal, require_equal, softmax,
)
from study.notes.note_000.shared import TRANSFORMER, small_model

claim = claims_of("000")


@claim("L5", "Positional Encodings",
       formula="the transformer essentially treats the data as an unordered set of tokens",
       ours='TransformerConfig(positions="none"), nn.patchify(images, 2)', code="nn/patches.py:patchify",
       also=("002: Modelling with tokens", "004: Transformers"))
def sets_and_image_patches():
    """Except for the triangular constraint on attention, a transformer does not know the order of tokens: it treats them
    as a set. So it works for other data too, such as images cut into patches."""
    ids, shuffled = mg.tensor(np.arange(3, 9)[None]), mg.tensor([[6, 3, 7, 5, 4, 8]])  # the last one stays
    changes = {}
    for name, kind, positions in (("none", Classifier, "none"), ("causal", CausalTransformer, "none"),
                                  ("positions", Classifier, "sinusoidal")):
        config = TransformerConfig(vocabulary_size=9, context=6, layers=2, heads=2, width=8, dtype="float64",
                                   positions=positions)
        model = kind(config, 3) if kind is Classifier else kind(config)
        for seed, parameter in enumerate(model.parameters()):
            parameter.data[...] = normal(seed, *parameter.shape)
        before, after = (model(tokens)[0].array for tokens in (ids, shuffled))
        changes[name] = largest(before, after) if kind is Classifier else largest(before[:, -1], after[:, -1])
    require(changes["none"] < EXACT, f"a set in another order changes logits by {changes['none']:.0e}")
    require(min(changes["causal"], changes["positions"]) > 1e-3, f"another order changes logits by {changes}")

    images = mg.tensor(normal(0, 2, 1, 8, 8))
    patches = nn.patchify(images, 2)
    require(patches.shape == (2, 16, 4), f"patches of shape {patches.shape}")
    for row, column in np.ndindex(4, 4):
        own = images.array[1, 0, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        require(np.array_equal(patches.array[1, 4 * row + column].reshape(2, 2), own), f"patch {row}, {column} is wrong")
    return dict(permuted=changes["none"], permuted_with_positions=changes["positions"],
                permuted_and_causal=changes["causal"])


@claim("P1", "Positional Encodings", formula="x_t^(0) = c_t + p_t",
       ours='nn.PositionEncoding("learned" | "sinusoidal", D), TransformerConfig(positions=...)',
       code="nn/position.py:PositionEncoding", also=("001: 1. Sequence order", "003: Positional encoding"))
def positions_are_added_to_content():
    """A simple way to encode order is to add a position to the content of each token: x_t = c_t + p_t."""
    mg.manual_seed(0)
    B, T, D = 3, 4, 6
    encoding = nn.PositionEncoding("learned", D, size=7).double()
    content = mg.tensor(normal(21, B, T, D), requires_grad=True)
    x = encoding(content)
    require(np.array_equal(x.array, content.array + encoding.weight.array[:T]), "it is not the sum")
    waves = nn.PositionEncoding("sinusoidal", D)(content)
    basis = [[(math.cos if i % 2 else math.sin)(t / 10_000 ** (i // 2 * 2 / D)) for i in range(D)] for t in range(T)]
    require_equal(waves, content.array + basis)
    for kind in ("learned", "sinusoidal"):  # in a model, too
        encoder = Encoder(TransformerConfig(context=7, layers=1, heads=1, width=D, positions=kind)).double()
        table = encoder.position_embedding.weight.array[:T] if kind == "learned" else basis
        require_equal(encoder.embed(content), content.array * scale_of_tokens(encoder.config) + table)
    x.tanh().backward(mg.tensor(normal(22, B, T, D)))
    gradient = encoding.weight.grad.array.copy()
    difference = require_equal(gradient[:T], content.grad.array.sum(0))
    require(not gradient[T:].any(), "positions that are not there have a gradient")

    check_gradients(encoding, normal(24, T, D))
    return dict(difference=difference)


def read_out(model: CausalTransformer, tokens: Tensor) -> Tensor:
    """x_t^(M) for all t, which the model multiplies by W, (B, T, D)."""
    found = []
    handle = model.ln_f.register_forward_hook(lambda module, inputs, output: found.append(output))
    logits, _ = model(tokens)
    handle.remove()
    require_equal(logits, found[0].array @ model.token_embedding.weight.array.T)
    return found[0]


@claim("T1", "Autoregressive Modeling", formula="l_(t+1) ~ Cat(softmax(W x_t^(M)))",
       ours="models.CausalTransformer, models.generate",
       code=f"{TRANSFORMER}:CausalTransformer, models/generate.py:draw")
def the_next_token_is_drawn_from_a_softmax():
    """The next word, one of V, is drawn from a categorical distribution with the probabilities softmax(W x_t)."""
    V, T, count, scores = 50, 32, 20_000, normal(25, 8)
    config = TransformerConfig(vocabulary_size=V, context=T, layers=2, heads=2, width=16, dtype="float64")
    expected = count * softmax(scores[None])[0]

    def excess_of_the_first_loss(seed):
        model, generator = CausalTransformer(config), np.random.default_rng(seed)
        tokens, targets = (mg.tensor(generator.integers(0, V, (8, T))) for _ in range(2))
        read_out(model, tokens)
        logits, loss = model(tokens, targets)
        p = softmax(logits.array).reshape(-1, V)
        require_equal(loss, -np.log(p[np.arange(8 * T), targets.array.ravel()]).mean())
        return loss.item() - math.log(V)

    def chi_square(seed):
        drawn = draw(np.tile(scores, (count, 1)), 1.0, None, None, np.random.default_rng(seed))
        return ((np.bincount(drawn, minlength=8) - expected) ** 2 / expected).sum()

    excess, deviation = over_seeds(excess_of_the_first_loss), over_seeds(chi_square)
    require(abs(excess.median) < 0.05, f"the first loss exceeds ln V by {excess:.3f}")
    require(deviation.median < 14, f"chi-square {deviation:.1f}, of 7 degrees of freedom 5 % exceed 14.1")
    return dict(first_loss_beyond_ln_v=excess, chi_square_of_draws=deviation)


@claim("T8", "Autoregressive Modeling", formula="W in R^(V x D)",
       ours="model.token_embedding.weight; a W of its own is nn.Linear(D, V, bias=False)",
       code=f"{TRANSFORMER}:CausalTransformer")
def the_read_out_is_a_matrix_of_its_own():
    """Predictions are made from the final layer's representations by a matrix W of V x D."""
    model, generator = small_model(), np.random.default_rng(0)
    V, D = model.token_embedding.weight.shape
    tokens, targets = (mg.tensor(generator.integers(0, V, (2, 6))) for _ in range(2))
    _, loss = model(tokens, targets)
    loss.backward()
    tied = model.token_embedding.weight.grad.array.copy()

    model.zero_grad()
    own = nn.Linear(D, V, bias=False).double()
    own.weight.data[...] = model.token_embedding.weight.array
    x = read_out(model, tokens)
    F.cross_entropy(own(x).reshape(-1, V), targets.reshape(-1)).backward()
    of_embedding = model.token_embedding.weight.grad.array
    surplus = softmax(own(x).array) - np.eye(V)[targets.array]  # the gradient of the logits, but for the mean
    formula = require_equal(own.weight.grad, np.einsum("btv,btd->vd", surplus, x.array) / targets.numel())
    difference = require_equal(tied, own.weight.grad.array + of_embedding)
    require(largest(own.weight.grad) > 0.01 and largest(of_embedding) > 0.01, "one of the two gradients is missing")
    return dict(formula=formula, saved_parameters=V * D, tied_is_the_sum=difference)


@claim("T9", "Autoregressive Modeling",
       formula="the final layer's representations x_t^(M) combine information from all tokens up to and including t",
       ours="models.CausalTransformer", code=f"{TRANSFORMER}:CausalTransformer")
def the_last_layer_knows_all_that_is_past():
    """Like the hidden states of an RNN, the final layer's representations combine information from all tokens up to and
    including their own."""
    T = 6
    model, tokens = small_model(), mg.tensor([[3, 1, 4, 5, 9, 2]])  # all different, so that each has its own row
    x, upstream = read_out(model, tokens), mg.tensor(normal(33, 16))
    reach = np.zeros((T, T))
    for t in range(T):
        (gradient,) = mg.grad((x[0, t] * upstream).sum(), [model.token_embedding.weight], retain_graph=True)
        reach[t] = abs(gradient.array[tokens.array[0]]).max(axis=1)
    require_causal(reach)
    least = reach[np.tril_indices(T)].min()
    require(least > 1e-3, f"the least influence is {least:.0e}")
    return dict(least_influence=least)
