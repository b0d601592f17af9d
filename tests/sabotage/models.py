"""Sabotages of `models`: each part of a model skipped, each field of a config ignored, each step of training left out."""
import dataclasses

from models import architectures, tasks, transformer
from models.transformer import PLACEMENTS, Sublayer
from nn import functional as F
from sabotage.base import Sabotage
from sabotage.edit import default, edit, edits, explained

# Without the checks of gradients: those take a minute, and the gradients of a model that computes something else are right.
REFERENCES = ("tests/models/test_references.py",)
CAUSAL = (*REFERENCES, "tests/models/test_transformer.py", "tests/models/test_variants.py", "-k", "not gradients")
SEQUENCES = (*REFERENCES, "tests/models/test_encoder_decoder.py", "-k", "not gradients and not test_classifier")
ENCODING = ("tests/models/test_encoder_decoder.py", "-k", "each_output")  # tests that compare with no reference
HOOKS = ("tests/models/test_transformer.py", "-k", "hooks")
GENERATION = ("tests/models/test_generate.py",)
DECODING = ("tests/models/test_decode.py",)
TRANSLATION = ("tests/models/test_translate.py",)
TRAINING = ("tests/models/test_train.py", "tests/models/test_data.py")
TASK = ("tests/models/test_task.py",)
RUN = ("tests/models/test_run.py", "-k", "interrupted or best or lock or damaged or how_long or seconds")
START = ("tests/models/test_run.py", "-k", "another or rises or locked or bad_resume or bad_input")
HOSTILE = ("tests/models/test_hostile_checkpoints.py", "-k", "members or sizes")
LOADING = ("tests/models/test_loading.py",)
MEASURING = ("tests/models/test_train.py", "-k", "layer or plot or files")
DRAWN = ("tests/models/test_pictures.py",)
LOOKING = ("tests/models/test_attention_maps.py",)
SAVING = ("tests/minigrad/test_serialization.py", "tests/models/test_checkpoint.py")
TASKS = ("tests/models/test_tasks.py",)


def replaced(name: str, table: dict, key: str, value, tests: tuple[str, ...]) -> Sabotage:
    return Sabotage(name, tests, lambda: table.__setitem__(key, value))


def placements() -> list[Sabotage]:
    """Each switch of each placement turned, for attention and for the MLP."""
    found = []
    for key, pair in PLACEMENTS.items():
        for which, part in enumerate(("attention", "MLP")):
            residuals = [other for other in ("x", "inner", None) if other != pair[which].residual]
            wrong = [dict(norm_before=not pair[which].norm_before), dict(norm_after=not pair[which].norm_after)]
            for change in wrong + [dict(residual=residual) for residual in residuals]:
                turned = dataclasses.replace(pair[which], **change)
                if _same(turned, pair[which]):
                    continue
                value = tuple(turned if i == which else other for i, other in enumerate(pair))
                ((field, to),) = change.items()
                found.append(replaced(f"placement {key}: {part} with {field}={to}", PLACEMENTS, key, value, REFERENCES))
    return found


def _same(a: Sublayer, b: Sublayer) -> bool:
    """Without a norm before it, x is the inner value."""
    def meaning(sublayer):
        residual = sublayer.residual if sublayer.norm_before or sublayer.residual is None else "x"
        return sublayer.norm_before, residual, sublayer.norm_after

    return meaning(a) == meaning(b)


BLOCK = [
    *edits(REFERENCES, "models.transformer", {
        "Block: attention skipped": ("Block.forward", "if self.attends:", "if False:"),
        "Block: attention to the memory skipped": ("Block.forward", "if memory is not None:", "if False:"),
        "Block: MLP skipped": ("Block.forward", "return self._add(1, self.ln_2, x, self.mlp)", "return x"),
        "Block: padding ignored": ("Block.forward", "self._attend(inner, padding)", "self._attend(inner, None)"),
        "Block: padding of the memory ignored": ("Block.forward", "inner, memory, key_padding_mask=memory_padding",
            "inner, memory"),
        "Block: padding ignored within nn.Attention": ("Block._attend", "self.attention(x, key_padding_mask=padding)",
            "self.attention(x)"),
        "Block: causal ignored": ("Block._attend", "is_causal=self.is_causal", "is_causal=False"),
        "Block: always causal": ("Block._attend", "is_causal=self.is_causal", "is_causal=True"),
        "Block: causal ignored within nn.Attention": ("make_attention", '"mask" if is_causal else False',
            "False"),
        "Block: always causal within nn.Attention": ("make_attention", '"mask" if is_causal else False',
            '"mask"'),
        "Block: attention to itself instead of the memory": (
            "Block.forward", "inner, memory, key_padding_mask=memory_padding", "inner"),
        "Block: dropout skipped": ("Block._add_dropped", "dropout.p, dropout.training", "0.0"),
        "Block: dropout in eval": ("Block._add_dropped", "dropout.p, dropout.training", "dropout.p"),
        "Block: dropout on the residual": ("Block._add_dropped", "F.add_dropped(x, out,", "F.add_dropped(out, x,"),
        "Block: another dropout ignored": ("Block._add_dropped", "return x + dropout(out)", "return x + out"),
        "Block: dropout skipped without residual": ("Block._add", "out = self.dropout(out)", "pass"),
        "Block: dropout of attention ignored": (
            "make_attention", "nn.MultiHeadAttention(config.width, config.heads, dropout=config.dropout,",
            "nn.MultiHeadAttention(config.width, config.heads,"),
        "Block: dropout of nn.Attention ignored": ("make_attention", "dropout=config.dropout, positions",
            "positions"),
        "Block: heads ignored": ("make_attention", "nn.MultiHeadAttention(config.width, config.heads,",
            "nn.MultiHeadAttention(config.width, 1,"),
        "Block: heads of nn.Attention ignored": ("make_attention", "nn.Attention(config.width, config.heads,",
            "nn.Attention(config.width, 1,"),
        "Block: bias of attention ignored": ("make_attention", "dropout=config.dropout, bias=config.bias,\n                                     positions",
            "dropout=config.dropout, positions"),
        "Block: bias of nn.Attention ignored": ("make_attention", "bias=config.bias,\n                        dropout", "bias=True, dropout"),
        "Block: the attention to the memory has positions": ("Block", 'positions="none", rotary_base=BASE, rotary_scaling="none"', ""),
        "Block: the attention to the memory is causal": ("Block", "is_causal=False)", "is_causal=True)"),
        "Block: bias of norms ignored": ("make_norm", "bias=config.bias", "bias=True"),
        "Block: eps of layer norms ignored": ("make_norm", "nn.LayerNorm(config.width, eps=config.norm_eps", "nn.LayerNorm(config.width, eps=1e-5"),
        "Block: eps of RMS norms ignored": ("make_norm", "nn.RMSNorm(config.width, eps=config.norm_eps", "nn.RMSNorm(config.width, eps=1e-5"),
        "Block: norm ignored": ("make_norm", 'config.norm == "rms_norm"', "False"),
        "Block: key_value_heads ignored": ("make_attention", "key_value_heads=config.key_value_heads", "key_value_heads=None"),
        "Block: key_value_heads ignored without positions": ("make_attention", "config.groups == config.heads and ", ""),
        "Block: head_size ignored without positions": ("make_attention", "config.heads * config.head_width == config.width", "True"),
        "Block: rotary_base ignored": ("make_attention", "rotary_base=config.rotary_base,\n                                     ", ""),
        "Block: rotary_base of nn.Attention ignored": (
            "make_attention", "rotary_base=config.rotary_base, ", ""),
        "Block: rotary positions in a layer apart": ("make_attention", 'positions != "relative" and', 'positions == "none" and'),
        "Block: rotary_scaling ignored": ("make_attention", ", rotary_scaling=config.rotary_scaling", ""),
        "Block: no window": ("make_attention", "window=config.context if is_causal else None", "window=None"),
        "Block: no window without positions": ("Block._attend", "self.is_causal and T > self.context", "False"),
        "Block: window one too wide": ("Block._attend", "k=-self.context", "k=-self.context - 1"),
        "Block: max_distance is the default": ("make_attention", "max_distance=config.context,", ""),
        "Block: positions within attention ignored": ("make_attention", "config.positions in ATTENTION_POSITIONS",
            "False"),
        "Block: one norm for both": ("Block.forward", "self._add(1, self.ln_2,",
            "self._add(1, self.ln_1 if self.attends else self.ln_2,"),
        "Block: the memory's norm is that of attention": ("Block.forward", "self._add(0, self.ln_context,",
            "self._add(0, self.ln_1,"),
        "Block: the memory has the MLP's placement": ("Block.forward", "self._add(0, self.ln_context",
            "self._add(1, self.ln_context"),
        "MLP: mlp_ratio ignored": ("TransformerConfig.hidden", "self.mlp_ratio * self.width", "4 * self.width"),
        "MLP: hidden_width ignored": ("TransformerConfig.hidden", "if self.hidden_width is None else self.hidden_width", ""),
        "MLP: activation ignored": ("MLP", "None if gated else config.activation", 'None if gated else "gelu"'),
        "MLP: no gate": ("MLP.forward", "if gate is not None", "if False"),
        "MLP: the gate's bias ignored when run": ("MLP.forward", "gate.weight, gate.bias", "gate.weight"),
        "MLP: another activation of the gate ignored when run": ("MLP.forward", ' or gate.activation != "silu"', ""),
        "MLP: hooks of the gate ignored": ("MLP.forward", "gate.has_hooks or ", ""),
        "MLP: the gate is not activated": ("MLP", "activation=gated)", "activation=None)"),
        "MLP: bias of the gate ignored": ("MLP", "bias=config.bias, activation=gated", "activation=gated"),
        "MLP: activation ignored when run": ("MLP.forward", "project.bias, expand.activation)", "project.bias)"),
        "MLP: bias of expand ignored": ("MLP", "bias=config.bias, activation=None", "activation=None"),
        "MLP: bias of project ignored": ("MLP", "nn.Linear(hidden, config.width, bias=config.bias)",
            "nn.Linear(hidden, config.width)"),
        "with_positions: nothing added": ("with_positions", "config.positions not in FIXED", "True"),
        "with_positions: tokens not scaled": ("with_positions", "x * scale_of_tokens(config)", "x"),
        "with_positions: always sinusoidal": ("with_positions", "FIXED[config.positions]", 'FIXED["sinusoidal"]'),
        "with_positions: one late": ("with_positions", "config.width), dtype", "config.width, start=1), dtype"),
    }),
    *placements(),
    *(replaced(f"activation {name} is another", F.ACTIVATIONS, name, F.tanh if name != "tanh" else F.relu, REFERENCES)
      for name in F.ACTIVATIONS if not name.startswith("gelu")),
]

