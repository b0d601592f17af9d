"""Models against their formulas, for every choice of the config: outputs, gradients, causality, padding, dropout, initial values."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import naive
import naive_models
import nn
from configs import random_config
from minigrad import ops
from minigrad.observer import Observer
from models import PRESETS, CausalTransformer, TransformerConfig
from models.architectures import CausalSeq2Seq
from models.encoder_decoder import PAD, START, Classifier, EncoderDecoder
from models.generate import full_forward, generate
from models.recurrent import RecurrentSeq2Seq
from models.config import ATTENTION_POSITIONS, ENDLESS_POSITIONS, PLACEMENTS, TABLE_POSITIONS
from refusals import all_refused
from tables import shares

CONFIG = TransformerConfig(vocabulary_size=9, context=10, layers=2, heads=2, width=4, dtype="float64")
LLAMA = dict(norm="rms_norm", norm_eps=0.1, activation="swiglu", hidden_width=7, positions="rotary", rotary_base=50.0,
             heads=4, key_value_heads=2, head_size=2, bias=False)
VARIANTS = (
    [dict(placement=placement) for placement in PLACEMENTS]
    + [dict(positions=positions) for positions in TABLE_POSITIONS + ATTENTION_POSITIONS]
    + [dict(activation=activation) for activation in nn.functional.ACTIVATIONS]
    + [dict(final_norm=False), dict(mlp_ratio=1), dict(layers=0), dict(layers=3), dict(heads=1), dict(width=8),
       dict(bias=False), dict(placement="post", positions="relative", bias=False)]
    + [dict(norm="rms_norm", norm_eps=0.3), dict(norm_eps=0.3), dict(activation="swiglu"), dict(hidden_width=5),
       dict(heads=4, key_value_heads=2, positions="relative"), dict(head_size=6), dict(key_value_heads=1), dict(tied=False),
       dict(heads=3, head_size=2), dict(positions="rotary", head_size=8, rotary_base=100.0, rotary_scaling="linear:3"),
       dict(positions="rotary", head_size=8, rotary_base=5.0, rotary_scaling="llama3:8:1:4:12"),
       LLAMA | dict(placement="post", bias=True), LLAMA]
)
MODELS = {
    "causal": CausalTransformer,
    "causal translator": CausalSeq2Seq,
    "encoder-decoder": EncoderDecoder,
    "classifier": lambda config: Classifier(config, 3),
    "classifier of the last": lambda config: Classifier(config, 3, pooling="last"),
    "classifier without attention": lambda config: Classifier(config, 3, attends=False),
    "classifier of vectors": lambda config: Classifier(config, 3, make_tokens=vectors(config)),
    "classifier of the last vector": lambda config: Classifier(config, 3, pooling="last", make_tokens=vectors(config)),
    "rnn": lambda config: RecurrentSeq2Seq(config, attends=False),
    "rnn-attention": lambda config: RecurrentSeq2Seq(config, attends=True),
}
FIELDS_OF_RNNS = {"vocabulary_size", "width", "dtype"}
REFUSED = {  # fields that would have no effect
    "rnn": {"norm", "norm_eps", "key_value_heads", "head_size", "hidden_width", "tied", "rotary_base", "rotary_scaling"},
    "classifier": {"tied"},
    "classifier without attention": {"key_value_heads", "head_size", "rotary_base", "rotary_scaling"},
}


def refused(name):
    return set().union(*(fields for start, fields in REFUSED.items() if name.startswith(start)))


def takes(name, fields):
    """Whether a model uses these fields: a recurrent network ignores most of the config."""
    return not set(fields) & refused(name) and (not name.startswith("rnn") or set(fields) <= FIELDS_OF_RNNS)


def vectors(config):
    """A function from token ids to vectors, for a model that takes vectors."""
    return lambda tokens: mg.tensor(np.cos(np.arange(config.width) * (1.0 + tokens.numpy()[..., None])), dtype=config.dtype)


def make(name, **changes):
    """A model whose parameters are large enough for each to matter."""
    mg.manual_seed(0)
    model, generator = MODELS[name](dataclasses.replace(CONFIG, **changes)), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += 0.5 * generator.standard_normal(parameter.shape)
    return model.eval()


def source_and_inputs():
    """Source (3, 5), with padding at the end of the first and in the middle of the second row, and inputs (3, 4)."""
    source, inputs = (np.random.default_rng(1).integers(3, CONFIG.vocabulary_size, (3, n)) for n in (5, 4))
    source[0, -2:] = source[1, 2] = PAD
    inputs[:, 0] = START
    return source, inputs


def arguments(name):
    """What the model is called with: a source and, for a translator, the tokens so far."""
    source, inputs = map(mg.tensor, source_and_inputs())
    return (source,) if name == "causal" or "classifier" in name else (source, inputs)


def targets(name):
    """Targets of which one is ignored."""
    if "classifier" in name:
        return mg.tensor([0, 2, 1])
    ids = np.random.default_rng(2).integers(3, CONFIG.vocabulary_size, arguments(name)[-1].shape)
    ids[1, -1] = -100 if name == "causal" else PAD
    return mg.tensor(ids)


def logits_of(model, *inputs):
    return model(*(mg.tensor(np.asarray(value)) for value in inputs))[0].detach().numpy()


def reference(model, name):
    """Logits from the formulas."""
    p, config, (source, inputs) = naive_models.Parameters.of(model), model.config, source_and_inputs()
    if name == "causal":
        return naive_models.causal(p, config, source)
    if name == "causal translator":
        return naive_models.causal_translator(p, config, source, inputs)
    if name == "encoder-decoder":
        return naive_models.encoder_decoder(p, config, source, inputs)[0]
    if "classifier" in name:
        tokens = model.make_tokens(mg.tensor(source)).numpy() if "vector" in name else source
        return naive_models.classifier(p, config, tokens, "last" if "last" in name else "mean")
    return naive_models.recurrent(p, source, inputs, attends=name == "rnn-attention")[0]


def used_parameters(model, name):
    """All but those of an encoder that is given vectors, or that no layer of the decoder attends to."""
    unused = "encoder." if model.config.layers == 0 else "encoder.token_embedding" if "vector" in name else "no part"
    return {key: p for key, p in model.named_parameters() if not key.startswith(unused)}


def assert_gradients(loss_of, parameters, case):
    """Each parameter's gradient along a random direction is the central difference, and none is all zeros."""
    for parameter in parameters.values():
        parameter.grad = None
    loss_of().backward()
    generator, h = np.random.default_rng(3), 2e-6
    for name, parameter in parameters.items():
        before, direction, losses = parameter.array.copy(), generator.standard_normal(parameter.shape), []
        for sign in (1, -1):
            with mg.no_grad():
                parameter.data[...] = before + sign * h * direction
                losses.append(loss_of().item())
        parameter.data[...] = before
        wanted = (losses[0] - losses[1]) / (2 * h)
        assert parameter.grad is not None and parameter.grad.numpy().any(), (case, name)
        assert (parameter.grad.numpy() * direction).sum() == pytest.approx(wanted, rel=3e-6, abs=1e-8), (case, name)


