"""Note 003, "Transformer layers" and "Computational complexity"."""
import minigrad as mg
import nn
from models.config import TransformerConfig
from models.transformer import MLP
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, make_block, randn, require_block, silence

claim = claims_of("003")

N, D = 6, 8  # tokens, features


@claim("R2", "Transformer layers")
def norms_after_the_residual_connection():
    """Layer norm follows each residual connection: Z = LayerNorm(Y(X) + X), and then LayerNorm(MLP(Z) + Z).

    formula: Z = LayerNorm(Y(X) + X), X~ = LayerNorm(MLP(Z) + Z)
    here: Block(TransformerConfig(placement="post"))
    also in: 001: The Transformer Decoder
    """
    X, block = randn(1, N, D), make_block("post", D)
    tokens = (block(X).array - block.ln_2.bias.array) / block.ln_2.weight.array
    mean = largest(tokens.mean(axis=-1))
    deviation = largest(tokens.std(axis=-1), 1.0)
    require(mean < 1e-12 and deviation < 1e-3, f"token means {mean}, deviations off 1 by {deviation}")
    return dict(difference=require_block("post", X), mean=mean, deviation_off_1=deviation)


@claim("R3", "Transformer layers")
def norms_before_attention_and_mlp():
    """Alternatively, layer norm comes first: Z = Y(LayerNorm(X)) + X, and then MLP(LayerNorm(Z)) + Z.

    formula: Z = Y(LayerNorm(X)) + X, X~ = MLP(LayerNorm(Z)) + Z
    here: Block(TransformerConfig(placement="pre")), the default
    """
    X = randn(1, N, D)
    from_identity = largest(silence(make_block("pre", D))(X), X)
    require(from_identity == 0, f"with zero outputs the block is {from_identity:.0e} from the identity")
    return dict(difference=require_block("pre", X), from_identity=from_identity)


def counted(N: int, D: int) -> dict[str, int]:
    """Multiply-adds of the parts of a layer of attention with one head, and of an MLP."""
    attention = nn.MultiHeadAttention(D, 1)
    mlp = MLP(TransformerConfig(width=D, heads=1))
    with mg.no_grad(), mg.count_flops() as count:
        attention(mg.zeros(1, N, D), need_weights=True)
    with mg.no_grad(), mg.count_flops() as of_mlp:
        mlp(mg.zeros(1, N, D))
    linear = count.forward_counts["Linear"]
    return {"Q, K, V": linear * 3 // 4, "W^(o)": linear // 4, "Q Kᵀ and A V": count.forward_counts["MatMul"],
            "MLP": of_mlp.total}


@claim("C1", "Computational complexity", "true without the output projection W^(o), which it forgets")
def what_a_layer_costs():
    """Queries, keys and values cost O(N D²), the products Q Kᵀ and A V O(N² D), the MLP O(N D²).

    formula: Q, K, V: O(N D^2); Q K^T: O(N^2 D); Y: O(N^2 D); X~: O(N D^2)
    here: mg.count_flops()
    """
    for N in (16, 32, 64):
        for D in (16, 32, 64):
            expected = {"Q, K, V": 3 * N * D**2, "W^(o)": N * D**2, "Q Kᵀ and A V": 2 * N**2 * D, "MLP": 8 * N * D**2}
            require(counted(N, D) == expected, f"N = {N}, D = {D}: {counted(N, D)}, expected {expected}")
    return dict(multiply_adds=expected.values())