CAUSAL_MODEL = edits(CAUSAL, "models.transformer", {
    "CausalTransformer: blocks skipped": ("CausalTransformer.forward", "in self.blocks:", "in []:"),
    "CausalTransformer: first block skipped": ("CausalTransformer.forward", "in self.blocks:", "in self.blocks[1:]:"),
    "CausalTransformer: last block skipped": ("CausalTransformer.forward", "in self.blocks:", "in self.blocks[:-1]:"),
    "CausalTransformer: the first block only, again and again": ("CausalTransformer.forward", "x = block(x)",
        "x = self.blocks[0](x)"),
    "CausalTransformer: final norm skipped": ("CausalTransformer.forward", "self.ln_f(x)", "x"),
    "CausalTransformer: learned positions not added": (
        "CausalTransformer.forward", "(tokens, self.position_embedding.weight)",
        "(tokens)"),
    "CausalTransformer: fixed positions not added": (
        "CausalTransformer.forward", "with_positions(self.token_embedding(tokens), self.config)",
        "self.token_embedding(tokens)"),
    "CausalTransformer: weights not tied": ("CausalTransformer.forward", "F.linear(x, self.token_embedding.weight)",
        "F.linear(x, self.token_embedding.weight.detach().clone())"),
    "CausalTransformer: always tied": ("CausalTransformer", "None if config.tied else", "None if True else"),
    "CausalTransformer: read_out ignored": ("CausalTransformer.forward", "if self.read_out is None else self.read_out(x)", ""),
    "CausalTransformer: no gradient through the embedding": ("CausalTransformer.forward", "x = self.dropout(x)",
        "x = self.dropout(x.detach())"),
    "CausalTransformer: dropout of the embedding skipped": ("CausalTransformer.forward", "x = self.dropout(x)", "pass"),
    "CausalTransformer: final_norm=False ignored": ("CausalTransformer", "if config.final_norm", "if True"),
    "CausalTransformer: final_norm=True ignored": ("CausalTransformer", "if config.final_norm", "if False"),
    "CausalTransformer: bias of the final norm ignored": (
        "CausalTransformer", "make_norm(config)", "make_norm(dataclasses.replace(config, bias=True))"),
    "CausalTransformer: the final norm is a layer norm": (
        "CausalTransformer", "make_norm(config)", 'make_norm(dataclasses.replace(config, norm="layer_norm"))'),
    "CausalTransformer: texts with positions in a table have no end": (
        "CausalTransformer.forward", "self.config.positions in ENDLESS_POSITIONS", "True"),
    "CausalTransformer: layers ignored": ("CausalTransformer", "range(config.layers)", "range(1)"),
    "CausalTransformer: context ignored": ("CausalTransformer.forward", "tokens.shape[1] > context and not is_endless",
        "False"),
    "CausalTransformer: dtype ignored": ("CausalTransformer", "self.to(config.dtype)", "pass"),
    "CausalTransformer: initialisation skipped": ("CausalTransformer", "initialise(self, config.layers)", "pass"),
    "CausalTransformer: dropout of the config ignored": ("CausalTransformer", "nn.Dropout(config.dropout)",
        "nn.Dropout(0.0)"),
    "CausalTransformer: one block at all places": ("CausalTransformer", "[Block(config) for _ in range(config.layers)]",
        "[Block(config)] * config.layers"),
    "CausalTransformer: loss of the first token only": (
        "CausalTransformer.forward", "logits.view(-1, self.config.vocabulary_size), targets.reshape(-1)",
        "logits[:, 0], targets[:, 0]"),
    "initialise: std ignored": ("initialise", "/ math.sqrt(2 * max(layers, 1)) if adds_to_residual else std",
        "/ math.sqrt(2 * max(layers, 1)) if adds_to_residual else INITIAL_STD"),
    "initialise: residual projections as large as all": ("initialise", "adds_to_residual = name",
        "adds_to_residual = False and name"),
    "initialise: nn.Attention's projection as large as all": ("initialise", '"attention.out.weight", ', ""),
    "initialise: biases stay": ("initialise", "nn.init.zeros_(parameter)", "pass"),
    "config: parameter_count without positions": ("TransformerConfig.parameter_count", "self.context * C if", "0 if"),
    "config: training_bytes ignores the batch": ("TransformerConfig.training_bytes", "batch_size * self.context",
        "self.context"),
    "config: training_bytes ignores the dtype": ("TransformerConfig.training_bytes", '4 if self.dtype == "float32" else 8',
        "4"),
    "config: training_bytes ignores the parameters": ("TransformerConfig.training_bytes", "4 * self.parameter_count() + ",
        ""),
    "config: odd rotary not refused": ("TransformerConfig.__post_init__", "self.head_width % 2", "False"),
    "config: odd head_size not refused": ("TransformerConfig.__post_init__", "self.head_width % 2", "self.width // self.heads % 2"),
    "config: groups that do not divide heads not refused": ("TransformerConfig.__post_init__", "self.heads % self.groups", "False"),
    "config: fields of rotary positions ignored without them": (
        "TransformerConfig.__post_init__", 'self.positions != "rotary" and is_given(self, name)', "False"),
    "config: rotary_scaling not checked": ("TransformerConfig.__post_init__", "parse_scaling(self.rotary_scaling)", "pass"),
    "config: parameter_count without the read-out": ("TransformerConfig.parameter_count", "(1 if self.tied else 2)", "1"),
    "config: parameter_count without the gate": (
        "TransformerConfig.parameter_count", "(1 + (self.activation in GATED))", "1"),
    "config: parameter_count with all heads": ("TransformerConfig.parameter_count", "2 * self.groups", "2 * self.heads"),
    "config: parameter_count with width for heads": ("TransformerConfig.parameter_count", "(self.heads * D + bias)", "(C + bias)"),
    "config: parameter_count with the bias of RMS norms": (
        "TransformerConfig.parameter_count", 'bias and self.norm == "layer_norm"', "bias"),
    "config: unknown choices not refused": ("check_choice", "value not in known", "False"),
})