def assert_loss_is_cross_entropy(logits, loss, name):
    wanted, log_p = targets(name).numpy(), naive.log_softmax(logits.detach().numpy(), -1)
    counting = np.argwhere((wanted != -100) & ((wanted != PAD) | ("classifier" in name)))
    assert loss.item() == pytest.approx(-np.mean([log_p[(*place, wanted[tuple(place)])] for place in counting]), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_its_formulas(name):
    """Logits, the loss, the number of parameters, gradients without changes, and of every fourth a compiled step bit for bit."""
    variants = VARIANTS[:: 4 if " of " in name else 1]  # the classifier has the others
    for number, changes in enumerate(filter(lambda changes: takes(name, changes), [{}, *variants])):
        model = make(name, **changes)
        logits, loss = model(*arguments(name), targets(name))
        np.testing.assert_allclose(logits.detach().numpy(), reference(model, name), rtol=1e-9, atol=1e-9, err_msg=str(changes))
        assert_loss_is_cross_entropy(logits, loss, name)
        if not changes:
            assert_gradients(lambda model=model: model(*arguments(name), targets(name))[1], used_parameters(model, name), changes)
        assert len(list(model.parameters())) == len(model.state_dict()), "only the read-out is shared"
        if name == "causal" and number % 4 == 0:
            assert_same_bits_compiled(model, changes)
            assert list(generate(model, [1, 2, 3], 1, temperature=0)) == [full_forward(model, np.array([[1, 2, 3]])).argmax()]


@pytest.mark.parametrize("share", shares(12))
@pytest.mark.parametrize("name", ["causal", "encoder-decoder"])
def test_gradients_of_variants(name, share):
    for changes in VARIANTS[::share]:
        model = make(name, **changes)
        assert_gradients(lambda model=model: model(*arguments(name), targets(name))[1], used_parameters(model, name), changes)


def assert_same_bits_compiled(model, changes):
    def step(*inputs):
        loss = model(*inputs)[1]
        loss.backward()
        return loss

    results, compiled = [], mg.compile(step)
    for run in (step, compiled, compiled):
        model.zero_grad()
        results.append([run(*arguments("causal"), targets("causal")).item(), *(p.grad.tolist() for p in model.parameters())])
    assert results[0] == results[1] == results[2], changes


def test_parameter_count_of_any_config(random):
    for _ in range(200):
        config = random_config(random)
        model = CausalTransformer(config)
        assert sum(parameter.numel() for parameter in model.parameters()) == config.parameter_count(), config
        assert {p.dtype for p in model.parameters()} == {np.dtype(config.dtype)}


OTHER = dict(vocabulary_size=11, context=12, layers=1, heads=1, width=8, dropout=0.5, bias=False, dtype="float32",
             placement="post", final_norm=False, activation="relu", positions="sinusoidal", norm="rms_norm",
             norm_eps=0.1, key_value_heads=1, head_size=4, hidden_width=7, tied=False, rotary_base=7.0,
             rotary_scaling="linear:2")
FIELDS_OF_SHAPES = {"vocabulary_size", "context", "layers", "width", "bias", "dtype", "final_norm",
                    "positions", "norm", "key_value_heads", "head_size", "hidden_width", "tied"}


@pytest.mark.parametrize("name", MODELS)
def test_every_field_of_the_config_counts_or_is_refused(name):
    """It changes the parameters' names, shapes or dtypes, or else the output in training mode."""
    assert OTHER.keys() == {field.name for field in dataclasses.fields(TransformerConfig)}

    def described(**changes):
        model = make(name, **changes).train()
        mg.manual_seed(0)  # of dropout
        return {key: (p.shape, p.dtype) for key, p in model.named_parameters()}, logits_of(model, *arguments(name))

    for field, value in OTHER.items():
        others = dict(positions="rotary", width=8) if field.startswith("rotary") else {}  # else the field is refused, or idle
        if field in refused(name):
            all_refused(lambda changes: make(name, **changes), [
                (others | {field: value}, f"{field} makes no sense for ")])
        elif takes(name, [field]) and (name, field) != ("classifier without attention", "heads"):
            (parameters, logits), (other, other_logits) = described(**others), described(**others, **{field: value})
            assert parameters != other if field in FIELDS_OF_SHAPES else (other_logits != logits).any(), field


def test_dtypes_and_no_loss_without_targets():
    for dtype in ("float32", "float64"):
        model, tokens = make("causal", dtype=dtype), mg.zeros(3, 5, dtype=mg.int64)
        logits, loss = model(tokens)
        assert logits.shape == (3, 5, 9) and logits.dtype == dtype and loss is None and model(tokens, tokens)[1].dtype == dtype


@pytest.mark.parametrize("name", ["causal", "encoder-decoder"])
def test_labels_can_be_smoothed(name):
    model = make(name)
    logits, loss = model(*arguments(name), targets(name), label_smoothing=0.1)
    log_p, wanted = naive.log_softmax(logits.detach().numpy(), -1), targets(name).numpy()
    rows = [0.9 * log_p[b, t, wanted[b, t]] + 0.1 * log_p[b, t].mean() for b, t in np.argwhere(~np.isin(wanted, (-100, PAD)))]
    assert loss.item() == pytest.approx(-np.mean(rows), rel=1e-12)


def test_pooling_is_mean_or_last():
    with pytest.raises(ValueError, match="pooling must be 'mean' or 'last', got 'first'"):
        Classifier(CONFIG, 2, pooling="first")


def test_memory_of_a_training_step():
    """Parameters, gradients and two moments, and what grows with the batch."""
    for dtype, itemsize in (("float32", 4), ("float64", 8)):
        config = dataclasses.replace(CONFIG, dtype=dtype)
        one, two, four = map(config.training_bytes, (1, 2, 4))
        assert two - one == (four - two) / 2 > itemsize * config.context * config.layers * 10 * config.width
        assert one - (two - one) == 4 * itemsize * config.parameter_count()


# ---- attention: causality, windows and padding ----

@pytest.mark.parametrize("name", ["encoder-decoder", "rnn-attention"])
def test_the_attention_map_is_that_of_the_last_layer(name):
    model, (source, inputs) = make(name), source_and_inputs()
    p = naive_models.Parameters.of(model)
    expected = (naive_models.encoder_decoder(p, model.config, source, inputs) if name == "encoder-decoder" else
                naive_models.recurrent(p, source, inputs, attends=True))[1]
    np.testing.assert_allclose(model.attention_map(mg.tensor(source), mg.tensor(inputs)), expected, atol=1e-9)


def test_models_are_causal():
    """To the bit, for every variant and every decoder."""
    cases = [("causal", changes) for changes in VARIANTS] + [(name, {}) for name in MODELS if len(arguments(name)) == 2]
    for name, changes in cases:
        model, (*source, read) = make(name, **changes), arguments(name)
        changed = read.numpy().copy()
        changed[:, 2:] = (changed[:, 2:] + 1) % CONFIG.vocabulary_size
        before, after = (logits_of(model, *source, ids) for ids in (read, changed))
        np.testing.assert_array_equal(before[:, :2], after[:, :2], err_msg=f"{name} {changes}")
        assert (before[:, 2:] != after[:, 2:]).any(axis=-1).all()


@pytest.mark.parametrize("changes", [dict(positions=positions) for positions in ENDLESS_POSITIONS] + [LLAMA], ids=str)
def test_past_the_context_each_token_attends_to_a_window(changes):
    """The longest text exceeds the reach of all blocks together."""
    model = make("causal", context=3, **changes)
    tokens = np.random.default_rng(1).integers(CONFIG.vocabulary_size, size=(2, 9))
    expected = naive_models.causal(naive_models.Parameters.of(model), model.config, tokens)
    for T in (3, 4, 9):
        np.testing.assert_allclose(logits_of(model, tokens[:, :T]), expected[:, :T], atol=1e-9)
    with pytest.raises(ValueError, match=r"expected tokens \(B, T\) with 1 <= T, got \(2, 0\)"):
        model(mg.zeros(2, 0, dtype=mg.int64))


@pytest.mark.parametrize("name", ["causal translator", "encoder-decoder", "classifier", "classifier of the last",
                                  "classifier without attention", "rnn", "rnn-attention"])
@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_padding_changes_nothing_and_any_other_token_does(name, positions):
    model, (source, inputs) = make(name, positions=positions, context=13), source_and_inputs()
    rest = () if "classifier" in name else (inputs,)
    before = logits_of(model, source, *rest)
    longer = np.pad(source, ((0, 0), (0, 3)), constant_values=PAD)
    np.testing.assert_allclose(logits_of(model, longer, *rest), before, atol=1e-12)
    for row, s in np.argwhere(source != PAD):
        changed = source.copy()
        changed[row, s] = 3 + (changed[row, s] - 2) % 6
        is_other = np.abs(logits_of(model, changed, *rest) - before) > 1e-9
        assert is_other[row].any() and not np.delete(is_other, row, axis=0).any()


def test_bad_tokens():
    model = make("causal")
    all_refused(lambda shape: model(mg.zeros(*shape, dtype=mg.int64)), [
        (shape, "expected tokens (B, T) with 1 <= T <= 10") for shape in [(8,), (2, 11), (2, 0), (1, 2, 3)]])
    all_refused(lambda token: model(mg.tensor([[0, token]])), [(-1, "-1"), (9, "9")], IndexError)


# ---- dropout, hooks, initial parameters and rounding ----

class Dropped(Observer):
    """The shapes of all arrays dropped with probability 0.25, attention weights included."""

    def __init__(self):
        self.shapes = []

    def forward(self, op, inputs, arrays, options):
        if options.get("p") == 0.25:
            self.shapes.append(arrays[-1].shape)
        elif options.get("dropout_p") == 0.25:
            q, k = ops.attention.split_heads(arrays[0], options["num_heads"])[:2] if "num_heads" in options else arrays[:2]
            self.shapes.append((*q.shape[:3], k.shape[2]))
        return super().forward(op, inputs, arrays, options)


def dropped(model, arguments) -> list[tuple[int, ...]]:
    with Dropped() as observer:
        model(*arguments)
    return observer.shapes


B, S, T, C, H = 3, 5, 4, CONFIG.width, CONFIG.heads


@pytest.mark.parametrize("name, expected", [
    ("causal", [(B, S, C), *[(B, H, S, S), (B, S, C), (B, S, C)] * 2]),
    ("encoder-decoder", [(B, S, C), *[(B, H, S, S), (B, S, C), (B, S, C)] * 2,
                         (B, T, C), *[(B, H, T, T), (B, T, C), (B, H, T, S), (B, T, C), (B, T, C)] * 2]),
    ("classifier without attention", [(B, S, C), *[(B, S, C)] * 2]),
])
def test_where_dropout_is(name, expected):
    """In training mode: after the embedding, on attention weights, and on the output of each sublayer."""
    for positions in ("learned", "sinusoidal", "rotary", "relative"):
        model = make(name, dropout=0.25, positions=positions)
        assert dropped(model, arguments(name)) == []
        assert dropped(model.train(), arguments(name)) == expected
    for placement in PLACEMENTS:
        model = make(name, dropout=0.25, placement=placement).train()
        assert len(dropped(model, arguments(name))) == len(expected)


@pytest.mark.parametrize("change", [
    lambda block: block.dropout.register_forward_hook(lambda module, args, out: 0.0 * out),
    lambda block: setattr(block, "dropout", nn.Dropout(1.0)),
    lambda block: setattr(block, "dropout", nn.Sequential(nn.Dropout(1.0))),
], ids=["a hook", "all dropped", "another module"])
def test_a_blocks_output_goes_through_its_dropout_module(change):
    block, x = CausalTransformer(dataclasses.replace(CONFIG, dropout=0.5)).blocks[0], mg.randn(2, 5, C, dtype=mg.float64)
    change(block)
    assert (block(x).detach().numpy() == x.numpy()).all()


@pytest.mark.parametrize("name, width, activation", [
    ("token_embedding", 32, "gelu"), ("blocks.0.mlp.expand", 128, "gelu"), ("blocks.1.mlp.project", 32, "gelu"),
    ("blocks.0.mlp.gate", 128, "swiglu"),
])
def test_hooks_of_fused_parts_are_called(name, width, activation):
    model, seen = CausalTransformer(dataclasses.replace(PRESETS["micro"].config, activation=activation)), []
    expected = logits_of(model, np.zeros((2, 5), int))
    dict(model.named_modules())[name].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    np.testing.assert_allclose(logits_of(model, np.zeros((2, 5), int)), expected, rtol=0, atol=1e-6)
    assert seen == [(2, 5, width)]


@pytest.mark.parametrize("name, std", [("causal", 0.02), ("causal translator", 0.125), ("encoder-decoder", 0.125),
                                       ("classifier", 0.125)])
@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_initial_parameters(name, std, positions):
    """Matrices are normal; those that write to the residual stream are smaller, by sqrt(2 L)."""
    mg.manual_seed(0)
    model = MODELS[name](dataclasses.replace(CONFIG, vocabulary_size=40, width=64, layers=8, positions=positions))
    for parameter_name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if parameter.ndim == 2:
            adds = parameter_name.endswith(("attention.out_proj.weight", "mlp.project.weight"))
            assert values.std() == pytest.approx(std / 4 if adds else std, rel=3 / parameter.numel() ** 0.5), parameter_name
        else:
            assert (values == float(parameter_name.endswith("weight"))).all(), parameter_name
    no_bias = make(name, positions=positions, bias=False).state_dict()
    biases = {key for key in no_bias if key.endswith((".bias", "proj_bias"))}
    assert biases == ({"head.bias"} if name == "classifier" else set())
    relative = {p.shape for key, p in make(name, positions="relative").named_parameters() if "relative" in key}
    assert relative == {(CONFIG.heads, 2 * CONFIG.context + 1)}, "one for each distance within the context"


def test_float32_of_nano_is_close_to_float64():
    config, batch_size = PRESETS["nano"].config, PRESETS["nano"].batch_size
    tokens, wanted = np.random.default_rng(0).integers(config.vocabulary_size, size=(2, batch_size, config.context))
    gradients = []
    for dtype in ("float64", "float32"):
        mg.manual_seed(0)
        model = CausalTransformer(dataclasses.replace(config, dtype="float32")).to(dtype)
        model(mg.tensor(tokens), mg.tensor(wanted))[1].backward()
        gradients.append({name: parameter.grad.numpy() for name, parameter in model.named_parameters()})
    exact, rounded = gradients
    for name in exact:
        assert np.abs(rounded[name] - exact[name]).max() < 1e-4 * np.abs(exact[name]).max(), name


# ---- configs ----

def test_bad_configs():
    small = TransformerConfig(vocabulary_size=11, context=8, layers=2, heads=2, width=16)
    all_refused(lambda fields: dataclasses.replace(small, **fields), [
        (dict(width=0), "width must be a whole number from 1 to 1000000000, got 0"),
        (dict(layers=100_000), "layers must be a whole number from 0 to 10000, got 100000"),
        (dict(context=2.5), "context must be a whole number"),
        (dict(heads=True), "heads must be a whole number"),
        (dict(vocabulary_size=10 ** 10), "vocabulary_size must be a whole number"),
        (dict(width=float("nan")), "width must be a whole number"),
        (dict(heads=3, width=16), "heads must divide width, got heads 3 and width 16; change one of them"),
        (dict(dropout=1.0), "dropout must be at least 0 and less than 1, got 1.0"),
        (dict(dropout=float("nan")), "dropout must be"),
        (dict(dropout="a"), "dropout must be"),
        (dict(bias=1), "bias must be True or False, got 1"),
        (dict(positions="rotary", heads=16), "positions 'rotary' rotates pairs of features, so width / heads (or head_size, if given) must be even"),
        (dict(positions="cosine"), "positions must be one of learned, none, sinusoidal"),
        (dict(placement="last"), "placement must be one of pre, post, residual"),
        (dict(activation="elu"), "activation must be one of gelu, gelu_tanh, relu"),
        (dict(positions="rotary", head_size=3), "must be even, got 3"),
        (dict(norm="batch_norm"), "norm must be one of layer_norm, rms_norm, got 'batch_norm'"),
        (dict(norm_eps=0.0), "norm_eps must be more than 0 and less than 1, got 0.0"),
        (dict(key_value_heads=0), "key_value_heads must be a whole number from 1"),
        (dict(heads=4, key_value_heads=3), "key_value_heads must divide heads, got 3 and 4; change one of them"),
        (dict(head_size=0), "head_size must be a whole number from 1"),
        (dict(hidden_width=2.5), "hidden_width must be a whole number from 1"),
        (dict(tied=None), "tied must be True or False, got None"),
        (dict(rotary_base=5.0), "rotary_base needs positions 'rotary', got positions 'learned'; leave rotary_base out"),
        (dict(rotary_scaling="linear:2"), "rotary_scaling needs positions 'rotary', got positions 'learned'"),
        (dict(positions="rotary", rotary_base=0.0), "rotary_base must be more than 0 and less than 1e+12, got 0.0"),
        (dict(positions="rotary", rotary_scaling="yarn:4"), "rotary_scaling must be 'none', 'linear:FACTOR' or 'llama3:"),
        (dict(dtype="float16"), "dtype must be one of float32, float64, got 'float16'"),
    ])


def test_presets():
    table = {name: (p.config.layers, p.config.heads, p.config.width, p.config.context, p.batch_size)
             for name, p in PRESETS.items()}
    assert table == {"micro": (2, 2, 32, 32, 4), "nano": (4, 4, 128, 64, 12), "small": (4, 4, 256, 128, 16),
                     "long": (2, 4, 128, 1024, 2), "baby": (6, 6, 384, 256, 16)}
