"""Note 003, "Transformer layers" and "Computational complexity"."""
import math

import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.transformer import MLP
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, make_block, normal, require_block, silence, slope_of

claim = claims_of("003")

N, D = 6, 8  # tokens, features
BLOCK = "models/transformer.py:Block"


@claim("R2", "Transformer layers", formula="Z = LayerNorm(Y(X) + X), X~ = LayerNorm(MLP(Z) + Z)",
       ours='TransformerConfig(placement="post")', code=BLOCK, also=("001: The Transformer Decoder",))
def norms_after_the_residual_connection():
    """Layer norm follows each residual connection: Z = LayerNorm(Y(X) + X), and then LayerNorm(MLP(Z) + Z)."""
    X = normal(0, N, D)
    difference, block = require_block(make_block("post", D), "post", X), make_block("post", D)
    nn.init.ones_(block.ln_2.weight)
    nn.init.zeros_(block.ln_2.bias)
    tokens = block(mg.tensor(X[None])).array
    mean, deviation = largest(tokens.mean(axis=-1)), largest(tokens.std(axis=-1), 1.0)
    require(mean < 1e-12 and deviation < 1e-3, f"token means {mean}, deviations off 1 by {deviation}")
    return dict(difference=difference, mean=mean, deviation_off_1=deviation)


@claim("R3", "Transformer layers", formula="Z = Y(LayerNorm(X)) + X, X~ = MLP(LayerNorm(Z)) + Z",
       ours='TransformerConfig(placement="pre"), the default', code=BLOCK)
def norms_before_attention_and_mlp():
    """Alternatively, layer norm comes first: Z = Y(LayerNorm(X)) + X, and then MLP(LayerNorm(Z)) + Z."""
    block, X = make_block("pre", D), normal(0, N, D)
    difference = require_block(block, "pre", X)
    slope = slope_of(silence(block), X)
    from_identity = max(largest(block(mg.tensor(X[None])), X[None]), largest(slope, np.eye(N * D)))
    require(from_identity == 0, f"with zero outputs the block or its Jacobian is {from_identity:.0e} from the identity")
    return dict(difference=difference, from_identity=from_identity)


def counted(N: int, D: int) -> dict[str, int]:
    """Multiply-adds of the parts of a layer of attention with one head, and of an MLP."""
    x = mg.zeros(1, N, D)
    attention, mlp = nn.MultiHeadAttention(D, 1), MLP(TransformerConfig(width=D, heads=1))
    with mg.no_grad(), mg.count_flops() as of_attention:
        attention(x, need_weights=True)
    with mg.no_grad(), mg.count_flops() as of_kernel:
        attention(x)
    with mg.no_grad(), mg.count_flops() as of_mlp:
        mlp(x)
    linear = of_attention.forward_counts["Linear"]
    return {"Q, K, V": linear * 3 // 4, "W^(o)": linear // 4, "Q Kᵀ and A V": of_attention.forward_counts["MatMul"],
            "in the kernel": of_kernel.forward_counts["PackedAttention"], "MLP": of_mlp.total}


@claim("C1", "Computational complexity", "true without the output projection W^(o), which it forgets",
       formula="Q, K, V: O(N D^2); Q K^T: O(N^2 D); Y: O(N^2 D); X~: O(N D^2)",
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
    expected = {"Q, K, V": (1, 2), "W^(o)": (1, 2), "Q Kᵀ and A V": (2, 1), "in the kernel": (2, 1), "MLP": (1, 2)}
    require(exponents == expected, f"exponents of N and D: {exponents}")
    closed = [3 * 64 * 32**2, 64 * 32**2, 2 * 64**2 * 32, 2 * 64**2 * 32, 8 * 64 * 32**2]
    require(list(grid[64, 32].values()) == closed, f"counted {grid[64, 32]}, expected {closed}")
    width = 16
    at_crossover = counted(3 * width // 2, width)
    require(at_crossover["Q Kᵀ and A V"] == at_crossover["Q, K, V"], f"no crossover at N = 1.5 D: {at_crossover}")
    return dict(multiply_adds=closed)
