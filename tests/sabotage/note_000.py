"""Sabotages of what the claims of note 000 are about: each is to be noticed by the claim itself."""
from sabotage.edit import of_claims

ATTENTION, BLOCK, MODEL = "nn.attention:Attention", "models.transformer:Block", "models.transformer:CausalTransformer"
ENCODER, PACKED = "models.encoder_decoder:Encoder", "nn.multi_head_attention:MultiHeadAttention.forward"
RESIDUAL_LOST = f"{BLOCK}._add", "if sublayer.residual is not None:", "if False:"
ADDED_TO_X = f"{BLOCK}._add", '(x if sublayer.residual == "x" else inner)', "x"
ADDED_TO_THE_NORMED = f"{BLOCK}._add", '(x if sublayer.residual == "x" else inner)', "inner"
NORM_LOST = f"{BLOCK}._add", "norm(x) if sublayer.norm_before else x", "x"
NORM_TWICE = f"{BLOCK}._add", "return norm(out) if sublayer.norm_after else out", "return norm(out) if norm else out"
ATTENTION_SKIPPED = f"{BLOCK}.forward", "if self.attends:", "if False:"
MLP_SKIPPED = f"{BLOCK}.forward", "return self._add(1, self.ln_2, x, self.mlp)", "return x"
HEADS_MERGED = "models.transformer:make_attention", "nn.MultiHeadAttention(config.width, config.heads,", "nn.MultiHeadAttention(config.width, 1,"
NOT_CAUSAL = f"{BLOCK}._attend", "is_causal=self.is_causal", "is_causal=False"
SUMS_OF_COLUMNS = "nn.functional.attention:attention_weights", "return scores.softmax(-1)", "return scores.softmax(-2)"
VALUES_ARE_KEYS = f"{ATTENTION}.project", "v = self._split(source, self.value if self.projects_value else None, self.key_value_heads)", "v = k"

