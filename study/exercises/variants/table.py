"""Which changes the variants of each exercise have: one of each group."""
from study.exercises.variants.changes import (
    FLIPPED, FROM_ONE, NEGATED, NOT, REST, SQUARED, TRANSPOSED, Group, factor_of, number_to, perhaps, plus,
)


def both_of_a_norm() -> list[Group]:
    return [factor_of("out"), perhaps(plus(1), "weight"), perhaps(SQUARED, "eps"), perhaps(TRANSPOSED, "x", "out")]


GROUPS: dict[str, list[Group]] = {
    "product": [number_to("a"), factor_of("out")],
    "matmul": [perhaps(TRANSPOSED, "a"), perhaps(TRANSPOSED, "b"), number_to("a"), factor_of("out")],
    "linear": [perhaps(TRANSPOSED, "weight"), number_to("x"), factor_of("out")],
    "tanh": [factor_of("x"), factor_of("out")],
    "dropout": [factor_of("x"), perhaps(NOT, "mask"), perhaps(REST, "p")],
    "gelu": [factor_of("x"), factor_of("out")],
    "gelu_tanh": [factor_of("x"), factor_of("out")],
    "logsumexp": [perhaps(TRANSPOSED, "x"), factor_of("x"), factor_of("out")],
    "softmax": [perhaps(TRANSPOSED, "x", "out"), factor_of("x"), factor_of("out")],
    "log_softmax": [perhaps(TRANSPOSED, "x", "out"), factor_of("x"), factor_of("out")],
    "cross_entropy": [perhaps(TRANSPOSED, "logits"), factor_of("logits"), factor_of("out")],
    "embedding": [perhaps(FROM_ONE, "ids"), perhaps(TRANSPOSED, "weight"), factor_of("out")],
    "layer_norm": both_of_a_norm(),
    "rms_norm": both_of_a_norm(),
    "residual_norm": both_of_a_norm(),
    "scores": [perhaps(TRANSPOSED, "q"), perhaps(TRANSPOSED, "k"), number_to("k"), factor_of("out")],
    "masked_softmax": [perhaps(NOT, "mask"), factor_of("scores"), factor_of("out")],
    "attention": [perhaps(TRANSPOSED, "k"), perhaps(TRANSPOSED, "v"), factor_of("q"), factor_of("out")],
    "causal_attention": [perhaps(FLIPPED, "q", "k", "v", "out"), factor_of("q"), factor_of("out")],
    "multi_head": [perhaps(TRANSPOSED, "k"), factor_of("q"), factor_of("out")],
    "rotary": [perhaps(NEGATED, "angles"), perhaps(TRANSPOSED, "x", "out"), factor_of("out")],
    "blockwise_attention": [perhaps(FLIPPED, "q", "k", "v", "out"), factor_of("q"), factor_of("out")],
    "tied_embedding": [perhaps(FROM_ONE, "ids"), perhaps(TRANSPOSED, "weight"), factor_of("weight"), factor_of("out")],
    "block": [perhaps(TRANSPOSED, "wq", "wk"), perhaps(TRANSPOSED, "wv"), perhaps(TRANSPOSED, "w1"),
              perhaps(TRANSPOSED, "w2"), factor_of("x")],
    "clip_by_global_norm": [factor_of("max_norm")],
    "adam_step": [perhaps(NEGATED, "gradient"), factor_of("lr"), perhaps(REST, "beta1")],
    "layer_norm_jvp": [perhaps(plus(1), "weight"), perhaps(SQUARED, "eps"), factor_of("vx")],
    "cross_entropy_hvp": [factor_of("x"), factor_of("v")],
    "next_token": [factor_of("logits"), perhaps(REST, "top_p")],
}
