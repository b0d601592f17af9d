"""Sabotages of what the claims of note 002 are about: each is to be noticed by the claim itself."""
from sabotage.edit import of_claims
from sabotage.note_000 import (
    ADDED_TO_THE_NORMED, ADDED_TO_X, ATTENTION, BLOCK, HEADS_MERGED, MLP_SKIPPED, NORM_LOST, RESIDUAL_LOST, SUMS_OF_COLUMNS,
)

CLASSIFIER, ENCODER = "models.encoder_decoder:Classifier", "models.encoder_decoder:Encoder"
UNIFORM = "nn.functional.attention:attention_weights", "return scores.softmax(-1)", "return (scores * 0).softmax(-1)"

SABOTAGES = of_claims("002", {
    "G10": {
        "encoder: blocks skipped": (f"{ENCODER}.forward", "in self.blocks:", "in []:"),
        "attention skipped": (f"{BLOCK}.forward", "if self.attends:", "if False:"),
        "attention in the model without": (ENCODER, "attends=attends", "attends=True"),
        "classifier: encoder skipped": (f"{CLASSIFIER}.forward", "self.encoder(inputs, padding)", "self.encoder.embed(inputs)"),
        "classifier: encoder skipped for images": (f"{CLASSIFIER}.forward", "self.encoder(self.make_tokens(inputs))",
            "self.make_tokens(inputs)"),
        "all patches are the first": ("nn.patches:PatchEmbedding.forward", "patchify(images, self.size)",
            "patchify(images, self.size)[:, :1].expand(len(images), 16, 4)"),
    },
    "L2": {
        "columns are not turned to rows": (f"{ATTENTION}.forward", "x, memory = x.mT, None if memory is None else memory.mT", "pass"),
        "the result is not turned back": (f"{ATTENTION}.forward", 'y if self.layout == "rows" else y.mT', "y"),
        "weights are not turned": (f"{ATTENTION}._shown", 'self.layout == "columns"', "False"),
        "sums of rows": SUMS_OF_COLUMNS,
        "queries and keys exchanged": (f"{ATTENTION}.project", "return q, self._for_each_query(k)", "return k, self._for_each_query(q)"),
    },
    "A25": {
        "weights are uniform": UNIFORM,
        "distances are ignored": (f"{ATTENTION}._mask", 'if self.positions == "relative":', "if False:"),
        "keys are all the same": (f"{ATTENTION}.project", "k = self._split(source, self.key, self.key_value_heads)", "k = self._split(source * 0 + 1, self.key)"),
        "fixed weights depend on the place": (f"{ATTENTION}.position_bias", "np.arange(queries)[:, None] - np.arange(keys)",
            "np.arange(queries)[:, None] * np.arange(keys)"),
    },
    "E2": {
        "sums as printed": SUMS_OF_COLUMNS,
        "weights are uniform": UNIFORM,
    },
    "A26": {
        "key_size ignored": (ATTENTION, "else each if key_size is None else key_size", "else each"),
        "tokens are not projected": (f"{ATTENTION}._split", "if projection is None:", "if True:"),
        "weights are uniform": UNIFORM,
    },
    "E1": {
        "symmetric weights": ("nn.functional.attention:attention_weights", "return scores.softmax(-1)",
            "return scores.exp() / scores.exp().sum()"),
        "keys are other tokens'": (f"{ATTENTION}.project", "k = q if source is x", "k = q.flip(2) if source is x"),
        "two projections are one": (ATTENTION, "self.key = Linear(self.memory_width, self.key_value_heads * self.key_size, bias)", "self.key = self.query"),
    },
    "E12": {
        "shapes are not checked": ("minigrad.ops.matmul:matmul", "shape_a[-1] != shape_b[0 if column else -2]", "False"),
        "sums of rows": SUMS_OF_COLUMNS,
        "the MLP mixes tokens": ("nn.linear:Linear.forward", "self.weight,", "self.weight * x.shape[-2] if x.ndim > 1 else self.weight,"),
    },
    "E16": {
        "heads merged": HEADS_MERGED,
        "always causal": (f"{BLOCK}._attend", "is_causal=self.is_causal", "is_causal=True"),
    },
    "R5": {
        "added to X": ADDED_TO_X,
        "added to the normed": ADDED_TO_THE_NORMED,
        "norms skipped": NORM_LOST,
        "residual connections lost": RESIDUAL_LOST,
        "MLP skipped": MLP_SKIPPED,
    },
})
