"""Note 003, slides on chapter 12 of Bishop and Bishop: tokens are the rows of X (N, D)."""
import itertools
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.task import FIRST
from models.tasks import TASKS
from models.transformer import MLP, Block, TransformerConfig
from nn.position import sinusoidal
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    check_gradients, choices, fit, largest, layer_norm, matrices, normal, over_seeds, plain_attention, read_out_loss,
    refusal, require_equal, silence, softmax,
)

claim = claims_of("003")

N, D = 6, 8  # tokens, features
ATTENTION, POSITIONS, BLOCK = "nn/attention.py:Attention", "nn/position.py:PositionEncoding", "models/transformer.py:Block"


def random_double(module: nn.Module, std: float = 0.4) -> nn.Module:
    """In float64, with parameters that are random and not small; gains stay ones, but for some noise."""
    for name, parameter in module.named_parameters():
        is_gain = name.startswith("ln") and name.endswith("weight")
        nn.init.normal_(parameter, mean=float(is_gain), std=0.1 if is_gain else std)
    return module.double()


class LastWord(nn.Module):
    """Which of two meanings has the last word? One layer of attention, and no positions."""

    def __init__(self, symbols: int, width: int = 16):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(symbols, width), nn.Attention(width)
        self.out = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.out(self.attention(self.embedding(tokens))[:, -1])

    def weights(self, tokens):
        """(B, N), of the last word."""
        with mg.no_grad():
            return self.attention(self.embedding(mg.tensor(tokens)), need_weights=True)[1].array[:, 0, -1]


@claim("G31", "Attention", formula="swam, river -> bank of a river; cash -> financial institution",
       ours="nn.Attention(D)(x, need_weights=True)", code=f"{ATTENTION}, models/tasks.py:bank")
def bank_attends_to_the_telling_word():
    """To find out which bank is meant, a network should attend to specific words of the sentence, such as river or cash;
    where they are depends on the sentence."""
    task, length, steps = TASKS["bank"], 8, 300
    words, is_money = task.make(np.random.default_rng(99), 500, length)
    tells = (words > FIRST) & (words <= FIRST + 8)  # river ... account; exactly one in each sentence
    require(bool((tells.sum(axis=1) == 1).all()), "a sentence has not one telling word")
    right = []

    def weight_of_the_telling_word(seed):
        model, generator = LastWord(task.vocabulary_size), np.random.default_rng(seed)
        fit(lambda x, y: F.cross_entropy(model(x), y), model.parameters(),
            lambda: task.make(generator, 64, int(generator.integers(4, length + 1))), steps, lr=1e-2)
        right.append(float((choices(model, words) == is_money).mean()))
        return model.weights(words)[tells].mean()

    weight = over_seeds(weight_of_the_telling_word)
    require(min(right) > 0.95, f"right: {right}")
    require(weight.median > 4 / length, f"weight {weight:.2f}")
    return (f"after {steps} steps the meaning is right in at least {min(right):.0%} of new sentences; of {length} words "
            f"the telling one, wherever it stands, has {weight:.2f} of the weight (even: {1 / length:.2f}). Where it "
            "is less, the words of one meaning alone are looked at")


@claim("A7", "Network parameters", formula="Q = X W^(q), K = X W^(k), V = X W^(v), Y = softmax(Q K^T) V",
       ours='nn.Attention(D, key_size=D_k, value_size=D_v, scale="none", output_projection="none")', code=ATTENTION,
       also=("001: Sequence-Stacked form of attention", "004: Self-Attention"))
def queries_keys_and_values():
    """Three matrices make queries, keys and values of the tokens, and Y = softmax(Q Kᵀ) V. Values may be of another
    size than keys."""
    mg.manual_seed(0)
    X = normal(0, N, D)
    layer = random_double(nn.Attention(D, key_size=3, value_size=5, output_projection="none", scale="none"))
    Q, K, V = (X @ matrix for matrix in matrices(layer))
    expected = np.zeros((N, 5))
    for n in range(N):
        weights = np.exp([Q[n] @ K[m] for m in range(N)])
        for m in range(N):
            expected[n] += weights[m] / weights.sum() * V[m]
    difference = require_equal(layer(mg.tensor(X)), expected)
    check_gradients(layer, X[None])

    square, plain = plain_attention(D, value=True), plain_attention(D, query_key="none")
    for projection in (square.query, square.key, square.value):
        projection.weight.data[...] = np.eye(D)
    require(not list(plain.parameters()), "dot-product attention has parameters")
    of_identities = square(mg.tensor(X))
    identity = max(require_equal(of_identities, softmax(X @ X.T) @ X), require_equal(of_identities, plain(mg.tensor(X))))
    return (f"with D_k = 3 and D_v = 5 the layer is within {difference:.0e} of loops over tokens; with matrices that are "
            f"the identity it is softmax(X Xᵀ) X, which has no parameters, within {identity:.0e}")


