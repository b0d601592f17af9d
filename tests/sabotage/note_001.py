"""Sabotages of what the claims of lecture note 001 are about: each claim has to turn red for its own."""
import operator

import nn.functional as F
from sabotage.base import Sabotage
from sabotage.edit import edit

RESIDUAL_SKIPPED = ("models.transformer:Block._add", "if sublayer.residual is not None:", "if False:")
NOT_CAUSAL = ("nn.attention:Attention.forward", 'self.causal == "mask" and mask is None', "False")
OWN_MEMORY = ("models.encoder_decoder:Decoder.forward", "memory=memory,", "memory=x,")
STATE_LOST = ("nn.recurrent:RNN._run", "b_hh if h is None else", "b_hh if True else")
WEIGHTS = "nn.functional.attention:attention_weights"
NOT_SCALED = WEIGHTS, "if scale is None else scale", "if scale is None else 1.0"
NOT_SCALED_BY_ITSELF = WEIGHTS, "1 / math.sqrt(max(query.shape[-1], 1)) if scale is None", "1.0 if scale is None"
UNIFORM = ("nn.functional.attention:attention_weights", "return scores.softmax(-1)", "return (scores * 0).softmax(-1)")

EDITS = {  # {row: {name: (function or class, old, new)}}
    "L6": {
        "word vectors are not learned": ("nn.embedding:Embedding.forward", "self.weight,", "self.weight.detach(),"),
        "frozen vectors are learned": ("nn.module:Module.requires_grad_", "= requires_grad\n", "= True\n"),
    },
    "C7": {
        "an RNN's state is lost": STATE_LOST,
        "attention is causal": ("nn.attention:Attention.forward", 'self.causal == "mask" and mask is None', "True"),
    },
    "G8": {
        "an RNN's state is lost": STATE_LOST,
        "half of an RNN's state is lost": ("nn.recurrent:RNN._run", "linear(h, w_hh", "linear(0.5 * h, w_hh"),
        "an RNN without tanh": ("nn.recurrent:RNN._run", "z.tanh() if", "z if"),
    },
    "G22": {
        "an RNN's state is lost": STATE_LOST,
        "positions are not added": ("nn.position:PositionEncoding.forward", "return x + p", "return x"),
    },
    "P3": {
        "a stack has no learned positions": ("models.encoder_decoder:Stack.embed", "self.position_embedding(x)", "x"),
        "learned positions have no end": ("nn.position:PositionEncoding.table", "if start + T > self.size:",
            "if False:"),
        "learned positions are one late": ("nn.position:PositionEncoding.table", "self.weight[start : start + T]",
            "self.weight[start + 1 : start + T + 1]"),
        "learned positions do not learn": ("nn.position:PositionEncoding.table", "return self.weight[",
            "return self.weight.detach()["),
        "a model's context has no end": ("models.transformer:CausalTransformer.forward",
            "tokens.shape[1] > context and not is_endless", "False"),
    },
    "E27": {
        "positions are subtracted": ("nn.position:PositionEncoding.forward", "return x + p", "return x - p"),
        "learned positions stand backwards": ("nn.position:PositionEncoding.table", "self.weight[start : start + T]",
            "self.weight.flip(0)"),
    },
    "M3": {
        "weights are uniform": UNIFORM,
        "attention adds its input": ("nn.attention:Attention.forward", "x + y if self.residual else y", "x + y"),
    },
    "E5": {
        "attention adds its input": ("nn.attention:Attention.forward", "x + y if self.residual else y", "x + y"),
        "values are keys": ("nn.attention:Attention.project",
            "v = self._split(source, self.value if self.projects_value else None, self.key_value_heads)",
            "v = k"),
    },
    "M2": {
        "an MLP has another activation": ("models.transformer:MLP", "None if gated else config.activation",
            '"gelu"'),
        "mlp_ratio is ignored": ("models.transformer:TransformerConfig.hidden", "self.mlp_ratio * self.width", "4 * self.width"),
        "an MLP's last bias is lost": ("models.transformer:MLP.forward", "project.bias, expand.activation",
            "None, expand.activation"),
    },
    "E6": {
        "W_2 is as wide as W_1": ("models.transformer:MLP", "nn.Linear(hidden, config.width, bias",
            "nn.Linear(config.width, hidden, bias"),
        "an MLP's last bias is lost": ("models.transformer:MLP.forward", "project.bias, expand.activation",
            "None, expand.activation"),
    },
    "A34": {
        "the memory is ignored": ("nn.attention:Attention.forward", "x if memory is None else memory\n        self",
            "x\n        self"),
        "the mask is ignored": NOT_CAUSAL,
    },
    "E7": {
        "the mask sets scores to zero": ("nn.functional.attention:attention_weights",
            "mg.where(past, scores, -math.inf)",
            "mg.where(past, scores, 0.0)"),
        "the mask is ignored": NOT_CAUSAL,
    },
    "A6": {
        "the mask is ignored": NOT_CAUSAL,
        "weights are not scaled": NOT_SCALED,
        "rows without keys are NaN": ("nn.functional.attention:attention_weights", "mask.masked_fill(blind, 0.0)",
            "mask"),
        "heads are mixed up": ("nn.attention:Attention._merge", "heads.transpose(1, 2).reshape(B, T, H * size)",
            "heads.reshape(B, T, H * size)"),
    },
    "G21": {
        "positions are not added": ("models.transformer:CausalTransformer.forward",
            "(tokens, self.position_embedding.weight)", "(tokens)"),
        "blocks are not causal": ("models.transformer:Block._attend", "is_causal=self.is_causal", "is_causal=False"),
        "blocks are always causal": ("models.transformer:Block._attend", "is_causal=self.is_causal", "is_causal=True"),
        "an MLP without its activation": ("models.transformer:MLP", "None if gated else config.activation", "None"),
        "residual connections all the same": ("models.transformer:Block._add", "if sublayer.residual is not None:",
            "if True:"),
    },
    "G1": {
        "the norm after the sum is skipped": ("models.transformer:Block._add",
            "norm(out) if sublayer.norm_after else out", "out"),
        "residual connections are skipped": RESIDUAL_SKIPPED,
        "blocks are not causal": ("models.transformer:Block._attend", "is_causal=self.is_causal", "is_causal=False"),
        "blocks are skipped": ("models.transformer:CausalTransformer.forward", "in self.blocks:", "in []:"),
    },
    "A8": {
        "scores are scaled all the same": ("nn.attention:Attention._factor", '"none": 1.0', '"none": 0.5'),
        "values are not projected": ("nn.attention:Attention.project", "self.value if self.projects_value else None",
            "None"),
    },
    "E14": {
        "queries are keys": ("nn.attention:Attention.project", "return q, self._for_each_query(k)", "return k, self._for_each_query(q)"),
        "scores are scaled all the same": ("nn.attention:Attention._factor", '"none": 1.0', '"none": 0.5'),
    },
    "A12": {
        "weights are not scaled": NOT_SCALED,
        "reshaped without the transpose": ("nn.attention:Attention._split",
            "reshape(B, T, heads, -1).transpose(1, 2)",
            "reshape(B, self.heads, T, -1)"),
        "heads are mixed up": ("nn.attention:Attention._merge", "heads.transpose(1, 2).reshape(B, T, H * size)",
            "heads.reshape(B, T, H * size)"),
    },
    "E25": {
        "heads are mixed up": ("nn.attention:Attention._merge", "heads.transpose(1, 2).reshape(B, T, H * size)",
            "heads.reshape(B, T, H * size)"),
        "each head is as wide as the model": ("nn.attention:Attention", "max(1, width // heads)", "width"),
    },
    "C4": {
        "each head is as wide as the model": ("nn.attention:Attention", "max(1, width // heads)", "width"),
    },
    "A17": {
        "scores are not divided": ("nn.attention:Attention._factor", '"d_k": 1 / math.sqrt(self.key_size)',
            '"d_k": 1.0'),
        "scores are divided twice": ("nn.attention:Attention._factor", '"d_k": 1 / math.sqrt(self.key_size)',
            '"d_k": 1 / self.key_size'),
        "softmax's backward is halved": ("minigrad.fast.softmax:Softmax.backward", "self.dim, dout, out)",
            "self.dim, dout * 0.5, out)"),
    },
    "E28": {
        "scores are scaled all the same": ("nn.attention:Attention._factor", '"none": 1.0', '"none": 0.5'),
    },
    "A15": {
        "weights are not scaled": NOT_SCALED,
        "weights are not scaled by themselves": NOT_SCALED_BY_ITSELF,
        "scores are not divided": ("nn.attention:Attention._factor", '"d_k": 1 / math.sqrt(self.key_size)',
            '"d_k": 1.0'),
        "scores are divided by the root of the width": ("nn.attention:Attention._factor",
            '"d_k": 1 / math.sqrt(self.key_size)',
            '"d_k": 1 / math.sqrt(self.width)'),
        "d_model is d_k": ("nn.attention:Attention._factor", '"d_model": 1 / math.sqrt(self.width)',
            '"d_model": 1 / math.sqrt(self.key_size)'),
    },
    "C6": {
        "residual connections are skipped": RESIDUAL_SKIPPED,
        "what is added is always normalised": ("models.transformer:Block._add",
            'x if sublayer.residual == "x" else inner', "inner"),
        "what is added is never normalised": ("models.transformer:Block._add",
            'x if sublayer.residual == "x" else inner', "x"),
        "the norm after the sum is skipped": ("models.transformer:Block._add",
            "norm(out) if sublayer.norm_after else out", "out"),
    },
    "R18": {
        "residual connections are skipped": RESIDUAL_SKIPPED,
        "residual connections all the same": ("models.transformer:Block._add", "if sublayer.residual is not None:",
            "if True:"),
    },
    "N18": {
        "the norm after the sum is skipped": ("models.transformer:Block._add",
            "norm(out) if sublayer.norm_after else out", "out"),
        "the norm before a layer is skipped": ("models.transformer:Block._add",
            "norm(x) if sublayer.norm_before else x", "x"),
    },
    "N17": {
        "layer norm is skipped": ("nn.layer_norm:LayerNorm.forward", "return F.layer_norm(x,",
            "return (lambda x, *_: x)(x,"),
        "layer norm's backward is halved": ("minigrad.fast.layer_norm:LayerNorm.backward",
            "as_rows(dout), as_rows(x)",
            "as_rows(dout) * np.float64(0.5), as_rows(x)"),
    },
    "E4": {
        "unbiased is ignored": ("nn.functional.layers:layer_norm_variant", "int(unbiased)", "0"),
        "eps_at is ignored": ("nn.functional.layers:layer_norm_variant", "DENOMINATORS[eps_at]",
            'DENOMINATORS["outside"]'),
        "eps is ignored": ("nn.layer_norm:LayerNorm.forward", "self.bias, self.eps)", "self.bias, 1e-5)"),
        "eps of the variants is ignored": ("nn.layer_norm:LayerNorm.forward", "self.bias, self.eps, self.eps_at",
            "self.bias, 1e-5, self.eps_at"),
        "a gain is ignored": ("nn.functional.layers:layer_norm_variant", "out if weight is None else out * weight",
            "out"),
    },
    "N5": {
        "elementwise_affine is ignored": ("nn.layer_norm:LayerNorm",
            "Parameter(mg.ones(*self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine",
            "Parameter(mg.ones(*self.normalized_shape, device=device, dtype=dtype)) if True"),
        "bias=False is ignored": ("nn.layer_norm:LayerNorm", "elementwise_affine and bias else",
            "elementwise_affine else"),
        "the bias is not added": ("nn.layer_norm:LayerNorm.forward", "self.weight, self.bias, self.eps)",
            "self.weight, None, self.eps)"),
    },
    "G2": {
        "an encoder sees padding": ("models.encoder_decoder:Encoder.forward", "block(x, padding)", "block(x)"),
        "an encoder is causal": ("models.encoder_decoder:Encoder", "is_causal=False", "is_causal=True"),
        "blocks are always causal": ("models.transformer:Block._attend", "is_causal=self.is_causal", "is_causal=True"),
        "an encoder's blocks are skipped": ("models.encoder_decoder:Encoder.forward", "in self.blocks:", "in []:"),
    },
    "G3": {
        "the source's padding is seen by itself": ("models.encoder_decoder:EncoderDecoder.encode", ", source == PAD", ""),
        "the memory's padding is seen": ("models.encoder_decoder:Decoder.forward", "memory_padding=memory_padding",
            "memory_padding=None"),
        "encode returns the embedding": ("models.encoder_decoder:EncoderDecoder.encode",
            "self.encoder(source, source == PAD)",
            "self.encoder.embed(source)"),
        "an encoder's blocks are skipped": ("models.encoder_decoder:Encoder.forward", "in self.blocks:", "in []:"),
        "a decoder's blocks are skipped": ("models.encoder_decoder:Decoder.forward", "in self.blocks:", "in []:"),
        "an encoder is causal": ("models.encoder_decoder:Encoder", "is_causal=False", "is_causal=True"),
        "a decoder is not causal": ("models.encoder_decoder:Decoder", "has_memory=True",
            "has_memory=True, is_causal=False"),
        "a decoder attends to itself": OWN_MEMORY,
        "greedy answers stop early": ("models.translate:greedy", "tokens.shape[1] <= most", "tokens.shape[1] < most"),
    },
    "A18": {
        "the memory's padding is seen": ("models.transformer:Block.forward", "key_padding_mask=memory_padding",
            "key_padding_mask=None"),
        "cross-attention has the norm of self-attention": ("models.transformer:Block.forward", "self._add(0, self.ln_context",
            "self._add(0, self.ln_1"),
        "the memory is ignored": ("nn.attention:Attention.forward", "x if memory is None else memory\n        self",
            "x\n        self"),
        "values are keys": ("nn.attention:Attention.project",
            "v = self._split(source, self.value if self.projects_value else None, self.key_value_heads)",
            "v = k"),
        "the memory has no gradient": ("nn.attention:Attention.forward", "q, k, v = self.project(x, source)",
            "q, k, v = self.project(x, source.detach())"),
    },
    "E26": {
        "a decoder attends to itself": OWN_MEMORY,
    },
    "P8": {
        "rotary positions are ignored": ("nn.attention:Attention.rotated", 'self.positions == "rotary"', "False"),
        "rotary positions turn by 0": ("nn.position:rotary_table", "angles = np", "angles = 0 * np"),
        "rotary positions turn backwards": ("nn.position:rotary_table", "angles = np", "angles = -1 * np"),
        "only queries are turned": ("nn.attention:Attention.forward", "self.rotated(q), self.rotated(k)", "self.rotated(q), k"),
        "relative positions are ignored": ("nn.attention:Attention._mask", 'self.positions == "relative"', "False"),
        "relative positions have the other sign": ("nn.attention:Attention.position_bias", "return self",
            "return -self"),
        "relative positions are mirrored": ("nn.attention:Attention.position_bias",
            "np.arange(queries)[:, None] - np.arange(keys)",
            "np.arange(keys) - np.arange(queries)[:, None]"),
        "sinusoids are not added": ("nn.position:PositionEncoding.forward", "return x + p", "return x"),
    },
}
TABLES = {  # {row: {name: (a table of the library, key, another value)}}
    "E4": {"the double root is a root": (F.DENOMINATORS, "double_root", F.DENOMINATORS["outside"]),
           "eps outside the root is inside": (F.DENOMINATORS, "outside", F.DENOMINATORS["inside"])},
}


def sabotage(row: str, name: str, apply) -> Sabotage:
    return Sabotage(f"note 001, {row}: {name}", ("tests/study/test_claims.py", "-k", f"{row}-note_001"), apply)


SABOTAGES = [
    *(sabotage(row, name, edit(*place)) for row, edits in EDITS.items() for name, place in edits.items()),
    *(sabotage(row, name, lambda place=place: operator.setitem(*place))
      for row, tables in TABLES.items() for name, place in tables.items()),
]
