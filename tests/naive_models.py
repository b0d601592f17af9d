"""Slow, obvious references for the models, from their formulas and named parameters; in float64, without dropout."""
import math

import numpy as np

import naive

# What a sublayer f makes of x: around attention, and around the MLP
POST, PRE = lambda x, f, norm: norm(x + f(x)), lambda x, f, norm: x + f(norm(x))
PLACEMENTS = {
    "pre": (PRE, PRE),
    "post": (POST, POST),
    "residual": (lambda x, f, norm: x + f(x),) * 2,
    "none": (lambda x, f, norm: f(x),) * 2,
    "inner": (lambda x, f, norm: norm(x) + f(norm(x)),) * 2,
    "mixed": (lambda x, f, norm: norm(x) + f(norm(x)), PRE),
    "post_attention_only": (POST, lambda x, f, norm: norm(f(x))),
}
ACTIVATIONS = {
    "gelu": naive.gelu,
    "gelu_tanh": naive.gelu_tanh,
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "sigmoid": naive.sigmoid,
    "silu": lambda x: x * naive.sigmoid(x),
}
FIXED = {  # of position t, feature i of D
    "sinusoidal": lambda t, i, D: math.cos(t / 10_000 ** ((i - 1) / D)) if i % 2 else math.sin(t / 10_000 ** (i / D)),
    "sine_only": lambda t, i, D: math.sin(t / 10_000 ** ((i + 1) / D)),
    "integer": lambda t, i, D: t,
}
PAD = 0


class Parameters(dict):
    """Arrays by name."""

    @classmethod
    def of(cls, model):
        return cls({name: value.numpy().copy() for name, value in model.state_dict().items()})

    def below(self, name):
        """The parameters of one part, under its own names."""
        start = f"{name}."
        return Parameters({key.removeprefix(start): value for key, value in self.items() if key.startswith(start)})


def linear(p, x):
    return naive.linear(x, p["weight"], p.get("bias"))


def norm(p, config, x):
    if config.norm == "rms_norm":
        return np.array([row / math.sqrt(sum(row * row) / len(row) + config.norm_eps) * p["weight"]
                         for row in x.reshape(-1, x.shape[-1])]).reshape(x.shape)
    return naive.layer_norm(x, p["weight"], p.get("bias"), config.norm_eps)


def scaled(angle, scaling):
    """The angle between neighbouring positions, for a longer context."""
    kind, *numbers = scaling.split(":")
    if kind == "none":
        return angle
    factor, *band = map(float, numbers)
    if kind == "linear":
        return angle / factor
    low, high, context = band
    wavelength = 2 * math.pi / angle
    if wavelength < context / high:
        return angle
    if wavelength > context / low:
        return angle / factor
    smooth = (context / wavelength - low) / (high - low)
    return (1 - smooth) * angle / factor + smooth * angle