ENCODER_DECODER = edits(SEQUENCES, "models.encoder_decoder", {
    "Encoder: blocks skipped": ("Encoder.forward", "in self.blocks:", "in []:"),
    "Encoder: first block skipped": ("Encoder.forward", "in self.blocks:", "in self.blocks[1:]:"),
    "Encoder: last block skipped": ("Encoder.forward", "in self.blocks:", "in self.blocks[:-1]:"),
    "Encoder: final norm skipped": ("Encoder.forward", "return self.ln_f(x)", "return x"),
    "Encoder: padding ignored": ("Encoder.forward", "block(x, padding)", "block(x)"),
    "Encoder: causal": ("Encoder", "is_causal=False", "is_causal=True"),
    "Encoder: attends=False ignored": ("Encoder", "attends=attends", "attends=True"),
    "Decoder: blocks skipped": ("Decoder.forward", "in self.blocks:", "in []:"),
    "Decoder: first block skipped": ("Decoder.forward", "in self.blocks:", "in self.blocks[1:]:"),
    "Decoder: last block skipped": ("Decoder.forward", "in self.blocks:", "in self.blocks[:-1]:"),
    "Decoder: final norm skipped": ("Decoder.forward", "return self.ln_f(x)", "return x"),
    "Decoder: memory ignored": ("Decoder.forward", "block(x, memory=memory,", "block(x, memory=x,"),
    "Decoder: memory absent": ("Decoder.forward", "block(x, memory=memory,", "block(x, memory=None,"),
    "Decoder: padding of the memory ignored": ("Decoder.forward", "memory_padding=memory_padding",
        "memory_padding=None"),
    "Decoder: not causal": ("Decoder", "has_memory=True", "has_memory=True, is_causal=False"),
    "Stack: layers ignored": ("Stack", "range(config.layers)", "range(1)"),
    "Stack: one block at all places": ("Stack", "[Block(config, **options) for _ in range(config.layers)]",
        "[Block(config, **options)] * config.layers"),
    "Stack: final_norm=False ignored": ("Stack", "if config.final_norm", "if True"),
    "Stack: final_norm=True ignored": ("Stack", "if config.final_norm", "if False"),
    "Stack: bias of the final norm ignored": (
        "Stack", "make_norm(config)", "nn.LayerNorm(config.width)"),
    "Stack: dropout of the config ignored": ("Stack", "nn.Dropout(config.dropout)", "nn.Dropout(0.0)"),
    "Stack: learned positions not added": ("Stack.embed", "self.dropout(self.position_embedding(x))", "self.dropout(x)"),
    "Stack: dropout of the embedding skipped, learned positions": (
        "Stack.embed", "self.dropout(self.position_embedding(x))",
        "self.position_embedding(x)"),
    "Stack: dropout of the embedding skipped, other positions": (
        "Stack.embed", "self.dropout(with_positions(x, self.config))",
        "with_positions(x, self.config)"),
    "Stack: fixed positions not added": ("Stack.embed", "with_positions(x, self.config)", "x"),
    "Seq2Seq: label_smoothing ignored": ("Seq2Seq.forward", "label_smoothing=label_smoothing)",
        "label_smoothing=0.0)"),
    "Seq2Seq: padding counts for the loss": ("Seq2Seq.forward", "ignore_index=PAD", "ignore_index=-100"),
    "Seq2Seq: padding of the source ignored": ("Seq2Seq.forward", "source == PAD, inputs)", "source == -1, inputs)"),
    "Seq2Seq: attention map of the first layer": ("Seq2Seq.attention_map", "to_source[-1]", "to_source[0]"),
    "Seq2Seq: attention map of the first head": ("Seq2Seq.attention_map", ".mean(axis=1)", "[:, 0]"),
    "Seq2Seq: attention map with the first state": ("Seq2Seq.attention_map", "-inputs.shape[1] :", "0 :"),
    "Seq2Seq: attention map of the decoder to itself": ("looks_at_source", 'name.endswith(".cross_attention")',
        'name.endswith(".attention")'),
    "EncoderDecoder: encoder skipped": ("EncoderDecoder.encode", "self.encoder(source, source == PAD)",
        "self.encoder.embed(source)"),
    "EncoderDecoder: encoder sees padding": ("EncoderDecoder.encode", "source == PAD", "source == -1"),
    "EncoderDecoder: padding ignored": ("EncoderDecoder.decode", "memory, padding)", "memory, None)"),
    "EncoderDecoder: output projection by the encoder's embedding": ("EncoderDecoder.decode", "self.decoder.token_embedding",
        "self.encoder.token_embedding"),
    "EncoderDecoder: dtype ignored": ("EncoderDecoder", "self.to(config.dtype)", "pass"),
    "EncoderDecoder: initialisation skipped": ("EncoderDecoder", "initialise(self,", "(lambda *_, **__: None)(self,"),
    "EncoderDecoder: initialised from 0.02": ("EncoderDecoder", ", std=1 / math.sqrt(config.width))", ")"),
    "Classifier: pooling ignored": ("Classifier.forward", 'x = x[:, -1] if self.pooling == "last" else (x', "x = (x"),
    "Classifier: pooling ignored for images": ("Classifier.forward", 'x[:, -1] if self.pooling == "last" else x.mean(1)',
        "x.mean(1)"),
    "Classifier: always the last for images": ("Classifier.forward", 'x[:, -1] if self.pooling == "last" else x.mean(1)',
        "x[:, -1]"),
    "Classifier: padding counts for the mean": ("Classifier.forward", "(x * is_real).sum(1) / is_real.sum(1)", "x.mean(1)"),
    "Classifier: the mean divides by the length": ("Classifier.forward", "/ is_real.sum(1)", "/ x.shape[1]"),
    "Classifier: the encoder sees padding": ("Classifier.forward", "self.encoder(inputs, padding)", "self.encoder(inputs)"),
    "Classifier: encoder skipped": ("Classifier.forward", "self.encoder(inputs, padding)", "self.encoder.embed(inputs)"),
    "Classifier: encoder skipped for images": ("Classifier.forward", "self.encoder(self.make_tokens(inputs))",
        "self.make_tokens(inputs)"),
    "Classifier: head skipped": ("Classifier.forward", "logits = self.head(x)", "logits = x[:, : self.head.out_features]"),
    "Classifier: attends=False ignored": ("Classifier", "Encoder(config, attends)", "Encoder(config)"),
    "Classifier: dtype ignored": ("Classifier", "self.to(config.dtype)", "pass"),
    "Classifier: initialisation skipped": ("Classifier", "initialise(self,", "(lambda *_, **__: None)(self,"),
    "Classifier: labels ignored": ("Classifier.forward", "F.cross_entropy(logits, labels,",
        "F.cross_entropy(logits, labels * 0,"),
}) + edits(ENCODING, "models.encoder_decoder", {
    "EncoderDecoder: encoder skipped, without references": ("EncoderDecoder.encode", "self.encoder(source, source == PAD)",
        "self.encoder.embed(source)"),
}) + edits(SEQUENCES, "models.recurrent", {
    "RecurrentSeq2Seq: attends ignored": ("RecurrentSeq2Seq", "self.attends, C = config, attends,",
        "self.attends, C = config, True,"),
    "RecurrentSeq2Seq: attention's context not used for the logits": ("RecurrentSeq2Seq.decode", "mg.cat([out, c], dim=-1)",
        "mg.cat([out, 0 * c], dim=-1)"),
    "RecurrentSeq2Seq: attention's context not fed": (
        "RecurrentSeq2Seq.decode", "mg.cat([x[:, t : t + 1], c], dim=-1), s)",
        "mg.cat([x[:, t : t + 1], 0 * c], dim=-1), s)"),
    "RecurrentSeq2Seq: padding hidden at no step": ("RecurrentSeq2Seq.decode", "self.attention(out, states, padding)",
        "self.attention(out, states)"),
    "RecurrentSeq2Seq: padding not hidden at first": (
        "RecurrentSeq2Seq.decode", "self.attention(s[0][:, None], states, padding)",
        "self.attention(s[0][:, None], states)"),
    "RecurrentSeq2Seq: state not handed on": ("RecurrentSeq2Seq.decode", "out, s = self.decoder",
        "out, _ = self.decoder"),
    "RecurrentSeq2Seq: the decoder starts from nothing": ("RecurrentSeq2Seq.decode", "self.decoder(x, s)[0]",
        "self.decoder(x)[0]"),
    "RecurrentSeq2Seq: the decoder's first state is not computed": (
        "RecurrentSeq2Seq.encode", "self.first_state(mg.cat([last[0], last[1]], dim=-1))[None]",
        "last[:1]"),
    "RecurrentSeq2Seq: first state without tanh": ("RecurrentSeq2Seq", 'C, activation="tanh")', "C)"),
    "RecurrentSeq2Seq: reads in one direction": ("RecurrentSeq2Seq.encode", "mg.cat([last[0], last[1]], dim=-1)",
        "mg.cat([last[0], last[0]], dim=-1)"),
    "RecurrentSeq2Seq: source and target share the embedding": ("RecurrentSeq2Seq.decode", "self.target_embedding",
        "self.source_embedding"),
    "RecurrentSeq2Seq: dtype ignored": ("RecurrentSeq2Seq", "self.to(config.dtype)", "pass"),
}) + edits(SEQUENCES, "models.architectures", {
    "CausalSeq2Seq: source ignored": ("CausalSeq2Seq.decode", "mg.cat([memory, inputs], dim=1)",
        "mg.cat([memory * 0, inputs], dim=1)"),
    "CausalSeq2Seq: one late": ("CausalSeq2Seq.decode", "logits[:, memory.shape[1] :]",
        "logits[:, memory.shape[1] - 1 : -1]"),
    "CausalSeq2Seq: initialised from 0.02": (
        "CausalSeq2Seq", "initialise(self, config.layers, std=1 / math.sqrt(config.width))",
        "pass"),
})