@claim("A44", "Network parameters", "true if no matrix W^(o) follows", formula="D_v = D",
       ours='nn.Attention(D, value_size=D, output_projection="none", residual=True)', code=ATTENTION)
def values_as_wide_as_tokens():
    """If D_v = D, residual connections are easy to include, and layers can be put on top of each other."""
    mg.manual_seed(0)
    X, narrow = mg.tensor(normal(0, N, D)), 5
    layers = [nn.Attention(D, value_size=D, output_projection="none", residual=True).double() for _ in range(3)]
    expected = X.array
    for layer in layers:
        W_q, W_k, W_v = matrices(layer)
        expected = expected + softmax(expected @ W_q @ (expected @ W_k).T / math.sqrt(D)) @ (expected @ W_v)
    stacked = require_equal(nn.Sequential(*layers)(X), expected)

    first, second = (nn.Attention(D, value_size=narrow, output_projection="none").double() for _ in range(2))
    no_sum = refusal(lambda: X + first(X))
    refusal(lambda: nn.Attention(D, value_size=narrow, output_projection="none", residual=True))
    refusal(lambda: second(first(X)))
    projected = nn.Attention(D, value_size=narrow, residual=True).double()
    shape = nn.Sequential(projected, projected)(X).shape
    require(shape == (N, D), f"with W^(o) the shape is {shape}")
    return (f"three layers with residual connections on top of each other are within {stacked:.0e} of the formula; with "
            f"D_v = {narrow} there is no sum with X ({no_sum.split(';')[0]}) and no second layer, unless a matrix W^(o) "
            "makes D features of them again")


@claim("E8", "Network parameters", FALSE, formula="W^(q), W^(k): N x D_k, W^(v): N x D_v; C heads, W^(o): H D_v x D",
       ours="nn.Attention(D, heads=C, key_size=D_k, value_size=D_v): W^(q) is D x C D_k, W^(o) is C D_v x D",
       code=ATTENTION, also=("003: Multi-head attention",))
def the_shape_of_the_projections():
    """The matrices of queries and keys are N x D_k, that of values N x D_v. There are C heads, and W^(o) is H D_v x D."""
    D_k, D_v, C = 3, 5, 2
    mg.manual_seed(0)
    X, layer = mg.tensor(normal(0, N, D)), nn.Attention(D, heads=C, key_size=D_k, value_size=D_v).double()
    message = refusal(lambda: X @ mg.tensor(normal(1, N, D_k)))
    W_q, W_k, W_v = matrices(layer)
    shapes = [W.shape for W in (W_q, W_k, W_v, layer.out.weight.T)]
    require(shapes == [(D, C * D_k), (D, C * D_k), (D, C * D_v), (C * D_v, D)], f"the layer's shapes are {shapes}")
    require_equal(X @ mg.tensor(W_q[:, :D_k]), layer.query(X)[:, :D_k])
    for length in (1, N, 2 * N):
        shape = layer(mg.tensor(normal(2, length, D))).shape
        require(shape == (length, D), f"{length} tokens come out with the shape {shape}")
    return (f"X W with W of {N} x {D_k} does not multiply ({message.split(':')[0]}): it takes D x D_k, here {D} x {D_k}, "
            f"for any number of tokens; H is C, so that W^(o) is {C * D_v} x {D} for {C} heads")


@claim("A16", "Scaled self-attention", formula="var(q^T k) = D_k; softmax(Q K^T / sqrt(D_k)) V",
       ours='nn.Attention(D_k, scale="d_k"), the default', code=f"{ATTENTION}._factor")