def rotation(config, T, D):
    """Rotary positions: the cosine and sine of each position's angle, for each pair of features."""
    angles = [scaled(config.rotary_base ** (-2 * i / D), config.rotary_scaling) for i in range(D // 2)]
    return np.array([[f(t * angle) for angle in angles for f in (math.cos, math.sin)] for t in range(T)])


def attention(p, config, x, context, hidden, causal=False, positions="none"):
    """(output, weights) of attention to the context, except where `hidden` (B, S)."""
    groups = config.key_value_heads or config.heads
    counts = config.heads, groups, groups
    ends = np.cumsum(counts)[:2] * (len(p["in_proj_weight"]) // sum(counts))
    weights, biases = (np.split(p[name], ends) if name in p else [None] * 3 for name in ("in_proj_weight", "in_proj_bias"))
    q, k, v = (np.stack(np.split(naive.linear(source, weight, bias), heads, axis=-1), axis=1) for source, weight, bias, heads
               in zip((x, context, context), weights, biases, counts))
    k, v = (np.stack([y[:, h * groups // config.heads] for h in range(config.heads)], axis=1) for y in (k, v))
    mask = naive.zeros((*q.shape[:-1], k.shape[-2]), *([p["relative_bias"]] if positions == "relative" else []))
    for t, s in np.ndindex(mask.shape[-2:]):
        if positions == "relative":
            furthest = p["relative_bias"].shape[1] // 2
            mask[:, :, t, s] += p["relative_bias"][:, min(max(t - s, -furthest), furthest) + furthest]
        if causal and not t - config.context < s <= t:
            mask[:, :, t, s] = -np.inf
    if hidden is not None:
        for b, s in np.argwhere(hidden):
            mask[b, :, :, s] = -np.inf
    weights = naive.attention_weights(q, k, mask, rotation(config, *q.shape[-2:]) if positions == "rotary" else None)
    return linear(p.below("out_proj"), np.concatenate(list((weights @ v).swapaxes(0, 1)), axis=-1)), weights


def block(p, config, x, hidden=None, causal=True, context=None, context_hidden=None, maps=None):
    around_attention, around_mlp = PLACEMENTS[config.placement]

    def attend(y):
        return attention(p.below("attention"), config, y, y, hidden, causal, config.positions)[0]

    def look(y):
        out, weights = attention(p.below("cross_attention"), config, y, context, context_hidden)
        maps.append(weights)
        return out

    def mlp(y):
        inner = linear(p.below("mlp.expand"), y)
        if config.activation == "swiglu":
            inner = inner * naive.elementwise(ACTIVATIONS["silu"])(linear(p.below("mlp.gate"), y))
        else:
            inner = naive.elementwise(ACTIVATIONS[config.activation])(inner)
        return linear(p.below("mlp.project"), inner)

    if p.below("attention"):
        x = around_attention(x, attend, lambda y: norm(p.below("ln_1"), config, y))
    if context is not None:
        x = around_attention(x, look, lambda y: norm(p.below("ln_context"), config, y))
    return around_mlp(x, mlp, lambda y: norm(p.below("ln_2"), config, y))


def stack(p, config, tokens, **options):
    """Embedded tokens (or vectors as they are), positions, blocks, and the last norm."""
    x = p["token_embedding.weight"][tokens] if tokens.dtype.kind == "i" else tokens
    T, D = x.shape[1:]
    if config.positions == "learned":
        x = x + p["position_embedding.weight"][:T]
    if config.positions in FIXED:
        table = [[FIXED[config.positions](t, i, D) for i in range(D)] for t in range(T)]
        x = x * math.sqrt(D) + np.array(table)
    for i in range(config.layers):
        x = block(p.below(f"blocks.{i}"), config, x, **options)
    return norm(p.below("ln_f"), config, x) if config.final_norm else x


def causal(p, config, tokens):
    """Logits of a CausalTransformer."""
    return stack(p, config, tokens) @ p["token_embedding.weight" if config.tied else "read_out.weight"].T


def causal_translator(p, config, source, inputs):
    """Logits of a CausalSeq2Seq, one sequence after the other."""
    rows = [[np.concatenate([ids[ids != PAD], said])] for ids, said in zip(source, inputs)]
    return np.concatenate([causal(p.below("model"), config, np.array(row))[:, -len(inputs[0]):] for row in rows])


def encoder_decoder(p, config, source, inputs):
    """(logits, where each step looks at the source)"""
    hidden, maps = source == PAD, []
    memory = stack(p.below("encoder"), config, source, hidden=hidden, causal=False)
    x = stack(p.below("decoder"), config, inputs, context=memory, context_hidden=hidden, maps=maps)
    return x @ p["decoder.token_embedding.weight" if config.tied else "read_out.weight"].T, maps[-1].mean(axis=1) if maps else None


def classifier(p, config, inputs, read):
    """Logits of a Classifier, for token ids or vectors."""
    hidden = inputs == PAD if inputs.dtype.kind == "i" else np.zeros(inputs.shape[:2], bool)
    x = stack(p.below("encoder"), config, inputs, hidden=hidden, causal=False)
    rows = [row[~nothing][-1] if read == "last" else row[~nothing].mean(axis=0) for row, nothing in zip(x, hidden)]
    return linear(p.below("head"), np.array(rows))


def recurrent(p, source, inputs, attends):
    """(logits, where each step looks) of a RecurrentSeq2Seq, one sequence after the other."""
    def step(part, end, x, h):
        return np.tanh(p[f"{part}.weight_ih_l0{end}"] @ x + p[f"{part}.bias_ih_l0{end}"]
                       + p[f"{part}.weight_hh_l0{end}"] @ h + p[f"{part}.bias_hh_l0{end}"])

    def read(sequence, end):
        states, h = [], np.zeros(p["encoder.weight_hh_l0"].shape[0])
        for x in sequence:
            h = step("encoder", end, x, h)
            states.append(h)
        return states

    def look(s, states):
        scores = np.array([float(p["attention.score.weight"][0] @ np.tanh(
            p["attention.state.weight"] @ s + p["attention.state.bias"] + p["attention.context.weight"] @ h)) for h in states])
        weights = naive.softmax(scores, 0)
        return weights @ np.array(states), weights

    logits, maps = [], []
    for ids, said in zip(source, inputs):
        is_real = ids != PAD
        x, y = p["source_embedding.weight"][ids[is_real]], p["target_embedding.weight"][said]
        states, rows, map_ = read(x, ""), [], np.zeros((len(said), len(ids)))
        s = states[-1]
        if attends:
            backward = read(x[::-1], "_reverse")
            s = np.tanh(p["first_state.weight"] @ np.concatenate([s, backward[-1]]) + p["first_state.bias"])
            states = [np.concatenate(both) for both in zip(states, backward[::-1])]
            c, _ = look(s, states)
        for t, input_ in enumerate(y):
            s = step("decoder", "", np.concatenate([input_, c]) if attends else input_, s)
            if attends:
                c, map_[t, is_real] = look(s, states)
            rows.append(np.concatenate([s, c]) if attends else s)
        logits.append(linear(p.below("out"), np.array(rows)))
        maps.append(map_)
    return np.array(logits), np.array(maps)


ANNEALING = {  # the fraction of the way from the last rate to the highest, by the fraction done of the steps after warm-up
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "quadratic": lambda done: 1 - 2 * done + done * done,
    "steps": lambda done: [1, 1 / 2, 1 / 4, 1 / 8, 0][math.floor(4 * done)],
    "constant": lambda done: 1,
}


def rates(config):
    """The learning rate of each step."""
    warmup, last = config.warmup_steps, config.steps - 1
    rise = [config.lr * (step + 1) / (warmup + 1) for step in range(warmup)]
    return rise + [config.lr * (config.final_lr + (1 - config.final_lr) * ANNEALING[config.annealing]((step - warmup) / (last - warmup)))
                   for step in range(warmup, config.steps)]


def batch_sizes(config):
    """The batch size of each step."""
    sizes = [config.batch_size]
    while sizes[-1] < (config.final_batch_size or 0):
        sizes.append(min(2 * sizes[-1], config.final_batch_size))
    return [sizes[step * len(sizes) // config.steps] for step in range(config.steps)]


def training(config, parameters, draw, loss_and_gradients):
    """The losses of training with AdamW, which changes the parameters, arrays. draw(generator, size) is a batch, and
    loss_and_gradients(batches) are those of the mean over the targets of all."""
    generator, losses = np.random.default_rng(config.seed), []
    means, squares = ([np.zeros(p.shape) for p in parameters] for _ in range(2))
    for step, (lr, size) in enumerate(zip(rates(config), batch_sizes(config)), start=1):
        loss, gradients = loss_and_gradients([draw(generator, size) for _ in range(config.accumulation)])
        norm = math.sqrt(sum((g * g).sum() for g in gradients))
        for p, g, m, v in zip(parameters, gradients, means, squares):
            g = g * min(1, config.max_grad_norm / (norm + 1e-6))
            m[...] = config.beta1 * m + (1 - config.beta1) * g
            v[...] = config.beta2 * v + (1 - config.beta2) * g * g
            decay = config.weight_decay if config.decay_all or p.ndim >= 2 else 0.0
            p[...] = (1 - decay * lr) * p - lr * m / (1 - config.beta1**step) / (np.sqrt(v / (1 - config.beta2**step)) + 1e-8)
        losses.append(loss)
    return losses