SABOTAGES = of_claims("000", {
    "C2": {
        "an RNN's state is lost": ("nn.recurrent:RNN._run", "b_hh if h is None", "b_hh if True"),
        "attention sees half": (PACKED, "self.num_heads, is_causal, dropout,", "self.num_heads, True, dropout,"),
        "attention is not counted": ("minigrad.tracing.flops:count_flops.forward", "op.count(arrays, output)", "0"),
    },
    "L1": {
        "one row for all ids": ("nn.functional.layers:embedding", "weight, positions, ids=ids)", "weight, positions, ids=ids * 0)"),
        "columns are taken for rows": (f"{ATTENTION}.forward", "y if self.layout == \"rows\" else y.mT", "y"),
    },
    "L4": {
        "the embedding does not learn": ("nn.functional.layers:embedding", "weight, positions, ids=ids)", "weight.detach(), positions, ids=ids)"),
        "a fixed embedding learns": ("nn.module:Module.requires_grad_", "parameter.requires_grad = requires_grad", "pass"),
        "of a repeated id the last gradient only": ("minigrad.fast.embedding:Embedding.backward",
            "kernels.embedding_backward(as_rows(dout), self.ids.reshape(-1), dweight)",
            "dweight[...] = 0; dweight[self.ids.reshape(-1)] = as_rows(dout)"),
    },
    "L3": {
        "encoder: no final norm": (f"{ENCODER}.forward", "return self.ln_f(x)", "return x"),
        "encoder: blocks skipped": (f"{ENCODER}.forward", "in self.blocks:", "in []:"),
        "encoder: last block skipped": (f"{ENCODER}.forward", "in self.blocks:", "in self.blocks[:-1]:"),
        "encoder: the first block again and again": (f"{ENCODER}.forward", "block(x, padding)", "self.blocks[0](x, padding)"),
        "encoder: each block is given the input": (f"{ENCODER}.forward", "x = block(x, padding)",
            "x = block(self.embed(tokens), padding)"),
        "layers ignored": ("models.encoder_decoder:Stack", "range(config.layers)", "range(1)"),
    },
    "A1": {
        "causal=\"mask\" masks nothing": (f"{ATTENTION}.forward", 'self.causal == "mask" and mask is None', "False"),
        "renormalise: nothing is zeroed": (f"{ATTENTION}.forward", "weights.tril()", "weights"),
        "renormalise: not divided": (f"{ATTENTION}.forward", "weights / total.masked_fill(total == 0, 1.0)", "weights"),
        "always causal": (f"{ATTENTION}.forward", 'self.causal == "mask" and mask is None', "True"),
        "sums of columns": SUMS_OF_COLUMNS,
    },
    "A2": {
        "scale=\"none\" scales": (f"{ATTENTION}._factor", '"none": 1.0', '"none": 0.5'),
        "queries are other tokens'": (f"{ATTENTION}.project", "q = self._split(x, query)", "q = self._split(x, query).flip(2)"),
        "an unused parameter": (ATTENTION, 'if query_key != "none":', "if True:"),
    },
    "A24": {
        "tokens are centred": (f"{ATTENTION}._split", "return x[:, None].expand(",
            "return (x - x.mean(-1, keepdim=True))[:, None].expand("),
        "the projection is left out": (f"{ATTENTION}._split", "if projection is None:", "if True:"),
    },
    "A3": {
        "keys are other tokens'": (f"{ATTENTION}.project", "k = q if source is x", "k = q.flip(2) if source is x"),
        "scale=\"none\" scales": (f"{ATTENTION}._factor", '"none": 1.0', '"none": 0.5'),
        "sums of columns": SUMS_OF_COLUMNS,
    },
    "A4": {
        "keys are projected as queries": (f"{ATTENTION}.project", "k = self._split(source, self.key, self.key_value_heads)",
            "k = self._split(source, self.query)"),
        "queries and keys exchanged": (f"{ATTENTION}.project", "return q, self._for_each_query(k)", "return k, self._for_each_query(q)"),
    },
    "A5": {
        "causal=\"mask\" masks nothing": (f"{ATTENTION}.forward", 'self.causal == "mask" and mask is None', "False"),
        "renormalise: nothing is zeroed": (f"{ATTENTION}.forward", "weights.tril()", "weights"),
        "renormalise: the token itself is zeroed, too": (f"{ATTENTION}.forward", "weights.tril()", "weights.tril(-1)"),
        "renormalise: not divided": (f"{ATTENTION}.forward", "weights / total.masked_fill(total == 0, 1.0)", "weights"),
        "renormalise is masking": (f"{ATTENTION}.forward", "is_causal, self.factor)\n            if",
            "bool(self.causal), self.factor)\n            if"),
    },
    "G11": {
        "causal=\"mask\" masks nothing": (f"{ATTENTION}.forward", 'self.causal == "mask" and mask is None', "False"),
        "the token itself is hidden, too": ("nn.functional.attention:attention_weights", "np.tri(*scores.shape[-2:], dtype=bool)",
            "np.tri(*scores.shape[-2:], k=-1, dtype=bool)"),
        "queries and keys exchanged": (f"{ATTENTION}.project", "return q, self._for_each_query(k)", "return k, self._for_each_query(q)"),
        "an RNN's state is lost": ("nn.recurrent:RNN._run", "b_hh if h is None", "b_hh if True"),
        "an RNN sees the last token, too": ("nn.recurrent:RNN._run", "z, before = inputs.select(time, t)",
            "z, before = inputs.select(time, t) + inputs.select(time, t - 1)"),
    },
    "A20": {
        "distances have the other sign": (f"{ATTENTION}.position_bias", "np.arange(queries)[:, None] - np.arange(keys)",
            "np.arange(keys) - np.arange(queries)[:, None]"),
        "distances are ignored": (f"{ATTENTION}._mask", 'if self.positions == "relative":', "if False:"),
        "far distances are alike": (f"{ATTENTION}.position_bias", "-self.max_distance, self.max_distance) +", "-3, 3) +"),
        "relative positions are not causal": (f"{ATTENTION}._mask", 'if self.causal == "mask" and (parts or is_far):', "if False:"),
    },
    "A10": {
        "heads are averaged": (f"{ATTENTION}._merge", ".sum(1)", ".mean(1)"),
        "one read-out for all heads": (f"{ATTENTION}._merge", "heads @ self.out_weights.mT", "heads @ self.out_weights[:1].mT"),
        "read-outs are transposed": (f"{ATTENTION}._merge", "heads @ self.out_weights.mT", "heads @ self.out_weights"),
        "heads cut across features": (f"{ATTENTION}._split", "reshape(B, T, heads, -1).transpose(1, 2)",
            "reshape(B, T, -1, self.heads).permute(0, 3, 1, 2)"),
    },
    "A11": {
        "values are keys": VALUES_ARE_KEYS,
        "one read-out for all heads": (f"{ATTENTION}._merge", "heads @ self.out_weights.mT", "heads @ self.out_weights[:1].mT"),
    },
    "E3": {
        "values are keys": VALUES_ARE_KEYS,
        "values are transposed": ("nn.linear:Linear.forward", "self.weight,",
            "self.weight.mT if self.weight.shape[0] == self.weight.shape[1] else self.weight,"),
        "shapes are not checked": ("minigrad.ops.matmul:matmul", "shape_a[-1] != shape_b[0 if column else -2]", "False"),
    },
    "M1": {
        "tokens are mixed": ("models.transformer:MLP.forward", "F.mlp(x,", "F.mlp(x + x.mean(-2, keepdim=True),"),
        "no activation": ("models.transformer:MLP.forward", "return F.mlp(x, expand.weight",
            "return project(F.linear(x, expand.weight, expand.bias)) if True else F.mlp(x, expand.weight"),
        "another activation": ("models.transformer:MLP", "None if gated else config.activation", '"relu"'),
    },
    "R0": {
        "a residual connection": (f"{BLOCK}._add", "if sublayer.residual is not None:", "if True:"),
        "attention skipped": ATTENTION_SKIPPED,
        "MLP skipped": MLP_SKIPPED,
        "heads merged": HEADS_MERGED,
    },
    "C3": {
        "half as many hidden units": ("models.transformer:TransformerConfig.hidden", "self.mlp_ratio * self.width", "2 * self.width"),
        "attention skipped": ATTENTION_SKIPPED,
        "an MLP is not counted": ("minigrad.ops.matmul:MLP.count", "self.first + self.second", "self.first"),
    },
    "R1": {
        "residual connections lost": RESIDUAL_LOST,
        "a norm": (f"{BLOCK}._add", "inner = norm(x) if", "x = F.layer_norm(x, x.shape[-1])\n        inner = norm(x) if"),
        "MLP skipped": MLP_SKIPPED,
        "attention skipped": ATTENTION_SKIPPED,
    },
    "R8": {
        "residual connections lost": RESIDUAL_LOST,
        "residual connections a tenth as strong": (f"{BLOCK}._add", '(x if sublayer.residual == "x" else inner), out',
            '0.1 * (x if sublayer.residual == "x" else inner), out'),
    },
    "N1": {
        "eps is 1e-5 always": ("nn.layer_norm:LayerNorm.forward", "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, 1e-5)"),
        "eps is 0 always": ("nn.layer_norm:LayerNorm.forward", "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, 0.0)"),
        "no bias": ("nn.layer_norm:LayerNorm.forward", "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias,",
            "return F.layer_norm(x, self.normalized_shape, self.weight, None,"),
        "variance with D - 1": ("nn.layer_norm:LayerNorm.forward",
            "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            'return F.layer_norm_variant(x, self.normalized_shape, self.weight, self.bias, self.eps, "inside", True)'),
    },
    "N6": {
        "variance with D - 1": ("nn.layer_norm:LayerNorm.forward",
            "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            'return F.layer_norm_variant(x, self.normalized_shape, self.weight, self.bias, self.eps, "inside", True)'),
        "not centred": ("nn.layer_norm:LayerNorm.forward", "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            "return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)"),
        "its statistics are constants": ("nn.layer_norm:LayerNorm.forward",
            "return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            "return (x - x.mean(-1, keepdim=True).detach()) / x.std(-1, correction=0, keepdim=True).detach()"),
    },
    "N7": {
        "norms skipped": NORM_LOST,
        "the norm of attention skipped": (f"{BLOCK}._add", "norm(x) if sublayer.norm_before else x",
            "norm(x) if sublayer.norm_before and which else x"),
        "the residual placement has norms": ("models.transformer:Block", "PLACEMENTS[config.placement]", 'PLACEMENTS["pre"]'),
    },
    "R4": {
        "added to X": ADDED_TO_X,
        "norms skipped": NORM_LOST,
        "a norm at the end": NORM_TWICE,
        "residual connections lost": RESIDUAL_LOST,
    },
    "E15": {
        "added to X": ADDED_TO_X,
        "added to the normed": ADDED_TO_THE_NORMED,
        "norms skipped": NORM_LOST,
        "residual connections lost": RESIDUAL_LOST,
    },
    "E13": {
        "added to X": ADDED_TO_X,
        "added to the normed": ADDED_TO_THE_NORMED,
        "norms skipped": NORM_LOST,
    },
    "L5": {
        "patches go column by column": ("nn.patches:patchify", "permute(0, 2, 4, 1, 3, 5)", "permute(0, 4, 2, 1, 3, 5)"),
        "pixels go column by column": ("nn.patches:patchify", "permute(0, 2, 4, 1, 3, 5)", "permute(0, 2, 4, 1, 5, 3)"),
        "images are put together column by column": ("nn.patches:unpatchify", "permute(0, 3, 1, 4, 2, 5)", "permute(0, 3, 2, 4, 1, 5)"),
        "patches are not projected": ("nn.patches:PatchEmbedding.forward", "self.project(patchify(images, self.size))",
            "patchify(images, self.size)"),
        "positions are not added": ("models.transformer:with_positions", "config.positions not in FIXED", "True"),
        "positions are added always": ("models.transformer:with_positions", "if config.positions not in FIXED:\n        return x",
            'if config.positions not in FIXED:\n        return x + Tensor(FIXED["sinusoidal"](x.shape[1], config.width), dtype=x.dtype)'),
        "an encoder is causal": (ENCODER, "is_causal=False", "is_causal=True"),
        "a decoder is not": NOT_CAUSAL,
    },
    "P1": {
        "a stack has no learned positions": ("models.encoder_decoder:Stack.embed", "self.position_embedding(x)", "x"),
        "a stack has no fixed positions": ("models.encoder_decoder:Stack.embed", "with_positions(x, self.config)", "x"),
        "positions are subtracted": ("nn.position:PositionEncoding.forward", "return x + p", "return x - p"),
        "positions start at 1": ("nn.position:PositionEncoding.forward", "self.table(x.shape[-2], start)", "self.table(x.shape[-2], start + 1)"),
        "positions do not learn": ("nn.position:PositionEncoding.table", "return self.weight[", "return self.weight.detach()["),
        "content gets no gradient": ("nn.position:PositionEncoding.forward", "return x + p", "return x.detach() + p"),
        "fused positions do not learn": ("nn.functional.layers:embedding", "weight, positions, ids=ids)",
            "weight, None if positions is None else positions.detach(), ids=ids)"),
        "sinusoids are sines only": ("nn.position:sinusoidal", "np.cos(angles)", "np.sin(angles)"),
    },
    "T1": {
        "no final layer": (f"{MODEL}.forward", "self.ln_f(x)", "x"),
        "read-out of another layer": (f"{MODEL}.forward", "self.ln_f(x)", "self.ln_f(x).flip(1)"),
        "loss of the first sequence only": (f"{MODEL}.forward", "logits.view(-1, self.config.vocabulary_size), targets.reshape(-1)",
            "logits[0], targets[0]"),
        "large first weights": ("models.transformer:initialise", "if adds_to_residual else std", "if adds_to_residual else 1.0"),
        "one random number for all rows": ("models.generate:draw", "generator.random(len(logits))",
            "np.full(len(logits), generator.random())"),
        "the likeliest is drawn": ("models.generate:draw", "if temperature == 0:", "if True:"),
        "draws at temperature 2": ("models.generate:draw", "max(temperature, COLDEST)", "2.0"),
    },
    "T8": {
        "weights not tied": (f"{MODEL}.forward", "F.linear(x, self.token_embedding.weight)",
            "F.linear(x, self.token_embedding.weight.detach().clone())"),
        "no gradient through the embedding": (f"{MODEL}.forward", "x = self.dropout(x)", "x = self.dropout(x.detach())"),
    },
    "T9": {
        "blocks skipped": (f"{MODEL}.forward", "in self.blocks:", "in []:"),
        "attention skipped": ATTENTION_SKIPPED,
        "not causal": NOT_CAUSAL,
        "no gradient through the embedding": (f"{MODEL}.forward", "x = self.dropout(x)", "x = self.dropout(x.detach())"),
    },
    "T3": {
        "steps count twice": ("minigrad.fast.fused_steps:FusedStep.update", "self.steps += self.gradients != 0",
            "self.steps += 2 * (self.gradients != 0)"),
        "lr ignored": ("minigrad.fast.fused_steps:FusedAdam._launch", 'group["lr"]', "0.01"),
        "betas ignored": ("minigrad.fast.fused_steps:FusedAdam._launch", '*group["betas"]', "0.9, 0.9"),
        "gradients add up": ("nn.optim.optimizer:Optimizer.zero_grad", 'zero_grads(group["params"], set_to_none)', "pass"),
    },
    "T4": {
        "nothing is clipped": ("nn.optim.clip:clip_coefficient", "return 1.0 if coefficient > 1.0 else coefficient", "return 1.0"),
        "short gradients are made longer": ("nn.optim.clip:clip_coefficient", "return 1.0 if coefficient > 1.0 else coefficient", "return coefficient"),
        "elements are clipped": ("nn.optim.clip:clip_grad_norm_", "gradient *= coefficient", "np.clip(gradient, -coefficient, coefficient, out=gradient)"),
        "nothing is clipped within the step": ("nn.optim.fused:step_together",
            "clip = clip_coefficient(grad_norm, max_grad_norm)", "pass"),
    },
    "T5": {
        "no warm-up": ("nn.optim.lr_scheduler:warmup_annealing", "peak * (step + 1) / (warmup_steps + 1)", "peak"),
        "floor ignored": ("nn.optim.lr_scheduler:warmup_annealing", "return floor + (peak - floor)", "return peak"),
        "always linear": ("nn.optim.lr_scheduler:warmup_annealing", "(peak - floor) * ANNEALING[annealing](progress)", "(peak - floor) * (1 - progress)"),
        "the scheduler does nothing": ("nn.optim.lr_scheduler:CosineAnnealingLR.get_lr", "0.5 * (1 + math.cos(math.pi * self.last_epoch / self.T_max))", "1.0"),
    },
    "T6": {
        "batches do not grow": ("models.training_config:TrainingConfig.batch_size_at", "if self.final_batch_size is None:", "if True:"),
        "batches grow at once": ("models.training_config:TrainingConfig.batch_size_at", "step * (doublings + 1) // self.steps", "doublings"),
        "gradients are summed": ("models.train:Trainer._loss_and_gradients", "if self.config.accumulation * self.ranks.size > 1", "if False"),
        "one batch only": ("models.train:Trainer.train_step", "range(config.accumulation)", "range(1)"),
    },
    "T7": {
        "not enlarged": ("minigrad.fast.kernels.dropout:threshold_and_scale", "1 / (1 - p) if p < 1 else 0", "1"),
        "nothing is dropped": ("minigrad.fast.kernels.dropout:threshold_and_scale", "round(p * 2**32)", "0"),
        "p is what is kept": ("minigrad.fast.kernels.dropout:threshold_and_scale", "round(p * 2**32)", "round((1 - p) * 2**32)"),
        "the gradient is not masked": ("minigrad.ops.dropout:Dropout.backward", "type(self).call(dout, key=self.key, p=self.p)", "dout * 1.0"),
        "the gradient has another mask": ("minigrad.ops.dropout:Dropout.backward", "key=self.key", "key=self.key + 1"),
        "dropped in evaluation": ("nn.dropout:Dropout.forward", "self.training", "True"),
    },
    "T2": {
        "targets are the inputs": ("models.data:windows", "for shift in (0, 1)", "for shift in (0, 0)"),
        "the cache is off": ("models.decode:CachedDecoder._count_known", "end <= self._begin", "True"),
        "the cache is short of a token": ("models.decode:CachedDecoder._count_known", "min(self._end, tokens.shape[1] - 1)",
            "min(self._end, tokens.shape[1] - 1) - 1"),
        "not causal": NOT_CAUSAL,
        "positions are not added": (f"{MODEL}.forward", "(tokens, self.position_embedding.weight)", "(tokens)"),
        "the cache holds another position": ("models.decode:CachedDecoder._read", "run(new, slot,", "run(new, max(slot - 1, 0),"),
    },
})