TRANSLATING = edits(TRANSLATION, "models.translate", {
    "greedy: goes on after STOP": ("greedy", "following[is_done] = PAD", "pass"),
    "greedy: never done": ("greedy", "is_done |= following == STOP", "pass"),
    "greedy: one too many": ("greedy", "tokens.shape[1] <= most", "tokens.shape[1] <= most + 1"),
    "greedy: START stays": ("greedy", "return tokens[:, 1:]", "return tokens"),
    "greedy: padding ignored": ("greedy", "source == PAD", "source == -1"),
    "greedy: most not checked": ("greedy", 'check_whole("most", most)', "pass"),
    "greedy: on the tape": ("greedy", "with mg.no_grad():", "if True:"),
    "beam_search: width ignored": ("beam_search", "unfinished, finished =", "width = 1\n    unfinished, finished ="),
    "beam_search: candidates not cut to the width": ("beam_search", "reverse=True)[:width]\n            finished",
        "reverse=True)\n            finished"),
    "beam_search: results not cut to the width": ("beam_search", "key=score, reverse=True)[:width]\n    return",
        "key=score, reverse=True)\n    return"),
    "beam_search: length_penalty ignored": ("beam_search", "** length_penalty", "** 0.0"),
    "beam_search: padding ignored": ("beam_search", "sources == PAD", "sources == -1"),
    "beam_search: finished ones lost": ("beam_search", "finished + unfinished", "unfinished or finished"),
    "beam_search: goes on after STOP": ("beam_search", "if candidate[0][-1] != STOP]", "]"),
    "beam_search: log-probabilities not normalised": (
        "beam_search", "- np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))",
        ""),
    "beam_search: worst first": ("beam_search", "sorted(finished + unfinished, key=score, reverse=True)",
        "sorted(finished + unfinished, key=score)"),
    "beam_search: width not checked": ("beam_search", 'check_whole("width", width)', "pass"),
    "beam_search: most ignored": ("beam_search", "range(most)", "range(most + 1)"),
})

GENERATING = edits(GENERATION, "models.generate", {
    "generate: temperature 0 draws": ("draw", "if temperature == 0:", "if False:"),
    "generate: temperature 0 takes random numbers": ("draw", "np.zeros(len(logits))", "generator.random(len(logits))"),
    "generate: seed ignored": ("generate_batch", "default_rng(seed)", "default_rng(0)"),
    "generate: no seed ever": ("generate_batch", "default_rng(seed)", "default_rng()"),
    "generate: arguments lost on the way, temperature": ("generate", "count, temperature,", "count, 1.0,"),
    "generate: arguments lost on the way, top_k": ("generate", "top_k, top_p, seed, context, vocab", "None, top_p, seed, context, vocab"),
    "generate: arguments lost on the way, top_p": ("generate", "top_k, top_p, seed, context, vocab", "top_k, None, seed, context, vocab"),
    "generate: arguments lost on the way, seed": ("generate", "top_k, top_p, seed, context, vocab", "top_k, top_p, None, context, vocab"),
    "generate: batch loses temperature": ("generate_batch", "temperature=temperature", "temperature=1.0"),
    "generate: batch loses top_k": ("generate_batch", "top_k=top_k", "top_k=None"),
    "generate: batch loses top_p": ("generate_batch", "top_p=top_p", "top_p=None"),
    "generate: not cropped to the context": ("WholeForward.seen", "tokens if context is None else tokens[:, -context:]", "tokens"),
    "generate: crops the newest": ("WholeForward.seen", "tokens[:, -context:]", "tokens[:, :context]"),
    "generate: a context of one's own is the model's": ("WholeForward.seen", "self.context or getattr", "getattr"),
    "generate: context ignored": ("generate", "top_p, seed, context, vocab", "top_p, seed, None, vocab"),
    "generate: context not checked": ("generate_batch", 'check_whole("context", context)', "pass"),
    "generate: the loss for logits": ("full_forward", "out[0] if", "out[1] if"),
    "generate: arguments not checked": ("generate_batch", "check_sampling(count, temperature, top_k, top_p, seed)", "pass"),
    "generate: seed not checked": ("check_sampling", "if seed is not None:", "if False:"),
    "generate: dropout while generating": ("full_forward", "model.eval()", "pass"),
    "generate: stays in evaluation mode": ("full_forward", "model.train(was_training)", "pass"),
    "generate: always back to training": ("full_forward", "model.train(was_training)", "model.train()"),
    "generate: on the tape": ("full_forward", "with mg.no_grad():", "if True:"),
    "generate: one random number for all rows": ("draw", "generator.random(len(logits))", "np.full(len(logits), generator.random())"),
}) + edits(GENERATION, "minigrad.fast.kernels.sampling", {
    "sample: temperature ignored": ("sample", "float(temperature)", "1.0"),
    "sample: top_k ignored": ("sample", "min(top_k, V)", "V"),
    "sample: top_k may be more than there are": ("sample", "min(top_k, V)", "top_k"),
    "sample: top_p ignored": ("sample", "float(top_p)", "1.0"),
    "sample: other dtypes not taken": ("sample", 'logits.dtype.char not in "fd"', "False"),
    "sample: broken logits not noticed": ("sample", "raise ValueError", "ValueError"),
}) + edits(DECODING, "models.decode", {
    "CachedDecoder: cache off": ("CachedDecoder._count_known", "end <= self._begin", "True"),
    "CachedDecoder: cache trusted blindly": (
        "CachedDecoder._count_known", "end if same.all() else self._begin + int(same.argmin())", "end"),
    "CachedDecoder: cache trusted one token too far": (
        "CachedDecoder._count_known", "self._begin + int(same.argmin())", "self._begin + int(same.argmin()) + 1"),
    "CachedDecoder: cache of the first sequence": (
        "CachedDecoder._count_known", "(self._text[:, : end - self._begin] == tokens[:, self._begin : end])",
        "(self._text[:1, : end - self._begin] == tokens[:1, self._begin : end])"),
    "CachedDecoder: keys that have left the cache": (
        "CachedDecoder._count_known", "self._first <= max(0, count - self.program.context + 1)", "True"),
    "CachedDecoder: keys of tokens whose past was left out": (
        "CachedDecoder._count_known", "self._begin == 0 or count >= self._begin + self._reach - 1", "True"),
    "CachedDecoder: reaches one token less far": ("reach", "(model.config.context - 1) + 1", "max(model.config.context - 2, 0) + 1"),
    "CachedDecoder: reaches through one block": ("reach", "len(model.blocks)", "1"),
    "CachedDecoder: what is written or set is not noticed": (
        "CachedDecoder._has_changed", "self._clocks != (latest_write(), changes())", "False"),
    "CachedDecoder: what is written is not noticed": (
        "CachedDecoder._has_changed", "self._clocks != (latest_write(), changes())", "self._clocks[1] != changes()"),
    "CachedDecoder: what is set is not noticed": (
        "CachedDecoder._has_changed", "self._clocks != (latest_write(), changes())", "self._clocks[0] != latest_write()"),
    "CachedDecoder: cache kept when parameters change": ("CachedDecoder._translate", "self._start_at(0)",
        "self.__dict__.get('_end') or self._start_at(0)"),
    "CachedDecoder: tokens forgotten when parameters change": (
        "CachedDecoder.next_logits", " and not self._has_changed()", ""),
    "CachedDecoder: tokens not checked": (
        "CachedDecoder._checked", 'class_ids("tokens", tokens, vocabulary_size)', "tokens.astype(np.int64)"),
    "CachedDecoder: a few tokens not checked": (
        "CachedDecoder._checked", "0 <= token < vocabulary_size for", "True for"),
    "CachedDecoder: a few negative tokens not noticed": ("CachedDecoder._checked", "0 <= token < vocab", "token < vocab"),
    "CachedDecoder: shape not checked": (
        "CachedDecoder._checked",
        "tokens.ndim != 2 or len(tokens) != self.batch_size or not 1 <= tokens.shape[1] <= most", "False"),
    "CachedDecoder: more slots, with nothing in them": ("CachedDecoder._make_room", "cache[..., :slots, :] = known", "pass"),
    "CachedDecoder: more slots, and old angles": ("CachedDecoder._make_room", "self._move_to(self._first)", "pass"),
    "CachedDecoder: all slots at once": ("CachedDecoder._translate", "FEWEST_SLOTS", "2 * self.model.config.context"),
    "CachedDecoder: too little is kept": ("CachedDecoder._make_room", "self.program.context - 1", "self.program.context - 2"),
    "CachedDecoder: the first keys are kept": (
        "CachedDecoder._make_room", "cache[..., slots - kept :, :]", "cache[..., : kept, :]"),
    "CachedDecoder: values stay": ("CachedDecoder._make_room", "in (self.keys, self.values)", "in (self.keys,)"),
    "CachedDecoder: rotary positions stay": ("CachedDecoder._make_room", "self._move_to(self._end - kept)",
        "self._first = self._end - kept"),
    "CachedDecoder: rotary positions of all layers are the first's": ("_Translation.rotation", "kind == tuple(known)", "True"),
    "CachedDecoder: keeps all tokens": ("CachedDecoder._note", "min(count, self._reach - 1) if self._is_endless else count", "count"),
    "CachedDecoder: a table's window begins with all": (
        "seen_after_one_more", "-(context // 2 + 1)", "-context"),
    "CachedDecoder: texts without end are cropped": ("is_endless", "model.config.positions in ENDLESS_POSITIONS", "False"),
    "CachedDecoder: RMS norms are layer norms": ("_Translation.norm", "type(norm) is nn.RMSNorm", "False"),
    "CachedDecoder: eps of RMS norms ignored": ("_Translation.norm", "if norm.eps is None else norm.eps", ""),
    "CachedDecoder: the gate ignored": ("_Translation.mlp", "if mlp.gate is not None:", "if False:"),
    "CachedDecoder: always tied": ("_Translation", "model.read_out is None", "True"),
    "CachedDecoder: factor of the scores ignored": (
        "_Translation.general_heads", "attention.factor", "1 / math.sqrt(program.head_size)"),
    "CachedDecoder: other windows of blocks": (
        "_Translation.block", " or block.context != self.program.context", ""),
    "CachedDecoder: other windows": ("_Translation.general_heads", "window=program.context,", ""),
    "generate: a hook ends the text": ("CachedDecoder._translate", "CannotDecode(str(error))", "KeyError(str(error))"),
    "CachedDecoder: eps of the norms ignored": ("_Translation.norm", "norm.eps,", "1e-5,"),
    "CachedDecoder: norm before ignored": ("_Translation.sublayer", "if sublayer.norm_before", "if True"),
    "CachedDecoder: norm after ignored": ("_Translation.sublayer", "if sublayer.norm_after", "if False"),
    "CachedDecoder: added to x always": ("_Translation.sublayer", 'inner if sublayer.residual == "inner" else x', "x"),
    "CachedDecoder: residual always": ("_Translation.sublayer", "sublayer.residual is not None", "True"),
    "CachedDecoder: placement of attention for both": (
        "_Translation.block", "block.placement[1]", "block.placement[0]"),
    "CachedDecoder: final norm always": ("_Translation", "if model.config.final_norm:", "if True:"),
    "CachedDecoder: tokens not scaled": ("_Translation.embedding", "scale_of_tokens(config)", "1.0"),
    "CachedDecoder: rotary positions ignored": (
        "_Translation.rotation", 'attention.positions != "rotary"', "True"),
    "CachedDecoder: relative positions ignored": (
        "_Translation.general_heads", 'attention.positions == "relative"', "False"),
    "CachedDecoder: bias of the projections ignored": (
        "_Translation.general_heads", "if has_bias else None", "if False else None"),
    "CachedDecoder: subclasses": ("_expect", "type(module) not in kinds", "not isinstance(module, kinds)"),
    "CachedDecoder: hooks": ("_expect", " or module.has_hooks:", ":"),
    "CachedDecoder: causal blocks only": ("_Translation.block", "block.is_causal and block.attends", "block.attends"),
    "CachedDecoder: attending blocks only": ("_Translation.block", "block.is_causal and block.attends", "block.is_causal"),
    "CachedDecoder: denominators": ("_Translation.norm", 'norm.eps_at != "inside" or', ""),
    "CachedDecoder: variances": ("_Translation.norm", "or norm.unbiased", ""),
    "CachedDecoder: heads": ("_Translation.packed_heads", "or attention.num_heads != heads", ""),
    "CachedDecoder: switches of attention": ("_Translation.general_heads", "residual=False", ""),
    "CachedDecoder: projections that differ": ("_Translation.general_heads", "kinds != {(None, has_bias)}", "False"),
    "CachedDecoder: activations anywhere": (
        "_Translation.linear", "layer.activation not in known", "False"),
    "CachedDecoder: never": ("_Translation", "_expect(model, CausalTransformer)", "raise ValueError()"),
}) + edits(DECODING, "minigrad.fast.kernels.program", {
    "Program: dtypes": ("Program._address", "array.dtype != self.dtype", "False"),
})

