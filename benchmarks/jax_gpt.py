"""The same transformer and its training in JAX, as functions of the parameters of a models.CausalTransformer."""
import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.common import SETTINGS


def loss(parameters: dict[str, Array], tokens: Array, targets: Array, config) -> Array:
    """The mean cross-entropy that models.CausalTransformer computes without dropout."""
    x = parameters["token_embedding.weight"][tokens] + parameters["position_embedding.weight"][:tokens.shape[1]]
    for i in range(config.layers):
        prefix = f"blocks.{i}."
        own = {name.removeprefix(prefix): p for name, p in parameters.items() if name.startswith(prefix)}
        packed = layer_norm(x, own["ln_1.weight"], own["ln_1.bias"]) @ own["attention.in_proj_weight"].T
        y = packed_attention(packed + own["attention.in_proj_bias"], config.heads)
        x = x + y @ own["attention.out_proj.weight"].T + own["attention.out_proj.bias"]
        y = layer_norm(x, own["ln_2.weight"], own["ln_2.bias"]) @ own["mlp.expand.weight"].T
        y = jax.nn.gelu(y + own["mlp.expand.bias"], approximate=False)
        x = x + y @ own["mlp.project.weight"].T + own["mlp.project.bias"]
    x = layer_norm(x, parameters["ln_f.weight"], parameters["ln_f.bias"])
    return cross_entropy(x @ parameters["token_embedding.weight"].T, targets)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias


def packed_attention(packed: Array, heads: int) -> Array:
    """Causal attention on packed = [q | k | v] (B, T, 3C): (B, T, C)."""
    B, T, C = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    q, k, v = (part.reshape(B, T, heads, -1) for part in jnp.split(packed, 3, axis=2))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(B, T, C)


def cross_entropy(logits: Array, targets: Array) -> Array:
    """The mean over all rows."""
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - chosen).mean()


def initial_state(parameters: dict[str, Array]) -> dict:
    """Parameters, and AdamW's moments of them."""
    return {"parameters": jax.tree.map(jnp.array, parameters), "mean": jax.tree.map(jnp.zeros_like, parameters),
            "square": jax.tree.map(jnp.zeros_like, parameters), "count": jnp.zeros((), jnp.int32)}


def update(state: dict, gradients: dict[str, Array]) -> dict:
    """Clip the gradients, then AdamW; it decays matrices only."""
    lr, weight_decay, max_norm = (SETTINGS[name] for name in ("lr", "weight_decay", "max_norm"))
    beta1, beta2 = SETTINGS["betas"]
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients.values()))
    gradients = jax.tree.map(lambda g: g * jnp.minimum(1, max_norm / (norm + 1e-6)), gradients)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state["mean"], gradients)
    square = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state["square"], gradients)

    def moved(p: Array, m: Array, v: Array) -> Array:
        shrunk = p * (1 - lr * weight_decay) if p.ndim >= 2 else p
        return shrunk - lr * m / (1 - beta1 ** count) / (jnp.sqrt(v / (1 - beta2 ** count)) + 1e-8)

    parameters = jax.tree.map(moved, state["parameters"], mean, square)
    return {"parameters": parameters, "mean": mean, "square": square, "count": count}