def the_variance_of_a_dot_product():
    """If all entries of q and k are independent with mean 0 and variance 1, q . k has variance D_k; so logits should be
    divided by its root."""
    sizes, keys = (4, 64, 256), 400
    mg.manual_seed(0)
    variances, scaled = [], []
    for D_k in sizes:
        q, k = mg.randn(1, keys, D_k, dtype=mg.float64), mg.randn(1, keys, D_k, dtype=mg.float64)
        variances.append((q @ k.mT).var().item())
        layer = nn.Attention(D_k, query_key="none", value=False, output_projection="none").double()
        output, weights = layer(q, k, need_weights=True)
        logits = np.log(weights.array)  # up to a number for each row
        scaled.append((logits - logits.mean(axis=-1, keepdims=True)).var() * keys / (keys - 1))
        require_equal(layer(q, k), output, 1e-10)  # of the fused kernel
        require_equal(F.attention_weights(q, k), weights[:, 0])
        require(abs(variances[-1] / D_k - 1) < 0.1, f"for D_k = {D_k} the variance is {variances[-1]:.1f}")
        require(abs(scaled[-1] - 1) < 0.1, f"for D_k = {D_k} the layer's logits have the variance {scaled[-1]:.2f}")
    return (f"for D_k = {', '.join(map(str, sizes))} the variance is {', '.join(f'{v:.1f}' for v in variances)}; that of "
            f"the logits in a layer, read off its weights, is {', '.join(f'{v:.2f}' for v in scaled)}")


@claim("A13", "Multi-head attention", formula="Y = (H_1, ..., H_C) W^(o)",
       ours='nn.Attention(D, heads=C, output_projection="concat"), or "sum" of a matrix for each head',
       code=ATTENTION, also=("000: Queries, Keys, and Values", "001: Multi-headed attention", "004: Self-Attention"))