TRAINER = edits(TRAINING, "models.train", {
    "Trainer: weight decay of all parameters": ("make_optimizer", '"weight_decay": 0.0}', '"weight_decay": config.weight_decay}'),
    "Trainer: weight decay ignored": ("make_optimizer", '"weight_decay": config.weight_decay}', '"weight_decay": 0.0}'),
    "Trainer: vectors not trained": ("make_optimizer", "[p for p in others if p.ndim < 2 and not config.decay_all]", "[]"),
    "Trainer: decay_all ignored": ("make_optimizer", "if p.ndim >= 2 or config.decay_all]", "]"),
    "Trainer: label_smoothing ignored": ("Trainer", 'if config.label_smoothing else {}', "and {}"),
    "Trainer: beta1 ignored": ("make_optimizer", "config.beta1", "0.9"),
    "Trainer: beta2 ignored": ("make_optimizer", "config.beta2", "0.99"),
    "Trainer: max_grad_norm ignored": ("make_optimizer", "max_grad_norm=config.max_grad_norm", "max_grad_norm=1.0"),
    "Trainer: no clipping": ("make_optimizer", "max_grad_norm=config.max_grad_norm", "max_grad_norm=1e30"),
    "Trainer: seed of batches ignored": ("Trainer", "default_rng(config.seed)", "default_rng(42)"),
    "Trainer: batch_size ignored": ("Trainer.train_step", "config.batch_size_at(self.step)", "8"),
    "Trainer: batches do not grow": ("Trainer.train_step", "config.batch_size_at(self.step)", "config.batch_size"),
    "Trainer: accumulated losses not divided": (
        "Trainer._part_of_loss", "self.config.accumulation / share", "1 / share"),
    "Trainer: accumulation ignored": ("Trainer.train_step", "range(config.accumulation)", "range(1)"),
    "Trainer: learning rate not set": ("Trainer.train_step", 'group["lr"] = config.learning_rate_at(self.step, group["initial_lr"])', "pass"),
    "Trainer: Muon at AdamW's learning rate": ("Trainer.train_step", 'group["initial_lr"])', "config.lr)"),
    "Trainer: Muon without its learning rate": ("make_optimizer", "lr=config.muon_lr", "lr=0.02"),
    "Trainer: Muon without its momentum": ("make_optimizer", "momentum=config.muon_momentum", "momentum=0.95"),
    "Trainer: Muon without decay": ("make_optimizer", "momentum=config.muon_momentum,\n                                        weight_decay=config.weight_decay",
        "momentum=config.muon_momentum"),
    "Trainer: no Muon": ("make_optimizer", 'if config.optimizer == "muon" and is_of_block', "if False"),
    "Trainer: always Muon": ("make_optimizer", 'if config.optimizer == "muon" and is_of_block', "if is_of_block"),
    "Trainer: Muon for embeddings": ("make_optimizer", "re.match(BLOCK, name) and parameter.ndim == 2", "parameter.ndim == 2"),
    "Trainer: all heads together": ("make_optimizer", "if name.endswith(TO_HEADS) else 1", "if False else 1"),
    "Trainer: Muon without matrices": ("make_optimizer", "if not matrices", "if False"),
    "Trainer: learning rate of the first group only": ("Trainer.train_step", "for group in self.optimizer.param_groups:",
        "for group in self.optimizer.param_groups[:1]:"),
    "Trainer: gradients kept from step to step": ("Trainer.train_step", "self.optimizer.zero_grad()", "pass"),
    "Trainer: the same batch always": ("Trainer.train_step", "batch = self.dataset.batch(self.generator, size, self.model.config.context)",
        'batch = self.__dict__.setdefault("_batch", self.dataset.batch(self.generator, size, 32))'),
    "Trainer: loss of the last batch": ("Trainer.train_step", "sum(losses) / len(losses)", "losses[-1]"),
    "Trainer: loss not checked": ("Trainer.train_step", 'self._check_finite("loss", loss)', "pass"),
    "Trainer: gradient not checked": (
        "Trainer.train_step", 'self._check_finite("norm of the gradient", self.optimizer.grad_norm)',
        "pass"),
    "Trainer: no step counted": ("Trainer.train_step", "self.step += 1", "pass"),
    "Trainer: tokens_per_second of one batch": ("Trainer.train_step", "tokens += batch[0].size", "tokens = batch[0].size"),
    "Trainer: evaluates with dropout": ("Trainer.evaluate", "self.model.eval()", "pass"),
    "Trainer: trains without dropout after an evaluation": ("Trainer.evaluate", "self.model.train()", "pass"),
    "Trainer: evaluates on the tape": ("Trainer.evaluate", "with mg.no_grad():", "if True:"),
    "Trainer: validation loss not checked": ("Trainer.evaluate", 'self._check_finite("validation loss", measured["val_loss"])', "pass"),
    "Trainer: parameters not restored": ("Trainer.restore", "load_parameters(self.model, checkpoint, path)", "pass"),
    "Trainer: optimizer not restored": ("Trainer.restore", 'self.optimizer.load_state_dict({"state": state,',
        '({"state": state,'),
    "Trainer: batches not restored": (
        "Trainer.restore", 'self.generator.bit_generator.state = checkpoint.generators["batches"]',
        "pass"),
    "Trainer: generator of dropout not restored": (
        "Trainer.restore", 'mg.random.set_state(checkpoint.generators["minigrad"])',
        "pass"),
    "Trainer: step not restored": ("Trainer.restore", "self.step, self.best_loss = checkpoint.step, checkpoint.best_loss", "pass"),
    "Trainer: counters not saved": ("Trainer.checkpoint", "for name, value in entries.items()}",
        'for name, value in entries.items() if name != "step"}'),
    "Trainer: finished too early": ("Trainer.is_finished", ">= self.config.steps", ">= self.config.steps - 1"),
}) + edits(TRAINING, "models.training_config", {
    "training: annealing ignored": ("TrainingConfig.learning_rate_at", "self.annealing,", '"cosine",'),
    "training: warm-up ignored": ("TrainingConfig.learning_rate_at", "min(self.warmup_steps, self.steps)", "0"),
    "training: long warm-up not cut": ("TrainingConfig.learning_rate_at", "min(self.warmup_steps, self.steps)",
        "self.warmup_steps"),
    "training: final_lr ignored": ("TrainingConfig.learning_rate_at", "self.final_lr * peak", "0.0"),
    "training: final_batch_size ignored": ("TrainingConfig.batch_size_at", "self.final_batch_size is None", "True"),
}) + edits(TRAINING, "models.data", {
    "batches: of the validation text": ("Corpus.batch", "self.train[", "self.validation["),
    "batches: all from the start of the text": ("Corpus.batch", "self.train[starts + ", "self.train[0 * starts + "),
    "batches: one window for the whole batch": ("Corpus.batch", "self.train[starts + ",
        "self.train[starts[:1] + 0 * starts + "),
    "batches: targets are the inputs": ("Corpus.batch", "windows[:, 1:]", "windows[:, :-1]"),
    "batches: two ahead": ("Corpus.batch", "return windows[:, :-1], windows[:, 1:]",
        "return windows[:, :-1], np.roll(windows, -1, 1)[:, 1:]"),
    "batches: the end of the text is never drawn": ("Corpus.batch", "len(self.train) - context,",
        "len(self.train) - context - 1,"),
    "corpus: evaluates a part at the end": ("Corpus.evaluate", "max(count, -(-LAST_TOKENS // context)) if is_last else count", "count"),
    "corpus: evaluates all on the way": ("Corpus.evaluate", " if is_last else count", ""),
    "corpus: evaluates on the training text": ("Corpus.evaluate", "loss_over(self.validation, ", "loss_over(self.train, "),
    "corpus: the validation loss as training loss": ("Corpus.evaluate", "loss_over(self.train, count)[0]", "loss"),
    "corpus: limit of evaluation ignored": ("Corpus.evaluate", "training.batch_size, limit)", "training.batch_size)"),
    "corpus: sample without its seed": ("Corpus.sample", ", seed=seed", ""),
    "corpus: sample at another temperature": ("Corpus.sample", "TEMPERATURE", "0.0"),
    "evaluation weighs batches alike": ("mean_loss", "int(np.count_nonzero(batch[-1] != ignored))", "1"),
    "corpus: a given vocabulary ignored": ("load_corpus", "    if isinstance(tokenizer, str):\n", '    tokenizer = "characters"\n    if True:\n'),
    "corpus: validation is training": ("load_corpus", "text[:boundary], text[boundary:]", "text[:boundary], text[:boundary]"),
    "corpus: training is everything": ("load_corpus", "text[:boundary], text[boundary:]", "text, text[boundary:]"),
    "corpus: hash of nothing": ("load_corpus", "hashlib.sha256(text.encode())", "hashlib.sha256(b'')"),
    "corpus: path lost": ("load_corpus", "Corpus(absolute,", "Corpus(None,"),
    "windows: context ignored": ("windows", "starts = context * (", "starts = 5 * ("),
    "windows: the first ones for a limit": ("windows", "np.linspace(0, count - 1, limit).astype(int)", "np.arange(limit)"),
    "windows: the end counts twice": ("windows", "np.where(is_real, targets, IGNORED)", "targets"),
}) + edits(TRAINING, "models.run", {
    "run: never evaluates on the way": ("train", "= trainer.is_stop(trainer.step),", "= trainer.is_finished(),"),
    "run: later lines of a resumed run stay": ("keep_metrics", 'if row["step"] <= step', ""),
    "run: no first checkpoint": ("train", "checkpoints.save(folder, trainer.checkpoint())  # from", "pass  # from"),
}) + edits(RUN, "models.run", {
    "run: Ctrl-C saves nothing": ("train", "if is_stop or is_interrupted:", "if is_stop:"),
    "run: Ctrl-C draws nothing": ("train", "draw(trainer, folder)\n", "pass\n"),
    "run: the best is the last": ("save", 'row["val_loss"] == trainer.best_loss', 'row["val_loss"] is not None'),
    "run: no best checkpoint": ("save", 'row["val_loss"] == trainer.best_loss', "False"),
    "run: no lock": ("locked", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB"),
    "run: locks are needed": ("locked", "except OSError:\n            pass", "except ZeroDivisionError:\n            pass"),
    "run: rows without a loss": ("_parse_row", '[row["loss"], row', "[row"),
    "run: any seconds": ("_parse_row", 'row.get("seconds", 0.0), ', ""),
    "run: seconds since it was resumed": ("seconds_until", 'row.get("seconds", 0.0)', "0.0"),
    "run: seconds of steps that were lost": ("seconds_until", 'if row["step"] <= step', ""),
    "run: damaged rows": ("_parse_row", "except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):",
        "except ZeroDivisionError:"),
    "run: the time left counts the first step": ("show_progress", "/ (step - first)", "/ step"),
})

ON_TASKS = edits(TASK, "models.architectures", {
    "make_model: seed ignored": ("make_model", "mg.manual_seed(seed)", "mg.manual_seed(0)"),
    "make_model: pooling of the task ignored": ("_classifier", "task.pooling, attends", '"mean", attends'),
    "make_model: dtype of patches ignored": ("_classifier", ".to(config.dtype)", ""),
    "make_model: all classifiers attend": ("_classifier", "task.pooling, attends", "task.pooling, True"),
    "make_model: encoder-decoder without layers": ("architecture_for", "config.layers == 0", "False"),
}) + edits(TASK, "models.task", {
    "accuracy: always right": ("Task.is_right", "return (answer == wanted).all(axis=1)",
        "return np.ones(len(answer), bool)"),
    "accuracy: one right symbol will do": ("Task.is_right", "(answer == wanted).all(axis=1)",
        "(answer == wanted).any(axis=1)"),
    "accuracy: classes always right": ("Task.is_right", "self.answer(model, source, 1) == target", "target == target"),
    "accuracy: length ignored": ("Task.accuracy", "if length is None else [length]", ""),
    "accuracy: seed ignored": ("Task.accuracy", "default_rng(seed)", "default_rng(0)"),
    "accuracy: with dropout": ("Task.accuracy", "model.eval()", "pass"),
    "accuracy: STOP not wanted": ("Task.is_right", "_, wanted = inputs_and_targets(target)", "wanted = target"),
    "task: targets are the inputs": ("Task.arguments", "*inputs_and_targets(target))", "*inputs_and_targets(target)[:1] * 2)"),
    "task: batches of one length": ("Task.batch", "self.lengths[1] + 1", "self.lengths[0] + 1"),
    "task: batches miss the longest": ("Task.batch", "self.lengths[1] + 1", "self.lengths[1]"),
    "task: the same examples always": ("Task.batch", "self.make(generator,", "self.make(np.random.default_rng(0),"),
    "task: padding counts in evaluations": ("Task.ignored", "IGNORED if self.classes else PAD", "IGNORED"),
    "task: the first class does not count": ("Task.ignored", "IGNORED if self.classes else PAD", "PAD"),
    "task: evaluates on one length": ("Task.evaluate", "for length in lengths)\n        loss",
        "for length in lengths[:1])\n        loss"),
    "task: accuracy of one length": ("Task.evaluate", "length=length)", "length=lengths[0])"),
    "task: examples are training's": ("Task.examples", "EXAMPLES_SEED", "0"),
    "task: shows what is wanted as what it got": ("Task.sample", "self.say(answers[i])", "self.say(target[i])"),
    "task: context not checked": ("Task.check_context", "self.examples(1)", "self.make(np.random.default_rng(0), 1, 1)"),
    "task: unknown symbols": ("Task.encode", "unknown or not symbols", "not symbols"),
    "task: sources are images": ("Task.encode", "not self.symbols", "False"),
    "task: sampling ignored": ("Task.respond", "if sampling:", "if False:"),
    "task: STOP missing": ("inputs_and_targets", "= STOP", "= PAD"),
    "task: START missing": ("inputs_and_targets", "constant_values=START", "constant_values=PAD"),
}) + edits(LOADING, "models.run", {
    "run: draws with dropout": ("draw", "trainer.model.eval()", "pass"),
}) + edits(LOADING, "models.loading", {
    "load: in training mode": ("model_in", ".eval()", ""),
    "load: older checkpoints are refused": ("_make_config", " - NEWER", ""),
    "load: whatever is lacking has its default": ("_make_config", "if lacking:", "if False:"),
    "load: always the last": ("source", "find(run, best)", "find(run)"),
    "load: parameters stay as built": ("model_in", "source.load_into(model)", "pass"),
    "load: architecture not checked": ("model_config", "architecture_for(task, checkpoint.architecture, config)", "pass"),
}) + edits(("tests/models/test_commands.py", "-k", "recipe or bad_resume"), "models.commands.train", {
    "train: --recipe ignored": ("new_trainer", 'given.get("recipe", DEFAULT)', "DEFAULT"),
    "train: the recipe's model ignored": ("new_trainer", "dataclasses.replace(config, **recipe.model)", "config"),
    "train: the recipe's training ignored": ("new_trainer", "batch_size | recipe.training", "batch_size"),
    "train: the recipe is stronger than flags": (
        "new_trainer", "chosen(given, TransformerConfig))", "chosen(given, TransformerConfig) | recipe.model)"),
    "train: --recipe of a resumed run": ("stands_for", 'if "recipe" in given:', "if False:"),
    "train: a resumed run has the recipe's fields, whatever flags say": (
        "check_unchanged", " if name not in given]", "]"),
    "train: --preset of a resumed run knows no recipe": ("stands_for", "{size: getattr(preset.config, size) for size in SIZES}",
        "dataclasses.asdict(preset.config)"),
}) + edits(START, "models.commands.train", {
    "train: --muon-lr of AdamW": ("new_trainer", "check_use(given, training)", "pass"),
    "train: --muon-lr of a resumed run with AdamW": ("resume", "check_use(given, before)", "pass"),
    "train: --init-from loads nothing": ("new_trainer", "source.load_into(model)", "pass"),
    "train: --init-from has its own vocabulary": ("new_trainer", "source.tokenizer or tokenizer", "tokenizer"),
    "train: no lock for a resumed run": ("resume", "with locked(folder, ranks):", "if True:"),
    "train: the rising rate is not said": ("resume", "rate > 1.1 * was", "False"),
    "train: --text of a task's run": ("check_unchanged", '("text", "tokenizer")', '("tokenizer",)'),
    "train: --task of a resumed run": ("check_unchanged", '"task": task or "a text", ', ""),
    "train: memory of batches that grow": ("check_memory", "training.final_batch_size or", ""),
}) + edits(START, "models.transformer", {
    "train: --init-from of any model with such parameters": (
        "differences", "if getattr(config, name) != getattr(asked, name)", "if False"),
    "train: --init-from of the same dropout only": ("differences", '("dropout", "context")', '("context",)'),
}) + edits(HOSTILE, "models.loading", {
    "load: any size is built": ("model_config", "config.parameter_count() > LARGEST * max(count, 1)", "False"),
}) + edits(HOSTILE, "minigrad.serialization", {
    "load: arrays that are not listed": ("_read", "members != [HEADER, *listed]", "False"),
}) + edits(SAVING, "minigrad.serialization", {
    "save: not flushed": ("replacing", "os.fsync(file.fileno())", "pass"),
    "save: temporary stays": ("replacing", "temporary.unlink(missing_ok=True)\n        raise type", "raise type"),
    "save: over a pipe": ("replacing", "if path.exists() and not path.is_file():", "if False:"),
    "save: keys of dicts become strings": ("_encode_key", "return key", "return str(key)"),
    "save: tuples become lists": ("_encode", 'items if type(value) is list else {"tuple": items}', "items"),
    "save: scalars become arrays": ("_encode", '"scalar" if isinstance(value, np.generic) else "array"', '"array"'),
    "save: tensors become arrays": ("_decode", "Tensor(arrays[content])", "arrays[content]"),
    "load: other formats": ("_read", '!= format', "is None"),
}) + edits(TASKS, "models.task", {
    "task: text goes on after STOP": ("Task.decode", "if STOP in ids else ids", "if False else ids"),
}) + edits(TASKS, "models.tasks", {
    "task copy: reversed": ("copy", "source.copy()", "source[:, ::-1].copy()"),
    "task reverse: copied": ("reverse", "source[:, ::-1].copy()", "source.copy()"),
    "task sort: copied": ("sort", "np.sort(source, axis=1)", "source"),
    "task addition: subtraction": ("addition", "digits_of(a + b", "digits_of(abs(a - b)"),
    "task parity: counts": ("parity", ".cumsum(axis=1) % 2", ""),
    "task induction: what stood before": ("induction", "digits[rows, asked]", "digits[rows, asked - 1]"),
    "task translation: the order of words stays": (
        "translation", "target += [nouns[:, i]] + [4 + adjectives[:, i]] * is_described",
        "target += [4 + adjectives[:, i]] * is_described + [nouns[:, i]]"),
    "task sentiment: 'not' has no effect": ("sentiment", "is_good ^ is_negated", "is_good"),
    "task bank: at random": ("bank", "return words + FIRST, is_money",
        "return words + FIRST, generator.integers(0, 2, count)"),
    "task stripes: all lie": ("stripes", "directions[label]", "directions[0 * label]"),
    "task stripes: no noise": ("stripes", "0.3 * generator", "0.0 * generator"),
    "task stripes: no shift": ("stripes", "+ shift[:, None, None]", ""),
}) + [
    replaced("rnn attends", architectures.ARCHITECTURES["sequence"], "rnn",
             architectures.ARCHITECTURES["sequence"]["rnn-attention"], TASK),
    replaced("rnn-attention does not attend", architectures.ARCHITECTURES["sequence"], "rnn-attention",
             architectures.ARCHITECTURES["sequence"]["rnn"], TASK),
    replaced("encoder does not attend", architectures.ARCHITECTURES["class"], "encoder",
             architectures.ARCHITECTURES["class"]["no-attention"], TASK),
    replaced("induction reads the mean",
        tasks.TASKS, "induction", dataclasses.replace(tasks.TASKS["induction"], pooling="mean"), TASK),
    replaced("bank reads the mean",
        tasks.TASKS, "bank", dataclasses.replace(tasks.TASKS["bank"], pooling="mean"), TASK),
    Sabotage("beam_search: default width 1", TRANSLATION, default("models.translate:beam_search", "width", 1)),
    Sabotage("TransformerConfig: layers=0 refused",
        CAUSAL, edit("models.transformer:TransformerConfig.__post_init__", "least=0, ", "")),
    Sabotage("presets: nano has micro's width",
        CAUSAL, lambda: transformer.PRESETS.__setitem__("nano", transformer.PRESETS["micro"])),
]

LAYERS = edits(MEASURING, "models.train", {
    "layers: blocks are one layer": ("layers_of", "block[0] if block else", "'blocks' if block else"),
    "layers: each parameter is one": ("layers_of", 'name.rpartition(".")[0]', "name"),
    "layers: measured at every step": ("Trainer.train_step", "if self.is_measured(self.step + 1)", "if True"),
    "layers: measured a step late": ("Trainer.train_step", "self.is_measured(self.step + 1)", "self.is_measured(self.step)"),
    "layers: measured at stops alone": ("Trainer.is_measured", "step % max(", "0 * step + max("),
    "layers: not measured at the end": ("Trainer.is_stop", " or step >= self.config.steps", ""),
    "layers: the gradients are gone": ("Trainer.train_step", "layers = before.measured() if before else None",
        "self.optimizer.zero_grad(); layers = before.measured() if before else None"),
    "layers: weights after the step": ("LayerNorms", "p.array.copy()", "p.array"),
    "layers: the update as it is": ("LayerNorms.measured", "update / weight if", "update if"),
    "layers: relative to no weights": ("LayerNorms.measured", "if weight and math", "if math"),
    "layers: an update that overflows": ("LayerNorms.measured", " and math.isfinite(update)", ""),
    "layers: a gradient that is not there": ("LayerNorms.measured", " if g is not None", ""),
}) + edits(MEASURING, "models.run", {
    "plot: no layers": ("plot_losses", 'if row.get("layers")]', "if False]"),
    "plot: gradients twice": ("plot_losses", 'measured, "update_to_weight"', 'measured, "grad_norm"'),
    "plot: every layer has a name": ("_plot_layers", "if i % every == 0", "if True"),
    "plot: layers on a linear scale": ("_plot_layers", 'yscale="log"', 'yscale="linear"'),
    "plot: no legend of layers": ("plot_losses", "figure.legend(", "dict("),
}) + edits((RUN[0], "-k", "damaged"), "models.run", {
    "metrics: any layers": ("_parse_row", "for measure in LAYER_MEASURES]", "for measure in ()]"),
})

MAPS = edits(LOOKING, "models.attention_maps", {
    "attention_maps: with dropout": ("attention_maps", "_twin(model).eval()", "_twin(model)"),
    "attention_maps: on the model itself": ("attention_maps", "_twin(model).eval()", "model.eval()"),
    "attention_maps: on a model of its own": ("_twin", "if not isinstance(value, MAY_HOLD_MODULES)}", "if False}"),
    "attention_maps: on the tape": ("attention_maps", "with mg.no_grad():", "if True:"),
    "attention_maps: the first of a batch": ("attention_maps", "maps if is_batched else", "maps if False else"),
    "attention_maps: no layer is no error": ("attention_maps", "if not calls:", "if False:"),
    "attention_maps: weights of the mean head": ("attention_maps", "_watch(module, needed,", "_watch(module, {\"need_weights\": True},"),
    "attention_maps: masks and switches of the call ignored": ("_watch", "signature.bind(*args, **kwargs)",
        "signature.bind(*args)"),
    "attention_maps: keys by queries": ("_watch", 'getattr(module, "layout", "rows") == "columns"', "False"),
    "attention_maps: the last call only": ("_watch", "calls.setdefault(path, [])", "calls.__setitem__(path, []) or calls[path]"),
    "attention_maps: steps of a recurrent decoder apart": ("_named", "if all(weights.shape[2] == 1 for weights in found):",
        "if False:"),
})

DRAWING = edits(DRAWN, "models.pictures", {
    "pictures: the future is not grey": ("LabelledMap.shown", "& self.hides_future", "& False"),
    "pictures: any zero above the diagonal hides the future": ("LabelledMap.hides_future", "np.triu(self.weights, 1).any()",
        "np.triu(self.weights, 1).all()"),
    "pictures: one token hides the future": ("LabelledMap.hides_future", "keys > 1", "keys > 0"),
    "pictures: head 1 for all": ("LabelledMap.of_head", "[number - 1 : number]", "[:1]"),
    "pictures: a head loses its number": ("LabelledMap.titles", "in self.heads or [", "in ["),
    "pictures: layers from 0": ("labelled", "int(numbered[2]) + 1", "int(numbered[2])"),
    "pictures: the model's name in titles": ("labelled", '(None, "model", "attention")', '(None, "attention")'),
    "pictures: blanks as they are": ("_visible", "character in VISIBLE", "False"),
    "pictures: glyphs that are missing": ("_visible", " and has_glyph(character)", ""),
    "pictures: accents alone": ("_visible", '"CMZ"', '"CZ"'),
    "pictures: keys at the queries": ("_draw_head", '"query: who looks", layer.queries', '"query: who looks", layer.keys'),
    "pictures: symbols of any number": ("_draw_head", "has_room = len(labels) <= MOST_LABELS", "has_room = True"),
    "pictures: words are not turned": ("_draw_head", "90 if is_turned else 0", "0"),
    "pictures: symbols as formulas": ("_draw_head", "else 0, parse_math=False)", "else 0)"),
    "pictures: titles as formulas": ("draw_maps", 'va="top", parse_math=False', 'va="top"'),
    "pictures: colours to the largest": ("_draw_head", "vmin=0, vmax=1, ", ""),
    "pictures: one head for all": ("_draw_head", "layer.shown()[head]", "layer.shown()[0]"),
    "pictures: any number of panels": ("draw_maps", "rows = maps[: MOST_PANELS // heads]", "rows = maps"),
    "pictures: layers left out in silence": ("draw_maps", "if shown < all_of_them:", "if False:"),
    "pictures: labels larger than their cells": ("_measures", "0.8 * 72", "2 * 72"),
    "pictures: all files are ours": ("is_ours", "OURS.encode() in start", "True"),
    "pictures: a query without choice counts": ("where_heads_look", "first = int(layer.hides_future)", "first = 0"),
    "pictures: the largest weight, whatever the share": ("where_heads_look", "item[1][0] - item[1][1]", "item[1][0]"),
    "pictures: ahead is back": ("where_heads_look", "(np.diagonal, offset=distance)", "(np.diagonal, offset=-distance)"),
    "pictures: words on attention to a source": ("where_heads_look", "if queries != keys or queries < 2:", "if queries < 2:"),
}) + edits(DRAWN, "models.task", {
    "task: queries of the decoder read": ("Task.look", "own = {", 'own = {"decoder": read} or {'),
    "task: START missing in what the decoder reads": ("decoder_inputs", "START), answer", "STOP), answer"),
    "task: patches in columns": ("patches", "{i // side + 1},{i % side + 1}", "{i % side + 1},{i // side + 1}"),
}) + edits(DRAWN, "models.data", {
    "text: any prompt is read": ("Tokenizer.look", "if len(ids) > context:", "if False:"),
    "text: the empty prompt": ("Tokenizer.look", "if not prompt:", "if prompt is None:"),
    "text: blanks are not seen": ("Tokenizer.maps", "symbols = visible(self.names(ids))", "symbols = self.names(ids)"),
    "text: the training text is drawn": ("Corpus.illustrate", "self.validation[", "self.train["),
})

OTHERS = [
    Sabotage("MLP: hooks not called",
        HOOKS, edit("models.transformer:MLP.forward", "expand.has_hooks or project.has_hooks", "False")),
]

EXPLAINED = {
    "generate: temperature 0 draws": "at the coldest temperature, which it is then, the likeliest token has it all",
    "make_model: dtype of patches ignored": "a Classifier converts all its parts, make_tokens with them",
}

SABOTAGES = explained(EXPLAINED, [*BLOCK, *CAUSAL_MODEL, *ENCODER_DECODER, *TRANSLATING, *GENERATING, *TRAINER, *ON_TASKS,
                                  *LAYERS, *MAPS, *DRAWING, *OTHERS])
