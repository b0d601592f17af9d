"""Note 003, slides on chapter 12 of Bishop and Bishop: tokens are the rows of X (N, D)."""
import itertools
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.transformer import MLP, Block, TransformerConfig
from nn.position import sinusoidal
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    check_gradients, largest, layer_norm, matrices, normal, plain_attention, refusal, require_equal, silence,
    softmax,
)

N, D = 6, 8  # tokens, features


def random_double(module: nn.Module, std: float = 0.4) -> nn.Module:
    """In float64, with parameters that are random and not small; gains stay ones, but for some noise."""
    for name, parameter in module.named_parameters():
        is_gain = name.startswith("ln") and name.endswith("weight")
        nn.init.normal_(parameter, mean=float(is_gain), std=0.1 if is_gain else std)
    return module.double()


@claim("A7", note="003")
def queries_keys_and_values():
    """Three matrices make queries, keys and values of the tokens, and Y = softmax(Q Kᵀ) V. Values may be of another
    size than keys."""
    mg.manual_seed(0)
    X = normal(0, N, D)
    layer = random_double(nn.Attention(D, key_size=3, value_size=5, read_out="none", scale="none"))
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
    return f"D_k = 3, D_v = 5: within {difference:.0e} of loops; W = I is softmax(X Xᵀ) X within {identity:.0e}"


@claim("A13", note="003")
def concatenated_heads_times_a_matrix():
    """The heads stand side by side, and one matrix makes the output of them, Y = (H_1, ..., H_C) W^(o). (Cut into its
    blocks, that is the sum of a matrix for each head.)"""
    heads, D_v = 3, 5
    mg.manual_seed(0)
    X, upstream = normal(0, 2, N, D)
    sizes = {"heads": heads, "key_size": 4, "value_size": D_v}
    concatenated = random_double(nn.Attention(D, read_out="concat", **sizes))
    summed = nn.Attention(D, read_out="sum", **sizes).double()
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
    return f"concatenation, sum over heads and loops within {forward:.0e}, gradients within {backward:.0e}"


@claim("A16", note="003")
def the_variance_of_a_dot_product():
    """If all entries of q and k are independent with mean 0 and variance 1, q . k has variance D_k; so logits are
    divided by its root."""
    mg.manual_seed(0)
    variances, scaled = [], []
    for D_k in (4, 64, 256):
        q, k = mg.randn(20_000, D_k), mg.randn(20_000, D_k)
        products = (q * k).sum(-1)
        variances.append(products.var().item())
        scaled.append((products * nn.Attention(D_k).factor).var().item())
        require(abs(variances[-1] / D_k - 1) < 0.05, f"for D_k = {D_k} the variance is {variances[-1]:.1f}")
    return (f"variance {', '.join(f'{v:.1f}' for v in variances)} for D_k = 4, 64, 256; "
            f"{', '.join(f'{v:.2f}' for v in scaled)} after division")


def make_block(placement: str) -> Block:
    mg.manual_seed(0)
    config = TransformerConfig(width=D, heads=2, placement=placement, activation="relu")
    return random_double(Block(config, is_causal=False))


@claim("R2", note="003")
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
    return (f"spelled out within {difference:.0e}; after each of 4 blocks token means are within "
            f"{max(means):.0e} of 0, deviations within {max(deviations):.0e} of 1")


@claim("R3", note="003")
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
    return f"spelled out within {difference:.0e}; with zero outputs it is the identity, and so is its Jacobian"


class PreviousToken(nn.Module):
    """Which token came before this one? A layer of attention, with positions added, concatenated, or without."""

    def __init__(self, symbols: int, width: int, kind: str, combine: str):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.PositionEncoding(kind, width, combine=combine)
        self.attention = nn.Attention(self.positions.out_width, key_size=width, value_size=width, read_out="none",
                                      bias=True)
        self.out = nn.Linear(width, symbols)

    def forward(self, tokens):
        return self.out(self.attention(self.positions(self.embedding(tokens))))


