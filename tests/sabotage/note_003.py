"""Sabotages of what the claims of note 003 are about: each has to turn its claim red."""
from sabotage.edit import default, of_claim, of_claims

ATTENTION = "nn.attention:Attention"
UNIFORM = "nn.functional.attention:attention_weights", "return scores.softmax(-1)", "return (scores * 0).softmax(-1)"
NOT_ADDED = "nn.position:PositionEncoding.forward", "return x + p", "return x"
VALUES_NOT_PROJECTED = f"{ATTENTION}.project", "self.value if self.projects_value else None", "None"
NO_RESIDUAL = "models.transformer:Block._add", "if sublayer.residual is not None:", "if False:"
ONE_HEAD_FOR_ALL = (f"{ATTENTION}._split", "return projection(x).reshape(B, T, heads, -1).transpose(1, 2)",
                    "y = projection(x).reshape(B, T, self.heads, -1); return mg.stack([y[:, :, 0]] * self.heads, dim=1)")
HEADS_FROM_THE_LAST = f"{ATTENTION}._merge", "heads.transpose(1, 2)", "heads.flip(1).transpose(1, 2)"

SABOTAGES = [
    *of_claims("003", {
        "G31": {
            "weights are uniform": UNIFORM,
            "the bank is one at random": ("models.tasks:bank", "return words + FIRST, is_money",
                                          "return words + FIRST, generator.integers(0, 2, count)"),
            "no word tells": ("models.tasks:bank", "= 1 + generator.integers(0, 4, count) + 4 * is_money", "= 10"),
        },
        "A7": {
            "values are not projected": VALUES_NOT_PROJECTED,
            "scores are scaled unasked": (f"{ATTENTION}._factor", '"none": 1.0', '"none": 0.5'),
            "keys are queries": (f"{ATTENTION}.project", "k = self._split(source, self.key, self.key_value_heads)", "k = q"),
        },
        "A44": {
            "no residual connection": (f"{ATTENTION}.forward", "x + y if self.residual else y", "y"),
            "a residual connection of any width": (f"{ATTENTION}.__init__", "if residual and self.out_width != width:",
                                                   "if False:"),
        },
        "E8": {
            "the output matrix has the size of keys": (f"{ATTENTION}.__init__", "Linear(heads * self.value_size, width, bias)",
                                                       "Linear(heads * self.key_size, width, bias)"),
            "heads share a matrix of queries": (f"{ATTENTION}.__init__", "self.query = Linear(width, heads * self.key_size",
                                                "self.query = Linear(width, self.key_size"),
        },
        "A16": {
            "weights are not scaled by themselves": (
                "nn.functional.attention:attention_weights",
                "1 / math.sqrt(max(query.shape[-1], 1)) if scale is None", "1.0 if scale is None"),
            "the factor for d_k is 1": (f"{ATTENTION}._factor", "1 / math.sqrt(self.key_size)", "1.0"),
            "weights ignore the factor": (f"{ATTENTION}.forward", "mask, is_causal, self.factor)\n",
                                          "mask, is_causal, 1.0)\n"),
            "the kernel ignores the factor": (f"{ATTENTION}.forward", "dropout, is_causal, self.factor,",
                                              "dropout, is_causal, 1.0,"),
        },
        "A13": {
            "packed heads are interleaved": (
                "nn.multi_head_attention:MultiHeadAttention.forward", "F.packed_attention(packed,",
                "F.packed_attention(packed.reshape(*packed.shape[:2], 3, -1, self.num_heads).mT.reshape(packed.shape),"),
            "weights are not scaled by themselves": (
                "nn.functional.attention:attention_weights",
                "1 / math.sqrt(max(query.shape[-1], 1)) if scale is None", "1.0 if scale is None"),
            "heads from the last to the first": HEADS_FROM_THE_LAST,
            "the sum is that of one head": (f"{ATTENTION}._merge", ".sum(1)", "[:, 0]"),
        },
        "A45": {
            "all heads are the first": ONE_HEAD_FOR_ALL,
            "positions are not added": NOT_ADDED,
        },
        "R2": {
            "no norm after": ("models.transformer:Block._add", "norm(out) if sublayer.norm_after else out", "out"),
            "no residual connection": NO_RESIDUAL,
        },
        "R3": {
            "no norm before": ("models.transformer:Block._add", "norm(x) if sublayer.norm_before else x", "x"),
            "the residual is normalised": ("models.transformer:Block._add", '(x if sublayer.residual == "x" else inner)',
                                           "inner"),
        },
        "C1": {
            "multiply-adds are counted twice": ("minigrad.tracing.flops:count_flops.forward",
                                                "_add(self.forward_counts, op, op.multiply_adds)",
                                                "_add(self.forward_counts, op, 2 * op.multiply_adds)"),
            "an MLP is 2 D wide": ("models.transformer:TransformerConfig.hidden", "self.mlp_ratio * self.width", "2 * self.width"),
        },
        "P2": {
            "positions are not added": NOT_ADDED,
            "joined positions are zero": ("nn.position:PositionEncoding.forward", "p.expand(*x.shape[:-1], self.position_width)",
                                          "0 * p.expand(*x.shape[:-1], self.position_width)"),
        },
        "P4": {
            "cosines are sines": ("nn.position:sinusoidal", "np.cos(angles)", "np.sin(angles)"),
            "positions start with 0 anywhere": ("nn.position:sinusoidal", "np.arange(start, start + T)", "np.arange(T)"),
            "learned positions have no end": ("nn.position:PositionEncoding.table", "if start + T > self.size:", "if False:"),
            "positions are not added": NOT_ADDED,
        },
        "E35": {
            "the base is ignored": ("nn.position:sinusoidal", "n / base **", "n / BASE **"),
        },
    }),
    of_claim("003", "E35", "the base is 100 unasked", default("nn.position:sinusoidal", "base", 100.0)),
]