def concatenated_heads_times_a_matrix():
    """The heads stand side by side, and one matrix makes the output of them, Y = (H_1, ..., H_C) W^(o)."""
    heads, D_v = 3, 5
    mg.manual_seed(0)
    X, upstream = normal(0, 2, N, D)
    sizes = {"heads": heads, "key_size": 4, "value_size": D_v}
    concatenated = random_double(nn.Attention(D, output_projection="concat", **sizes))
    summed = nn.Attention(D, output_projection="sum", **sizes).double()
    for name in ("query", "key", "value"):
        getattr(summed, name).load_state_dict(getattr(concatenated, name).state_dict())
    (W_q, W_k, W_v), W_o = matrices(concatenated), concatenated.out.weight.array.T
    summed.out_weights.data[...] = W_o.reshape(heads, D_v, D).swapaxes(1, 2)

    expected = np.zeros((N, D))
    for c in range(heads):
        of_keys, of_values = slice(4 * c, 4 * (c + 1)), slice(D_v * c, D_v * (c + 1))
        scores = X @ W_q[:, of_keys] @ (X @ W_k[:, of_keys]).T / math.sqrt(4)
        expected += softmax(scores) @ (X @ W_v[:, of_values]) @ W_o[of_values]
    outputs, gradients = [], []
    for layer in (concatenated, summed):
        x = mg.tensor(X, requires_grad=True)
        y = layer(x)
        y.backward(mg.tensor(upstream))
        outputs.append(y)
        gradients.append([x.grad] + [getattr(layer, name).weight.grad for name in ("query", "key", "value")])
    by_head = summed.out_weights.grad.mT.reshape(heads * D_v, D)
    forward = max(require_equal(y, expected) for y in outputs)
    backward = max(require_equal(a, b) for a, b in zip(*gradients))
    backward = max(backward, require_equal(by_head, concatenated.out.weight.grad.T))

    packed = random_double(nn.MultiHeadAttention(D, 2))
    q, k, v = (X @ W.T + b for W, b in zip(*(np.split(p.array, 3) for p in (packed.in_proj_weight, packed.in_proj_bias))))
    halves = slice(0, D // 2), slice(D // 2, D)
    side_by_side = [softmax(q[:, own] @ k[:, own].T / math.sqrt(D / 2)) @ v[:, own] for own in halves]
    expected = np.hstack(side_by_side) @ packed.out_proj.weight.array.T + packed.out_proj.bias.array
    for y in (packed(mg.tensor(X[None])), packed(mg.tensor(X[None]), need_weights=True)[0]):
        require_equal(y[0], expected)
    return ("cut into the rows of each head, W^(o) makes a sum over heads: concatenation, sum and loops agree within "
            f"{forward:.0e}, all gradients within {backward:.0e}")


class Neighbours(nn.Module):
    """Which tokens stand before and after this one? One layer of attention with so many heads."""

    def __init__(self, symbols: int, heads: int, width: int = 32):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(symbols, width), nn.PositionEncoding("learned", width, size=N)
        self.attention = nn.Attention(width, heads, key_size=16, value_size=32 // heads)
        self.out = nn.Linear(width, 2 * symbols)

    def forward(self, tokens):
        y = self.out(self.attention(self.positions(self.embedding(tokens))))
        return y.reshape(*tokens.shape, 2, -1)


@claim("A45", "Multi-head attention", formula="H_c = Attention(Q_c, K_c, V_c), c = 1 ... C",
       ours="nn.Attention(D, heads=C)", code=ATTENTION,
       also=("000: Multi-Headed Self-Attention", "001: Multi-headed attention"))
def heads_attend_to_several_patterns():
    """Several heads in parallel can attend to several patterns of the data at the same time."""
    symbols, steps = 5, 600
    tested = np.random.default_rng(99).integers(symbols, size=(300, N))

    def neighbours(tokens):
        return np.stack([np.roll(tokens, 1, axis=1), np.roll(tokens, -1, axis=1)], axis=2)

    def right(heads):
        def of(seed):
            model, generator = Neighbours(symbols, heads), np.random.default_rng(seed)
            fit(lambda x, y: read_out_loss(model(x), y), model.parameters(),
                lambda: (x := generator.integers(symbols, size=(32, N)), neighbours(x)), steps, lr=1e-2)
            return (choices(model, tested) == neighbours(tested)).mean()

        return over_seeds(of)

    one, two = right(1), right(2)
    require(two.median > 0.98 and one.median < 0.8, f"right with one head {one:.0%}, with two {two:.0%}")
    return (f"asked for the tokens before and after each token, two heads are right in {two:.0%} after {steps} steps; one "
            f"head, as wide as both, in {one:.0%}: it averages the two, and a read-out cannot tell which is which")


def make_block(placement: str) -> Block:
    mg.manual_seed(0)
    config = TransformerConfig(width=D, heads=2, placement=placement, activation="relu")
    return random_double(Block(config, is_causal=False))


@claim("R2", "Transformer layers", formula="Z = LayerNorm(Y(X) + X), X~ = LayerNorm(MLP(Z) + Z)",
       ours='TransformerConfig(placement="post")', code=BLOCK, also=("001: The Transformer Decoder",))
def norms_after_the_residual_connection():
    """Layer norm follows each residual connection: Z = LayerNorm(Y(X) + X), and then LayerNorm(MLP(Z) + Z)."""
    block = make_block("post")
    X = normal(0, 1, N, D)
    Z = layer_norm(block.ln_1, block.attention(mg.tensor(X)).array + X)
    expected = layer_norm(block.ln_2, block.mlp(mg.tensor(Z)).array + Z)
    difference = require_equal(block(mg.tensor(X)), expected)
    check_gradients(block, X, fast_mode=True)

    x, means, deviations = mg.tensor(X), [], []
    for _ in range(4):
        other = make_block("post")
        for norm in (other.ln_1, other.ln_2):
            nn.init.ones_(norm.weight)
            nn.init.zeros_(norm.bias)
        x = other(x).detach()
        means.append(largest(x.array.mean(axis=-1)))
        deviations.append(largest(x.array.std(axis=-1), 1.0))
    require(max(means) < 1e-12 and max(deviations) < 1e-3, f"token means {means}, deviations off 1 by {deviations}")
    return (f"the block is the formula within {difference:.0e}; after each of 4 such blocks all tokens have the mean 0 "
            f"within {max(means):.0e} and the deviation 1 within {max(deviations):.0e}")


@claim("R3", "Transformer layers", formula="Z = Y(LayerNorm(X)) + X, X~ = MLP(LayerNorm(Z)) + Z",
       ours='TransformerConfig(placement="pre"), the default', code=BLOCK)
def norms_before_attention_and_mlp():
    """Or layer norm comes first: Z = Y(LayerNorm(X)) + X, and then MLP(LayerNorm(Z)) + Z."""
    block = make_block("pre")
    X = normal(0, 1, N, D)
    Z = block.attention(mg.tensor(layer_norm(block.ln_1, X))).array + X
    expected = block.mlp(mg.tensor(layer_norm(block.ln_2, Z))).array + Z
    difference = require_equal(block(mg.tensor(X)), expected)
    check_gradients(block, X, fast_mode=True)

    x = mg.tensor(X)
    jacobian = mg.jacobian(silence(block), x).reshape(N * D, N * D)
    from_identity = max(largest(block(x), X), largest(jacobian, np.eye(N * D)))
    require(from_identity == 0, f"with zero outputs the block or its Jacobian is {from_identity:.0e} from the identity")
    return (f"the block is the formula within {difference:.0e}; where attention and MLP give out zeros it is the identity, "
            "and so is its Jacobian, exactly")


def counted(N: int, D: int) -> dict[str, int]:
    """Multiply-adds of the parts of a layer of attention with one head, spelled out, and of an MLP."""
    x = mg.zeros(1, N, D)
    attention, mlp = nn.Attention(D, output_projection="none"), MLP(TransformerConfig(width=D, heads=1))
    with mg.no_grad(), mg.count_flops() as of_attention:
        attention(x, need_weights=True)
    with mg.no_grad(), mg.count_flops() as of_kernel:
        attention(x)
    with mg.no_grad(), mg.count_flops() as of_mlp:
        mlp(x)
    return {"Q, K, V": of_attention.forward_counts["Linear"], "Q Kᵀ and A V": of_attention.forward_counts["MatMul"],
            "in the kernel": of_kernel.forward_counts["ScaledDotProductAttention"], "MLP": of_mlp.total}


@claim("C1", "Computational complexity", formula="Q, K, V: O(N D^2); Q K^T: O(N^2 D); Y: O(N^2 D); X~: O(N D^2)",
       ours="mg.count_flops()", code="minigrad/tracing/flops.py:count_flops")
def what_a_layer_costs():
    """Queries, keys and values cost O(N D²), the products Q Kᵀ and A V O(N² D), the MLP O(N D²)."""
    grid = {(N, D): counted(N, D) for N in (16, 32, 64) for D in (16, 32, 64)}
    exponents = {}
    for part in grid[16, 16]:
        in_N = {math.log2(grid[2 * N, D][part] / grid[N, D][part]) for N in (16, 32) for D in (16, 32, 64)}
        in_D = {math.log2(grid[N, 2 * D][part] / grid[N, D][part]) for D in (16, 32) for N in (16, 32, 64)}
        require(len(in_N) == len(in_D) == 1, f"{part}: no single exponent, {in_N} and {in_D}")
        exponents[part] = in_N.pop(), in_D.pop()
    expected = {"Q, K, V": (1, 2), "Q Kᵀ and A V": (2, 1), "in the kernel": (2, 1), "MLP": (1, 2)}
    require(exponents == expected, f"exponents of N and D: {exponents}")
    closed = {"Q, K, V": 3 * 64 * 32**2, "Q Kᵀ and A V": 2 * 64**2 * 32, "in the kernel": 2 * 64**2 * 32,
              "MLP": 8 * 64 * 32**2}
    require(grid[64, 32] == closed, f"counted {grid[64, 32]}, expected {closed}")
    width = 16
    at_crossover = counted(3 * width // 2, width)
    require(at_crossover["Q Kᵀ and A V"] == at_crossover["Q, K, V"], f"no crossover at N = 1.5 D: {at_crossover}")
    return ("3 N D², 2 N² D and 8 N D² multiply-adds exactly, in the fused kernel too: the products overtake Q, K and V at "
            "N = 1.5 D, and these and the MLP together at N = 5.5 D")


class PreviousToken(nn.Module):
    """Which token came before this one? A layer of attention, with positions added, concatenated, or without."""

    def __init__(self, symbols: int, width: int, kind: str, combine: str = "add", size: int | None = None):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.PositionEncoding(kind, width, size, combine)
        self.attention = nn.Attention(self.positions.out_width, key_size=width, value_size=width, output_projection="none",
                                      bias=True)
        self.out = nn.Linear(width, symbols)

    def forward(self, tokens):
        return self.out(self.attention(self.positions(self.embedding(tokens))))


def after_training(model: PreviousToken, seed: int, length: int = 8, steps: int = 400) -> tuple[PreviousToken, float]:
    """(the model, its last losses)"""
    generator, symbols = np.random.default_rng(seed), len(model.embedding.weight)
    loss = fit(lambda x, y: read_out_loss(model(x), y), model.parameters(),
               lambda: (x := generator.integers(symbols, size=(32, length)), np.roll(x, 1, axis=1)), steps, lr=1e-2)
    return model, loss


@claim("P2", "Positional encoding", "true if parameters count; concatenation learns as well",
       formula="[No] x~_n = (x_n, r_n), [Yes] x~_n = x_n + r_n",
       ours='nn.PositionEncoding("sinusoidal", D, combine="concatenate" or "add")', code=POSITIONS)
def positions_are_added_and_not_concatenated():
    """A position's vector could be joined to the token or added to it; only the second is recommended."""
    width, symbols = 16, 8
    mg.manual_seed(0)
    x = mg.randn(N, width, dtype=mg.float64)
    added, joined = (nn.PositionEncoding("sinusoidal", width, combine=combine) for combine in ("add", "concatenate"))
    W = mg.randn(width, width, dtype=mg.float64)
    require_equal(added(x) @ W, joined(x) @ mg.cat([W, W]))
    require_equal(joined(x)[:, :width], x)

    def loss(kind, combine):
        return over_seeds(lambda seed: after_training(PreviousToken(symbols, width, kind, combine), seed)[1])

    without, of_sum, of_both = loss("none", "add"), loss("sinusoidal", "add"), loss("sinusoidal", "concatenate")
    require(without.median > 1, f"without positions the loss falls to {without:.2f}")
    require(max(of_sum.median, of_both.median) < 0.02, f"losses {of_sum:.3f} and {of_both:.3f}")
    sizes = [sum(p.numel() for p in PreviousToken(symbols, width, "sinusoidal", combine).attention.parameters())
             for combine in ("add", "concatenate")]
    require(sizes[1] == sizes[0] + 3 * width * width, f"attention has {sizes} parameters")
    return (f"both learn which token came before: after 400 steps the loss is {of_sum:.4f} with sums, {of_both:.4f} with "
            f"joined vectors, and {without:.2f} without positions; joined vectors need {sizes[1]} parameters of attention "
            f"instead of {sizes[0]}, and a sum is the case of them in which tokens and positions share a matrix")


@claim("P4", "Positional encoding", "true if of the vectors: a model trained with them fails beyond its lengths",
       formula="r_ni = sin(n / L^(i/D)) if i is even, cos(n / L^((i-1)/D)) if i is odd",
       ours='nn.PositionEncoding("sinusoidal", D)', code="nn/position.py:sinusoidal",
       also=("000: Positional Encodings",))
def sinusoids_meet_the_demands():
    """Sines in the even and cosines in the odd places are bounded, differ at all positions, generalise to longer sequences
    than those of training, and tell distances alike wherever they start."""
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
    later = largest(nn.PositionEncoding("sinusoidal", D).table(10, start=T), sinusoidal(T + 10, D)[T:])
    require(largest(r) <= 1, f"it reaches {largest(r)}")
    require(closest(r) > 0.1, f"two positions are only {closest(r):.0e} apart")
    require(max(formula, shifted, toeplitz, later) < 1e-11,
            f"formula {formula:.0e}, shift {shifted:.0e}, Gram {toeplitz:.0e}, later {later:.0e}")

    trained_with, tested_with = 16, 64

    def right(length):
        tokens = np.random.default_rng(99).integers(8, size=(100, length))

        def of(seed):
            model, _ = after_training(PreviousToken(8, 16, "sinusoidal"), seed, trained_with)
            return (choices(model, tokens) == np.roll(tokens, 1, axis=1)).mean()

        return over_seeds(of)

    within, beyond = right(trained_with), right(tested_with)
    require(within.median > 0.99 and beyond.median < 0.8, f"right within {within:.0%}, beyond {beyond:.0%}")
    learned, _ = after_training(PreviousToken(8, 16, "learned", size=trained_with), 0, trained_with, steps=2)
    message = refusal(lambda: learned(mg.zeros(1, tested_with, dtype=mg.int64)))
    require("positions 'learned'" in message, message)
    return (f"the vectors are the formula's within {formula:.0e}, a shift is one rotation within {shifted:.0e}, products "
            f"depend on the distance alone within {toeplitz:.0e}, and {T} positions are {closest(r):.2f} or more apart. "
            "There is a vector for any position, but a model has not learnt what to do with it: attention trained for 400 "
            f"steps to find the token before is right in {within:.0%} of {trained_with} positions, as in training, and in "
            f"{beyond:.0%} of {tested_with} (with learned positions, {tested_with} are a ValueError)")


def closest(table: np.ndarray) -> float:
    """The smallest distance of two rows."""
    return float(min(np.linalg.norm(table[step:] - table[:-step], axis=1).min() for step in range(1, len(table))))


@claim("E35", "Positional encoding", "true if L is not 1; it is not given",
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
    return (f"of {T} positions with {D} features the two most alike are "
            + ", ".join(f"{distance:.2g}" for distance in distances)
            + f" apart for L = {', '.join(f'{L:,.0f}' for L in bases)}: at 1 all features have one frequency and positions "
            "nearly recur, any other L of these tells them apart")