def loss_after_training(model: PreviousToken, symbols: int, length: int = 8, steps: int = 400) -> float:
    rng = np.random.default_rng(0)
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)

    @mg.compile
    def step(tokens, targets):
        loss = F.cross_entropy(model(tokens).reshape(-1, symbols), targets.reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = []
    for _ in range(steps):
        tokens = rng.integers(symbols, size=(32, length))
        losses.append(step(mg.tensor(tokens), mg.tensor(np.roll(tokens, 1, axis=1))).item())
    return float(np.mean(losses[-20:]))


@claim("P2", note="003", verdict="true if parameters count; concatenation learns as well")
def positions_are_added_and_not_concatenated():
    """A position's vector could be joined to the token or added to it; only the second is recommended. (A linear map of
    the joined vectors is the sum of a map of each, and addition the case in which both maps are the same.)"""
    width, symbols = 16, 8
    mg.manual_seed(0)
    x = mg.randn(N, width, dtype=mg.float64)
    added, joined = (nn.PositionEncoding("sinusoidal", width, combine=combine) for combine in ("add", "concatenate"))
    W = mg.randn(width, width, dtype=mg.float64)
    require_equal(added(x) @ W, joined(x) @ mg.cat([W, W]))

    losses, sizes = {}, {}
    for kind, combine in (("none", "add"), ("sinusoidal", "add"), ("sinusoidal", "concatenate")):
        mg.manual_seed(0)
        model = PreviousToken(symbols, width, kind, combine)
        name = combine if kind != "none" else "none"
        sizes[name] = sum(parameter.numel() for parameter in model.attention.parameters())
        losses[name] = loss_after_training(model, symbols)
    require(losses["none"] > 1, f"without positions the loss falls to {losses['none']:.2f}")
    require(max(losses["add"], losses["concatenate"]) < 0.2 * losses["none"], f"losses {losses}")
    require(sizes["concatenate"] == sizes["add"] + 3 * width * width, f"attention has {sizes} parameters")
    return (f"predicting the token before: {losses['none']:.2f} nats without positions, {losses['add']:.3f} added, "
            f"{losses['concatenate']:.3f} concatenated, with {sizes['add']} and "
            f"{sizes['concatenate']} parameters of attention")


@claim("P4", note="003")
def sinusoids_meet_the_demands():
    """Sines in the even and cosines in the odd places, r_ni = sin(n / L^(i/D)) or cos(n / L^((i-1)/D)). They are
    bounded, differ at all positions, go on beyond those of training, and tell distances alike wherever they start."""
    T, L, shift = 2000, 10_000.0, 7
    r, odd = (nn.PositionEncoding("sinusoidal", width).table(T).array for width in (D, 7))
    formula = 0.0
    for table, width in ((r, D), (odd, 7)):
        for n, i in itertools.product((0, 1, 2, 77, T - 1), range(width)):
            entry = math.sin(n / L ** (i / width)) if i % 2 == 0 else math.cos(n / L ** ((i - 1) / width))
            formula = max(formula, abs(table[n, i] - entry))
    closest = min(np.linalg.norm(r[distance:] - r[:-distance], axis=1).min() for distance in range(1, T))
    rotation = np.zeros((D, D))
    for i in range(0, D, 2):
        c, s = math.cos(shift / L ** (i / D)), math.sin(shift / L ** (i / D))
        rotation[i : i + 2, i : i + 2] = [[c, s], [-s, c]]
    shifted = largest(r[shift:], r[:-shift] @ rotation.T)
    gram = r[:50] @ r[:50].T
    toeplitz = max(np.ptp(np.diag(gram, d)) for d in range(50))
    later = largest(nn.PositionEncoding("sinusoidal", D).table(10, start=T), sinusoidal(T + 10, D)[T:])
    require(largest(r) <= 1, f"it reaches {largest(r)}")
    require(closest > 1e-3, f"two positions are only {closest:.0e} apart")
    require(max(formula, shifted, toeplitz, later) < 1e-11,
            f"formula {formula:.0e}, shift {shifted:.0e}, Gram {toeplitz:.0e}, later {later:.0e}")
    return (f"formula, for odd D too, within {formula:.0e}, a shift is one rotation within {shifted:.0e}, "
            f"Gram matrix Toeplitz within {toeplitz:.0e}, all {T} positions at least {closest:.2f} apart")


def counted(N: int, D: int) -> dict[str, int]:
    """Multiply-adds of the parts of a layer of attention with one head, spelled out, and of an MLP."""
    x = mg.zeros(1, N, D)
    attention, mlp = nn.Attention(D, read_out="none"), MLP(TransformerConfig(width=D, heads=1))
    with mg.no_grad(), mg.count_flops() as of_attention:
        attention(x, need_weights=True)
    with mg.no_grad(), mg.count_flops() as of_kernel:
        attention(x)
    with mg.no_grad(), mg.count_flops() as of_mlp:
        mlp(x)
    return {"Q, K, V": of_attention.forward_counts["Linear"], "Q Kᵀ and A V": of_attention.forward_counts["MatMul"],
            "in the kernel": of_kernel.forward_counts["ScaledDotProductAttention"], "MLP": of_mlp.total}


@claim("C1", note="003")
def what_a_layer_costs():
    """Queries, keys and values cost O(N D²), their products Q Kᵀ and A V O(N² D), the MLP O(N D²). (So the products
    dominate once N exceeds a few D.)"""
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
    return ("3 N D², 2 N² D, and 8 N D² multiply-adds exactly; the products overtake Q, K, V at N = 1.5 D, "
            "and these and the MLP at N = 5.5 D")


@claim("E8", note="003", verdict=FALSE)
def the_shape_of_the_projections():
    """The matrices of queries and keys are said to be N x D_k, that of values N x D_v; and the number of heads is first
    C, then H. (X W with X of N x D needs D x D_k, and W^(o) is C D_v x D.)"""
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
    return (f"{N} x {D} times {N} x {D_k}: {message.split(':')[0]}; {D} x {D_k} works for any N, "
            f"W^(o) is {C * D_v} x {D}")
