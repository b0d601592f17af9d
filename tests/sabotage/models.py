"""Sabotages of `models`: each part of a model skipped, each field of a config ignored, each step of training left out."""
import dataclasses

from models import task_training, tasks, transformer
from models.transformer import PLACEMENTS, Sublayer
from nn import functional as F
from sabotage.base import Sabotage
from sabotage.edit import default, edit, edits, explained

# Without the checks of gradients: those take a minute, and the gradients of a model that computes something else are right.
REFERENCES = ("tests/models/test_references.py",)
CAUSAL = (*REFERENCES, "tests/models/test_transformer.py", "tests/models/test_variants.py", "-k", "not gradients")
SEQUENCES = (*REFERENCES, "tests/models/test_encoder_decoder.py", "-k", "not gradients and not test_classifier")
HOOKS = ("tests/models/test_transformer.py", "-k", "hooks")
CAN_DECODE = ("tests/models/test_variants.py", "-k", "generation")
GENERATION = ("tests/models/test_generate.py",)
DECODING = ("tests/models/test_decode.py",)
TRANSLATION = ("tests/models/test_translate.py",)
TRAINING = ("tests/models/test_train.py", "tests/models/test_data.py")
TASK_TRAINING = ("tests/models/test_task_training.py",)
TASK_RUN = ("tests/models/test_task_run.py",)
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
        "Block: attention to the context skipped": ("Block.forward", "if context is not None:", "if False:"),
        "Block: MLP skipped": ("Block.forward", "return self._add(1, self.ln_2, x, self.mlp)", "return x"),
        "Block: padding ignored": ("Block.forward", "self._attend(inner, padding)", "self._attend(inner, None)"),
        "Block: padding of the context ignored": ("Block.forward", "context, context_padding, weights)",
            "context, None, weights)"),
        "Block: padding of the context ignored, with weights": ("Block._look", "key_padding_mask=padding, need_weights",
            "need_weights"),
        "Block: padding ignored within nn.Attention": ("Block._attend", "self.attention(x, key_padding_mask=padding)",
            "self.attention(x)"),
        "Block: causal ignored": ("Block._attend", "is_causal=self.is_causal", "is_causal=False"),
        "Block: always causal": ("Block._attend", "is_causal=self.is_causal", "is_causal=True"),
        "Block: causal ignored within nn.Attention": ("Block._make_attention", '"mask" if self.is_causal else False',
            "False"),
        "Block: always causal within nn.Attention": ("Block._make_attention", '"mask" if self.is_causal else False',
            '"mask"'),
        "Block: attention to itself instead of the context": (
            "Block._look", "self.cross_attention(x, context, key_padding_mask=padding)",
            "self.cross_attention(x, x)"),
        "Block: weights are averaged": ("Block._look", "average_attn_weights=False", "average_attn_weights=True"),
        "Block: dropout skipped": ("Block._add", "self.dropout(function(inner))", "function(inner)"),
        "Block: dropout of attention ignored": (
            "Block._make_attention", "nn.MultiHeadAttention(config.width, config.heads, dropout=config.dropout,",
            "nn.MultiHeadAttention(config.width, config.heads,"),
        "Block: dropout of nn.Attention ignored": ("Block._make_attention", "dropout=config.dropout, positions",
            "positions"),
        "Block: dropout of the attention to the context ignored": ("Block", "config.heads, config.dropout, config.bias",
            "config.heads, 0.0, config.bias"),
        "Block: heads ignored": ("Block._make_attention", "nn.MultiHeadAttention(config.width, config.heads,",
            "nn.MultiHeadAttention(config.width, 1,"),
        "Block: heads of nn.Attention ignored": ("Block._make_attention", "nn.Attention(config.width, config.heads,",
            "nn.Attention(config.width, 1,"),
        "Block: heads of the attention to the context ignored": (
            "Block", "nn.MultiHeadAttention(config.width, config.heads, config.dropout,",
            "nn.MultiHeadAttention(config.width, 1, config.dropout,"),
        "Block: bias of attention ignored": ("Block._make_attention", "dropout=config.dropout, bias=config.bias)",
            "dropout=config.dropout)"),
        "Block: bias of nn.Attention ignored": ("Block._make_attention", "bias=config.bias,\n", "bias=True,\n"),
        "Block: bias of the attention to the context ignored": ("Block", "config.dropout, config.bias)", "config.dropout)"),
        "Block: bias of norms ignored": ("Block._norm", "bias=config.bias", "bias=True"),
        "Block: max_distance is the default": ("Block._make_attention", ", max_distance=config.context", ""),
        "Block: positions within attention ignored": ("Block._make_attention", "config.positions in ATTENTION_POSITIONS",
            "False"),
        "Block: one norm for both": ("Block.forward", "self._add(1, self.ln_2,",
            "self._add(1, self.ln_1 if self.attends else self.ln_2,"),
        "Block: the context's norm is that of attention": ("Block.forward", "self._add(0, self.ln_context,",
            "self._add(0, self.ln_1,"),
        "Block: the context has the MLP's placement": ("Block.forward", "self._add(0, self.ln_context",
            "self._add(1, self.ln_context"),
        "MLP: hidden_ratio ignored": ("MLP", "config.hidden_ratio * config.width", "4 * config.width"),
        "MLP: activation ignored": ("MLP", ", activation=config.activation", ', activation="gelu"'),
        "MLP: activation ignored when run": ("MLP.forward", "project.bias, expand.activation)", "project.bias)"),
        "MLP: bias of expand ignored": ("MLP", "hidden, bias=config.bias, activation", "hidden, activation"),
        "MLP: bias of project ignored": ("MLP", "nn.Linear(hidden, config.width, bias=config.bias)",
            "nn.Linear(hidden, config.width)"),
        "with_positions: nothing added": ("with_positions", "config.positions not in FIXED", "True"),
        "with_positions: tokens not scaled": ("with_positions", "x * math.sqrt(config.width)", "x"),
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
    "CausalTransformer: final norm skipped": ("CausalTransformer.forward", "F.linear(self.ln_f(x)", "F.linear(x"),
    "CausalTransformer: learned positions not added": (
        "CausalTransformer.forward", "(tokens, self.position_embedding.weight)",
        "(tokens)"),
    "CausalTransformer: fixed positions not added": (
        "CausalTransformer.forward", "with_positions(self.token_embedding(tokens), self.config)",
        "self.token_embedding(tokens)"),
    "CausalTransformer: read-out not tied": ("CausalTransformer.forward", "self.token_embedding.weight)  # (B, T, V): the",
        "self.token_embedding.weight.detach().clone())  # (B, T, V): the"),
    "CausalTransformer: no gradient through the embedding": ("CausalTransformer.forward", "x = self.dropout(x)",
        "x = self.dropout(x.detach())"),
    "CausalTransformer: dropout of the embedding skipped": ("CausalTransformer.forward", "x = self.dropout(x)", "pass"),
    "CausalTransformer: final_norm=False ignored": ("CausalTransformer", "if config.final_norm", "if True"),
    "CausalTransformer: final_norm=True ignored": ("CausalTransformer", "if config.final_norm", "if False"),
    "CausalTransformer: bias of the final norm ignored": (
        "CausalTransformer", "nn.LayerNorm(config.width, bias=config.bias)",
        "nn.LayerNorm(config.width)"),
    "CausalTransformer: layers ignored": ("CausalTransformer", "range(config.layers)", "range(1)"),
    "CausalTransformer: context ignored": ("CausalTransformer.forward", "not 1 <= tokens.shape[1] <= self.config.context",
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
    "config: odd rotary not refused": ("TransformerConfig.__post_init__", "self.width // self.heads % 2", "False"),
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
    "Decoder: context ignored": ("Decoder.forward", "block(x, context=context,", "block(x, context=x,"),
    "Decoder: context absent": ("Decoder.forward", "block(x, context=context,", "block(x, context=None,"),
    "Decoder: padding of the context ignored": ("Decoder.forward", "context_padding=context_padding",
        "context_padding=None"),
    "Decoder: not causal": ("Decoder", "has_context=True", "has_context=True, is_causal=False"),
    "Stack: layers ignored": ("Stack", "range(config.layers)", "range(1)"),
    "Stack: one block at all places": ("Stack", "[Block(config, **options) for _ in range(config.layers)]",
        "[Block(config, **options)] * config.layers"),
    "Stack: final_norm=False ignored": ("Stack", "if config.final_norm", "if True"),
    "Stack: final_norm=True ignored": ("Stack", "if config.final_norm", "if False"),
    "Stack: bias of the final norm ignored": ("Stack", "nn.LayerNorm(config.width, bias=config.bias)",
        "nn.LayerNorm(config.width)"),
    "Stack: dropout of the config ignored": ("Stack", "nn.Dropout(config.dropout)", "nn.Dropout(0.0)"),
    "Stack: learned positions not added": ("Stack.embed", "self.dropout(self.position_embedding(x))", "self.dropout(x)"),
    "Stack: dropout of the embedding skipped, learned positions": (
        "Stack.embed", "self.dropout(self.position_embedding(x))",
        "self.position_embedding(x)"),
    "Stack: dropout of the embedding skipped, other positions": (
        "Stack.embed", "self.dropout(with_positions(x, self.config))",
        "with_positions(x, self.config)"),
    "Stack: fixed positions not added": ("Stack.embed", "with_positions(x, self.config)", "x"),
    "Translator: label_smoothing ignored": ("Translator.forward", "label_smoothing=label_smoothing)",
        "label_smoothing=0.0)"),
    "Translator: padding counts for the loss": ("Translator.forward", "ignore_index=PAD", "ignore_index=-100"),
    "Translator: padding of the source ignored": ("Translator.forward", "source == PAD, inputs)", "source == -1, inputs)"),
    "Translator: attention map of the first layer": ("Translator.attention_map", "weights[-1]", "weights[0]"),
    "Translator: attention map of the first head": ("Translator.attention_map", "last.mean(axis=1)", "last[:, 0]"),
    "Translator: attention map ignores padding": ("Translator.attention_map", "source == PAD", "source == -1"),
    "EncoderDecoder: encoder skipped": ("EncoderDecoder.encode", "self.encoder(source, source == PAD)",
        "self.encoder.embed(source)"),
    "EncoderDecoder: encoder sees padding": ("EncoderDecoder.encode", "source == PAD", "source == -1"),
    "EncoderDecoder: padding ignored": ("EncoderDecoder.decode", "memory, padding, weights", "memory, None, weights"),
    "EncoderDecoder: read-out of the encoder's embedding": ("EncoderDecoder.decode", "self.decoder.token_embedding",
        "self.encoder.token_embedding"),
    "EncoderDecoder: dtype ignored": ("EncoderDecoder", "self.to(config.dtype)", "pass"),
    "EncoderDecoder: initialisation skipped": ("EncoderDecoder", "initialise(self,", "(lambda *_, **__: None)(self,"),
    "EncoderDecoder: initialised from 0.02": ("EncoderDecoder", ", std=1 / math.sqrt(config.width))", ")"),
    "Classifier: read ignored": ("Classifier.forward", 'x = x[:, -1] if self.read == "last" else (x', "x = (x"),
    "Classifier: read ignored for images": ("Classifier.forward", 'x[:, -1] if self.read == "last" else x.mean(1)',
        "x.mean(1)"),
    "Classifier: always the last for images": ("Classifier.forward", 'x[:, -1] if self.read == "last" else x.mean(1)',
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
    "Classifier: labels ignored": ("Classifier.forward", "F.cross_entropy(logits, labels)",
        "F.cross_entropy(logits, labels * 0)"),
}) + edits(SEQUENCES, "models.recurrent", {
    "RecurrentTranslator: attends ignored": ("RecurrentTranslator", "self.attends, C = config, attends,",
        "self.attends, C = config, True,"),
    "RecurrentTranslator: attention's context not read out": ("RecurrentTranslator.decode", "mg.cat([out, c], dim=-1)",
        "mg.cat([out, 0 * c], dim=-1)"),
    "RecurrentTranslator: attention's context not fed": (
        "RecurrentTranslator.decode", "mg.cat([x[:, t : t + 1], c], dim=-1), s)",
        "mg.cat([x[:, t : t + 1], 0 * c], dim=-1), s)"),
    "RecurrentTranslator: padding hidden at no step": ("RecurrentTranslator.decode", "self.attention(out, states, padding)",
        "self.attention(out, states)"),
    "RecurrentTranslator: padding not hidden at first": (
        "RecurrentTranslator.decode", "self.attention(s[0][:, None], states, padding)",
        "self.attention(s[0][:, None], states)"),
    "RecurrentTranslator: state not handed on": ("RecurrentTranslator.decode", "out, s = self.decoder",
        "out, _ = self.decoder"),
    "RecurrentTranslator: the decoder starts from nothing": ("RecurrentTranslator.decode", "self.decoder(x, s)[0]",
        "self.decoder(x)[0]"),
    "RecurrentTranslator: the decoder's first state is not computed": (
        "RecurrentTranslator.encode", "self.first_state(mg.cat([last[0], last[1]], dim=-1))[None]",
        "last[:1]"),
    "RecurrentTranslator: first state without tanh": ("RecurrentTranslator", 'C, activation="tanh")', "C)"),
    "RecurrentTranslator: reads in one direction": ("RecurrentTranslator.encode", "mg.cat([last[0], last[1]], dim=-1)",
        "mg.cat([last[0], last[0]], dim=-1)"),
    "RecurrentTranslator: source and target share the embedding": ("RecurrentTranslator.decode", "self.target_embedding",
        "self.source_embedding"),
    "RecurrentTranslator: dtype ignored": ("RecurrentTranslator", "self.to(config.dtype)", "pass"),
    "RecurrentTranslator: weights of the first step only": ("RecurrentTranslator.decode", "mg.cat(rows, dim=1)",
        "mg.cat(rows[:1] * len(rows), dim=1)"),
}) + edits(SEQUENCES, "models.task_training", {
    "CausalTranslator: source ignored": ("CausalTranslator.decode", "mg.cat([memory, inputs], dim=1)",
        "mg.cat([memory * 0, inputs], dim=1)"),
    "CausalTranslator: one late": ("CausalTranslator.decode", "logits[:, memory.shape[1] :]",
        "logits[:, memory.shape[1] - 1 : -1]"),
    "CausalTranslator: initialised from 0.02": (
        "CausalTranslator", "initialise(self, config.layers, std=1 / math.sqrt(config.width))",
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
    "beam_search: width ignored": ("beam_search", "open_ones, finished =", "width = 1\n    open_ones, finished ="),
    "beam_search: candidates not cut to the width": ("beam_search", "reverse=True)[:width]\n            finished",
        "reverse=True)\n            finished"),
    "beam_search: results not cut to the width": ("beam_search", "key=score, reverse=True)[:width]\n    return",
        "key=score, reverse=True)\n    return"),
    "beam_search: length_penalty ignored": ("beam_search", "** length_penalty", "** 0.0"),
    "beam_search: padding ignored": ("beam_search", "sources == PAD", "sources == -1"),
    "beam_search: finished ones lost": ("beam_search", "finished + open_ones", "open_ones or finished"),
    "beam_search: goes on after STOP": ("beam_search", "if candidate[0][-1] != STOP]", "]"),
    "beam_search: log-probabilities not normalised": (
        "beam_search", "- np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))",
        ""),
    "beam_search: worst first": ("beam_search", "sorted(finished + open_ones, key=score, reverse=True)",
        "sorted(finished + open_ones, key=score)"),
    "beam_search: width not checked": ("beam_search", 'check_whole("width", width)', "pass"),
    "beam_search: most ignored": ("beam_search", "range(most)", "range(most + 1)"),
})

GENERATING = edits(GENERATION, "models.generate", {
    "generate: temperature ignored": ("draw", "(negative[:, :1] - negative) / temperature)",
        "(negative[:, :1] - negative))"),
    "generate: temperature 0 draws": ("draw", "if temperature == 0:", "if False:"),
    "generate: top_k ignored": ("draw", "negative, temperature = -logits",
        "top_k = None\n    negative, temperature = -logits"),
    "generate: top_p ignored": ("draw", "if top_p is not None:", "if False:"),
    "generate: top_p one token short": ("draw", ">= top_p * total[:, None]).argmax(axis=1)]",
        ">= top_p * total[:, None]).argmax(axis=1) - 1]"),
    "generate: seed ignored": ("generate_batch", "default_rng(seed)", "default_rng(0)"),
    "generate: no seed ever": ("generate_batch", "default_rng(seed)", "default_rng()"),
    "generate: arguments lost on the way, temperature": ("generate", "count, temperature,", "count, 1.0,"),
    "generate: arguments lost on the way, top_k": ("generate", "top_k, top_p, seed))", "None, top_p, seed))"),
    "generate: arguments lost on the way, top_p": ("generate", "top_k, top_p, seed))", "top_k, None, seed))"),
    "generate: arguments lost on the way, seed": ("generate", "top_k, top_p, seed))", "top_k, top_p, None))"),
    "generate: batch loses temperature": ("_generate", "next_logits(tokens), temperature", "next_logits(tokens), 1.0"),
    "generate: batch loses top_k": ("_generate", "temperature, top_k, top_p, generator)\n        tokens",
        "temperature, None, top_p, generator)\n        tokens"),
    "generate: batch loses top_p": ("_generate", "temperature, top_k, top_p, generator)\n        tokens",
        "temperature, top_k, None, generator)\n        tokens"),
    "generate: not cropped to the context": ("_generate", "tokens = tokens[:, -model.config.context:]", "pass"),
    "generate: crops the newest": ("_generate", "tokens[:, -model.config.context:]", "tokens[:, : model.config.context]"),
    "generate: arguments not checked": ("generate_batch", "check_sampling(count, temperature, top_k, top_p, seed)", "pass"),
    "generate: seed not checked": ("check_sampling", "if seed is not None:", "if False:"),
    "generate: dropout while generating": ("full_forward", "model.eval()", "pass"),
    "generate: stays in evaluation mode": ("full_forward", "model.train(was_training)", "pass"),
    "generate: always back to training": ("full_forward", "model.train(was_training)", "model.train()"),
    "generate: on the tape": ("full_forward", "with mg.no_grad():", "if True:"),
    "generate: one random number for all rows": ("draw", "generator.random((len(logits), 1))", "generator.random()"),
    "generate: broken logits not noticed": ("draw", "not math.isfinite(logits.max())", "False"),
}) + edits(DECODING, "models.decode", {
    "Decoder: cache off": ("Decoder.logits", "self.cached = tokens", "pass"),
    "Decoder: cache trusted blindly": ("Decoder._count_known", "count if same.all() else int(same.all(axis=0).argmin())",
        "count"),
    "Decoder: cache trusted one token too far": ("Decoder._count_known", "int(same.all(axis=0).argmin())",
        "int(same.all(axis=0).argmin()) + 1"),
    "Decoder: cache of the first sequence": ("Decoder._count_known", "self.cached[:, :count] == tokens[:, :count]",
        "self.cached[:1, :count] == tokens[:1, :count]"),
    "Decoder: changed parameters not noticed": ("Decoder.logits", "self.latest_write != versions.latest", "False"),
    "Decoder: cache kept when parameters change": (
        "Decoder._look_up", "self.cached = np.empty((self.keys.shape[1], 0), np.int64)",
        'self.cached = self.__dict__.get("cached", np.empty((self.keys.shape[1], 0), np.int64))'),
    "Decoder: eps of the norms ignored": ("Decoder._look_up", "[norm.eps for norm in norms]", "[1e-5 for norm in norms]"),
    "Decoder: tokens not checked": ("Decoder.logits", 'class_ids("tokens", tokens, self.config.vocabulary_size)',
        "np.array(tokens)"),
    "Decoder: shape not checked": (
        "Decoder.logits", "tokens.ndim != 2 or len(tokens) != batch_size or not 1 <= tokens.shape[1] <= context",
        "False"),
    "can_decode: subclasses": ("can_decode", "type(model) is not CausalTransformer",
        "not isinstance(model, CausalTransformer)"),
    "can_decode: hooks": ("can_decode", "and not any(module.has_hooks for module in modules)", ""),
    "can_decode: activations": ("can_decode", 'and all(block.mlp.expand.activation == "gelu" for block in model.blocks)',
        ""),
    "can_decode: shapes": (
        "can_decode",
        "[None if parameter is None else parameter.shape for parameter in parameters] == kernel_shapes(config)",
        "True"),
    "can_decode: dtypes": (
        "can_decode", "and len({parameter.dtype for parameter in parameters if parameter is not None}) == 1",
        ""),
    "can_decode: never": ("can_decode", "modules, config = list(model.modules()), model.config", "return False"),
}) + edits(CAN_DECODE, "models.decode", {
    "can_decode: placement": ("can_decode", 'config.placement != "pre" or', ""),
    "can_decode: positions": ("can_decode", 'or config.positions != "learned"', ""),
    "can_decode: parts": (
        "can_decode", "[type(module) for module in modules] != PARTS_BEFORE + PARTS_OF_BLOCK * config.layers + PARTS_AFTER",
        "False"),
})

TRAINER = edits(TRAINING, "models.train", {
    "Trainer: weight decay of all parameters": ("Trainer", '"weight_decay": 0.0}', '"weight_decay": config.weight_decay}'),
    "Trainer: weight decay ignored": ("Trainer", '"weight_decay": config.weight_decay}', '"weight_decay": 0.0}'),
    "Trainer: vectors not trained": ("Trainer", "[p for p in parameters if p.ndim < 2]", "[]"),
    "Trainer: beta1 ignored": ("Trainer", "config.beta1", "0.9"),
    "Trainer: beta2 ignored": ("Trainer", "config.beta2", "0.99"),
    "Trainer: max_grad_norm ignored": ("Trainer", "max_grad_norm=config.max_grad_norm", "max_grad_norm=1.0"),
    "Trainer: no clipping": ("Trainer", "max_grad_norm=config.max_grad_norm", "max_grad_norm=1e30"),
    "Trainer: seed of batches ignored": ("Trainer", "context, config.seed)", "context, 42)"),
    "Trainer: batch_size ignored": ("Trainer", "config.batch_size, context", "8, context"),
    "Trainer: trains on validation": ("Trainer", "RandomBatches(corpus.train", "RandomBatches(corpus.validation"),
    "Trainer: accumulated losses not divided": (
        "Trainer._loss_and_gradients", "loss / self.config.accumulation if self.config.accumulation > 1 else loss",
        "loss"),
    "Trainer: accumulation ignored": ("Trainer.train_step", "range(self.config.accumulation)", "range(1)"),
    "Trainer: learning rate not set": ("Trainer.train_step", 'group["lr"] = lr', "pass"),
    "Trainer: learning rate of the first group only": ("Trainer.train_step", "for group in self.optimizer.param_groups:",
        "for group in self.optimizer.param_groups[:1]:"),
    "Trainer: gradients kept from step to step": ("Trainer.train_step", "self.optimizer.zero_grad()", "pass"),
    "Trainer: the same batch always": ("Trainer.train_step", "tokens, targets = self.batches.draw()",
        'tokens, targets = self.__dict__.setdefault("_batch", self.batches.draw())'),
    "Trainer: loss of the last batch": ("Trainer.train_step", "sum(losses) / len(losses)", "losses[-1]"),
    "Trainer: loss not checked": ("Trainer.train_step", 'self._check_finite("loss", loss)', "pass"),
    "Trainer: gradient not checked": (
        "Trainer.train_step", 'self._check_finite("norm of the gradient", self.optimizer.grad_norm)',
        "pass"),
    "Trainer: no step counted": ("Trainer.train_step", "self.step += 1", "pass"),
    "Trainer: tokens_per_second of one batch": ("Trainer.train_step", "len(losses) * tokens.size", "tokens.size"),
    "Trainer: annealing ignored": ("Trainer._learning_rate", "config.annealing,", '"cosine",'),
    "Trainer: warm-up ignored": ("Trainer._learning_rate", "min(config.warmup_steps, config.steps)", "0"),
    "Trainer: long warm-up not cut": ("Trainer._learning_rate", "min(config.warmup_steps, config.steps)",
        "config.warmup_steps"),
    "Trainer: final_lr ignored": ("Trainer._learning_rate", "config.final_lr * config.lr", "0.0"),
    "Trainer: evaluates with dropout": ("Trainer.evaluate", "self.model.eval()", "pass"),
    "Trainer: trains without dropout after an evaluation": ("Trainer.evaluate", "self.model.train()", "pass"),
    "Trainer: evaluates on the tape": ("Trainer.evaluate", "with mg.no_grad():", "if True:"),
    "Trainer: evaluation weighs batches alike": ("Trainer.evaluate", "np.count_nonzero(targets != IGNORED)", "1"),
    "Trainer: limit of evaluation ignored": ("Trainer.evaluate", "self.config.batch_size, limit)",
        "self.config.batch_size)"),
    "Trainer: validation loss not checked": ("Trainer.evaluate", 'self._check_finite("validation loss", total)', "pass"),
    "Trainer: parameters not restored": ("Trainer.restore", "load_parameters(self.model, checkpoint, path)", "pass"),
    "Trainer: optimizer not restored": ("Trainer.restore", 'self.optimizer.load_state_dict({"state": state,',
        '({"state": state,'),
    "Trainer: batches not restored": ("Trainer.restore", 'self.batches.set_state(checkpoint.generators["batches"])',
        "pass"),
    "Trainer: generator of dropout not restored": (
        "Trainer.restore", 'mg.random.set_state(checkpoint.generators["minigrad"])',
        "pass"),
    "Trainer: step not restored": ("Trainer.restore", "self.step = checkpoint.step", "pass"),
    "Trainer: counters not saved": ("Trainer.checkpoint", "for name, value in entries.items()}",
        'for name, value in entries.items() if name != "step"}'),
    "Trainer: finished too early": ("Trainer.is_finished", ">= self.config.steps", ">= self.config.steps - 1"),
}) + edits(TRAINING, "models.data", {
    "batches: all from the start of the text": ("RandomBatches.draw", "starts + self.offsets", "0 * starts + self.offsets"),
    "batches: one window for the whole batch": ("RandomBatches.draw", "starts + self.offsets",
        "starts[:1] + 0 * starts + self.offsets"),
    "batches: targets are the inputs": ("RandomBatches.draw", "windows[:, 1:]", "windows[:, :-1]"),
    "batches: two ahead": ("RandomBatches.draw", "return windows[:, :-1], windows[:, 1:]",
        "return windows[:, :-1], np.roll(windows, -1, 1)[:, 1:]"),
    "batches: seed ignored": ("RandomBatches", "default_rng(seed)", "default_rng(0)"),
    "batches: the end of the text is never drawn": ("RandomBatches.draw", "len(self.offsets) + 1,", "len(self.offsets),"),
    "corpus: validation is training": ("load_corpus", "ids[:boundary], ids[boundary:]", "ids[:boundary], ids[:boundary]"),
    "corpus: training is everything": ("load_corpus", "ids[:boundary], ids[boundary:]", "ids, ids[boundary:]"),
    "corpus: hash of nothing": ("load_corpus", "hashlib.sha256(text.encode())", "hashlib.sha256(b'')"),
    "corpus: path lost": ("load_corpus", "Corpus(absolute,", "Corpus(None,"),
    "windows: context ignored": ("windows", "starts = np.arange(0, len(tokens) - 1, context)",
        "starts = np.arange(0, len(tokens) - 1, 5)"),
    "windows: the first ones for a limit": ("windows", "starts[np.linspace(0, len(starts) - 1, limit).astype(int)]",
        "starts[:limit]"),
    "windows: the end counts twice": ("windows", "np.where(is_real, tokens[positions + 1], IGNORED)",
        "tokens[positions + 1]"),
}) + edits(TRAINING, "models.run", {
    "run: never evaluates on the way": ("train", "trainer.step % trainer.config.eval_every == 0 or trainer.is_finished()",
        "trainer.is_finished()"),
    "run: evaluates a part at the end": ("train", "last_windows(trainer) if trainer.is_finished() else", ""),
    "run: evaluates all on the way": (
        "train", "last_windows(trainer) if trainer.is_finished() else trainer.config.eval_windows",
        "last_windows(trainer)"),
    "run: evaluates on the training text": ("train", "trainer.evaluate(trainer.corpus.validation, limit)",
        "trainer.evaluate(trainer.corpus.train, limit)"),
    "run: later lines of a resumed run stay": ("keep_metrics", 'if row["step"] <= step', ""),
    "run: no first checkpoint": ("train", "checkpoints.save(folder, trainer.checkpoint())  # from", "pass  # from"),
    "run: sample without its seed": ("report", ", seed=trainer.config.seed", ""),
    "run: sample at another temperature": ("report", "temperature=0.8", "temperature=0.0"),
    "run: reports the validation loss as training loss": (
        "report", "trainer.evaluate(trainer.corpus.train, trainer.config.eval_windows)",
        "validation_loss"),
})

ON_TASKS = edits(TASK_TRAINING, "models.task_training", {
    "task training: lr ignored": ("train", "peak=training.lr", "peak=1e-3"),
    "task training: learning rate not set": ("train", 'group["lr"] = lr', "pass"),
    "task training: annealing ignored": ("train", "training.annealing,", '"cosine",'),
    "task training: warm-up ignored": ("train", "min(training.warmup_steps, training.steps)", "0"),
    "task training: max_grad_norm ignored": ("train", "max_grad_norm=training.max_grad_norm", "max_grad_norm=1.0"),
    "task training: weight decay dropped": ("train", "weight_decay=0.01", "weight_decay=0.0"),
    "task training: betas of Adam": ("train", ", betas=(0.9, 0.98)", ""),
    "task training: label_smoothing ignored": ("train", '{"label_smoothing": training.label_smoothing}', "{}"),
    "task training: seed ignored": ("train", "default_rng(training.seed)", "default_rng(0)"),
    "task training: accumulation ignored": ("train", "range(training.accumulation)", "range(1)"),
    "task training: accumulated losses not divided": ("train", " / training.accumulation", ""),
    "task training: length ignored": ("train", "if length is None else length", ""),
    "task training: batch size of the start": ("train", "training.batch_size_at(step)", "training.batch_size"),
    "task training: the same examples always": ("train", "task.make(generator,", "task.make(np.random.default_rng(0),"),
    "task training: gradients kept": ("train", "optimizer.zero_grad()", "pass"),
    "task training: no steps": ("train", "optimizer.step()", "pass"),
    "task training: without dropout": ("train", "model.train()", "pass"),
    "task training: stays in training mode": ("train", "model.eval()", "pass"),
    "task training: final_batch_size ignored": ("TaskTraining.batch_size_at", "self.final_batch_size is None", "True"),
    "make_model: seed ignored": ("make_model", "mg.manual_seed(seed)", "mg.manual_seed(0)"),
    "make_model: config ignored": ("make_model", "config or TransformerConfig", "TransformerConfig"),
    "make_model: read of the task ignored": ("make_model", "task.read, known[name]", '"mean", known[name]'),
    "make_model: dtype of patches ignored": ("make_model", ".to(config.dtype)", ""),
    "make_model: no-attention attends": ("make_model", "known[name], make_tokens", "True, make_tokens"),
    "make_model: all sequence models are one": ("make_model", "return known[name](config)",
        'return known["encoder-decoder"](config)'),
    "accuracy: always right": ("is_right", "return (answer == wanted).all(axis=1)", "return np.ones(len(answer), bool)"),
    "accuracy: one right symbol will do": ("is_right", "(answer == wanted).all(axis=1)", "(answer == wanted).any(axis=1)"),
    "accuracy: classes always right": ("is_right", "logits.array.argmax(axis=1) == target", "target == target"),
    "accuracy: length ignored": ("accuracy", "if length is None else [length]", ""),
    "accuracy: seed ignored": ("accuracy", "default_rng(seed)", "default_rng(0)"),
    "accuracy: with dropout": ("accuracy", "model.eval()", "pass"),
    "accuracy: STOP not wanted": ("is_right", "_, wanted = inputs_and_targets(target)", "wanted = target"),
    "arguments: targets are the inputs": ("arguments", "*inputs_and_targets(target))",
        "*inputs_and_targets(target)[:1] * 2)"),
}) + edits(TASK_RUN, "models.task_run", {
    "task run: seed of the model ignored": ("TaskRun", "config, training.seed)", "config, 0)"),
    "task run: config ignored": ("TaskRun", "self.model_name, config, training.seed",
        "self.model_name, None, training.seed"),
    "task run: context not checked": ("TaskRun", "self._check_context()", "pass"),
    "task run: accuracy of one length": ("accuracies", "length=length)", "length=longest)"),
    "task run: examples are training's": ("TaskRun.examples", "np.random.default_rng(TEST_SEED)",
        "np.random.default_rng(self.training.seed)"),
    "task run: shows what is wanted as what it got": ("example_texts", "map(task.text, answers)", "map(task.text, target)"),
    "task run: shows wanted classes as what it got": ("example_texts", "task.classes[got]", "task.classes[wanted]"),
    "task run: saves before training": ("run", "train(task_run.task, task_run.model, task_run.training, report)",
        "train(task_run.task, __import__('copy').deepcopy(task_run.model), task_run.training, report)"),
    "task run: steps ignored": ("run", "task_run.training, report)",
        "dataclasses.replace(task_run.training, steps=1), report)"),
    "task run: loss not checked": ("run", "not math.isfinite(loss)", "False"),
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
    "tasks: lengths at random miss the longest": ("Task.lengths_at_random", "self.lengths[1] + 1", "self.lengths[1]"),
    "tasks: STOP missing": ("inputs_and_targets", "= STOP", "= PAD"),
    "tasks: START missing": ("inputs_and_targets", "constant_values=START", "constant_values=PAD"),
    "tasks: text goes on after STOP": ("Task.text", "if STOP in ids else ids", "if False else ids"),
}) + [
    replaced("no-attention attends", task_training.CLASS_MODELS, "no-attention", True, TASK_TRAINING),
    replaced("encoder does not attend", task_training.CLASS_MODELS, "encoder", False, TASK_TRAINING),
    replaced("rnn attends",
        task_training.SEQUENCE_MODELS, "rnn", task_training.SEQUENCE_MODELS["rnn-attention"], TASK_TRAINING),
    replaced("rnn-attention does not attend",
        task_training.SEQUENCE_MODELS, "rnn-attention", task_training.SEQUENCE_MODELS["rnn"], TASK_TRAINING),
    replaced("induction reads the mean",
        tasks.TASKS, "induction", dataclasses.replace(tasks.TASKS["induction"], read="mean"), TASK_TRAINING),
    replaced("bank reads the mean",
        tasks.TASKS, "bank", dataclasses.replace(tasks.TASKS["bank"], read="mean"), TASK_TRAINING),
    Sabotage("beam_search: default width 1", TRANSLATION, default("models.translate:beam_search", "width", 1)),
    Sabotage("TransformerConfig: layers=0 refused",
        CAUSAL, edit("models.transformer:TransformerConfig.__post_init__", "least=0, ", "")),
    Sabotage("presets: nano has micro's width",
        CAUSAL, lambda: transformer.PRESETS.__setitem__("nano", transformer.PRESETS["micro"])),
]

OTHERS = [
    Sabotage("MLP: hooks not called",
        HOOKS, edit("models.transformer:MLP.forward", "expand.has_hooks or project.has_hooks", "False")),
]

EXPLAINED = {
    "generate: temperature 0 draws": "at the coldest temperature, which it is then, the likeliest token has it all",
    "can_decode: subclasses": "the types of all parts are compared too, the model's with them",
    "make_model: dtype of patches ignored": "a Classifier converts all its parts, make_tokens with them",
    "can_decode: positions": "with other positions a model has other parts",
}

SABOTAGES = explained(EXPLAINED, [*BLOCK, *CAUSAL_MODEL, *ENCODER_DECODER, *TRANSLATING, *GENERATING, *TRAINER, *ON_TASKS,
                                  *OTHERS])
