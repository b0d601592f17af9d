"""Every model against its formulas: that all its parts are there, in their order, for each choice of its config."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import naive
import naive_models
import nn.functional as F
from minigrad import ops
from minigrad.runner import Observer
from models import CausalTransformer, TransformerConfig
from models.encoder_decoder import PAD, START, Classifier, EncoderDecoder
from models.recurrent import RecurrentSeq2Seq
from models.architectures import CausalSeq2Seq
from models.transformer import ATTENTION_POSITIONS, ENDLESS_POSITIONS, PLACEMENTS, TABLE_POSITIONS

CONFIG = TransformerConfig(vocabulary_size=9, context=10, layers=2, heads=2, width=4, dtype="float64")
LLAMA = dict(norm="rms_norm", norm_eps=0.1, activation="swiglu", hidden_width=7, positions="rotary", rotary_base=50.0,
             heads=4, key_value_heads=2, head_size=2, bias=False)
VARIANTS = (
    [dict(placement=placement) for placement in PLACEMENTS]
    + [dict(positions=positions) for positions in TABLE_POSITIONS + ATTENTION_POSITIONS]
    + [dict(activation=activation) for activation in F.ACTIVATIONS]
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
OF_VECTORS = [name for name in MODELS if "vector" in name]
FIELDS_OF_RNNS = {"vocabulary_size", "width", "dtype"}
REFUSED = {  # by models that would not look at them; see test_fields_that_make_no_sense
    "rnn": {"norm", "norm_eps", "key_value_heads", "head_size", "hidden_width", "tied", "rotary_base", "rotary_scaling"},
    "classifier": {"tied"},
    "classifier without attention": {"key_value_heads", "head_size", "rotary_base", "rotary_scaling"},
}


def refused(name):
    return set().union(*(fields for start, fields in REFUSED.items() if name.startswith(start)))


def takes(name, fields):
    """Recurrent networks leave most of the config alone."""
    return not set(fields) & refused(name) and (not name.startswith("rnn") or set(fields) <= FIELDS_OF_RNNS)


CASES = [pytest.param(name, changes, id="-".join([name, *(f"{field}={value}" for field, value in changes.items())]))
         for name in MODELS for changes in VARIANTS if takes(name, changes)]


def vectors(config):
    """What turns token ids into vectors, for a model that takes those."""
    return lambda tokens: mg.tensor(np.cos(np.arange(config.width) * (1.0 + tokens.numpy()[..., None])), dtype=config.dtype)


def make(name, **changes):
    """With parameters that are not small, so that each counts."""
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
    """What the model is called with: a source, and what has been said."""
    source, inputs = map(mg.tensor, source_and_inputs())
    return (source,) if name == "causal" or "classifier" in name else (source, inputs)


def logits_of(model, name):
    return model(*arguments(name))[0].detach().numpy()


def reference(model, name):
    """Logits from the formulas."""
    p, config, (source, inputs) = naive_models.Parameters.of(model), model.config, source_and_inputs()
    if name == "causal":
        return naive_models.causal(p, config, source)
    if name == "causal translator":
        return naive_models.causal(p.below("model"), config, np.hstack([source, inputs]))[:, source.shape[1]:]
    if name == "encoder-decoder":
        return naive_models.encoder_decoder(p, config, source, inputs)[0]
    if "classifier" in name:
        tokens = model.make_tokens(mg.tensor(source)).numpy() if name in OF_VECTORS else source
        return naive_models.classifier(p, config, tokens, "last" if "last" in name else "mean")
    return naive_models.recurrent(p, source, inputs, attends=name == "rnn-attention")[0]


@pytest.mark.parametrize("name, changes", CASES)
def test_a_model_is_its_formulas(name, changes):
    model = make(name, **changes)
    np.testing.assert_allclose(logits_of(model, name), reference(model, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["encoder-decoder", "rnn-attention"])
def test_an_attention_map_is_the_last_layers(name):
    model, (source, inputs) = make(name), source_and_inputs()
    p = naive_models.Parameters.of(model)
    expected = (naive_models.encoder_decoder(p, model.config, source, inputs) if name == "encoder-decoder" else
                naive_models.recurrent(p, source, inputs, attends=True))[1]
    np.testing.assert_allclose(model.attention_map(mg.tensor(source), mg.tensor(inputs)), expected, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_counts(name):
    """Also those that the formulas may have forgotten: each gets a gradient."""
    model = make(name)
    logits = model(*arguments(name))[0]
    logits.backward(mg.tensor(np.random.default_rng(2).standard_normal(logits.shape)))
    without = {key for key, p in model.named_parameters() if p.grad is None or not p.grad.numpy().any()}
    assert without == ({"encoder.token_embedding.weight"} if name in OF_VECTORS else set())


OTHER = dict(vocabulary_size=11, context=12, layers=1, heads=1, width=8, dropout=0.5, bias=False, dtype="float32",
             placement="post", final_norm=False, activation="relu", mlp_ratio=2, positions="sinusoidal", norm="rms_norm",
             norm_eps=0.1, key_value_heads=1, head_size=4, hidden_width=7, tied=False, rotary_base=7.0,
             rotary_scaling="linear:2")
FIELDS_OF_SHAPES = {"vocabulary_size", "context", "layers", "width", "bias", "dtype", "final_norm", "mlp_ratio",
                    "positions", "norm", "key_value_heads", "head_size", "hidden_width", "tied"}


@pytest.mark.parametrize("name, field", [(name, field) for name in MODELS for field in OTHER if takes(name, [field])
                                         and (name, field) != ("classifier without attention", "heads")])
def test_every_field_of_the_config_counts(name, field):
    """For which parameters there are, their shapes and dtypes; or for what comes out while training."""
    assert OTHER.keys() == {field.name for field in dataclasses.fields(TransformerConfig)}

    def described(**changes):
        model = make(name, **changes).train()
        mg.manual_seed(0)  # of dropout
        return {key: (p.shape, p.dtype) for key, p in model.named_parameters()}, logits_of(model, name)

    others = dict(positions="rotary", width=8) if field.startswith("rotary") else {}  # else the field is refused, or idle
    (parameters, logits), (other_parameters, other_logits) = described(**others), described(**others, **{field: OTHER[field]})
    if field in FIELDS_OF_SHAPES:
        assert parameters != other_parameters
    else:
        assert (other_logits != logits).any()


@pytest.mark.parametrize("name, field", [(name, field) for name in MODELS for field in sorted(refused(name))])
def test_fields_that_make_no_sense(name, field):
    """What a model would not look at is refused, by name."""
    others = dict(positions="rotary") if field.startswith("rotary") else {}
    with pytest.raises(ValueError, match=f"^{field} makes no sense for .*, got {OTHER[field]!r}; leave {field} out$"):
        make(name, **others, **{field: OTHER[field]})


@pytest.mark.parametrize("changes", [dict(positions=positions) for positions in ENDLESS_POSITIONS] + [LLAMA], ids=str)
def test_past_the_context_each_token_sees_the_last_ones(changes):
    """The longest text is longer than all blocks together reach: what a token sees depends on how far it is."""
    model = make("causal", context=3, **changes)
    tokens = np.random.default_rng(1).integers(CONFIG.vocabulary_size, size=(2, 9))
    expected = naive_models.causal(naive_models.Parameters.of(model), model.config, tokens)
    for T in (3, 4, 9):
        np.testing.assert_allclose(model(mg.tensor(tokens[:, :T]))[0].detach().numpy(), expected[:, :T], atol=1e-9)


class Dropped(Observer):
    """The shapes of all that is dropped with probability 0.25, weights of attention among them."""

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


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative"])
@pytest.mark.parametrize("name, expected", [
    ("causal", [(B, S, C), *[(B, H, S, S), (B, S, C), (B, S, C)] * 2]),
    ("encoder-decoder", [(B, S, C), *[(B, H, S, S), (B, S, C), (B, S, C)] * 2,
                         (B, T, C), *[(B, H, T, T), (B, T, C), (B, H, T, S), (B, T, C), (B, T, C)] * 2]),
    ("classifier without attention", [(B, S, C), *[(B, S, C)] * 2]),
])
def test_where_dropout_is(name, positions, expected):
    """After the embedding, on the weights of attention, and on what each sublayer adds; while training."""
    model = make(name, dropout=0.25, positions=positions)
    assert dropped(model, arguments(name)) == []
    assert dropped(model.train(), arguments(name)) == expected


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_dropout_is_in_every_placement(placement):
    assert len(dropped(make("causal", dropout=0.25, placement=placement).train(), arguments("causal"))) == 1 + 2 * 3


@pytest.mark.parametrize("name, std", [("causal", 0.02), ("causal translator", 0.125), ("encoder-decoder", 0.125),
                                       ("classifier", 0.125)])
@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_initial_parameters(name, std, positions):
    """Matrices are normal; those whose output is added to the residual stream are smaller, by sqrt(2 L)."""
    mg.manual_seed(0)
    model = MODELS[name](dataclasses.replace(CONFIG, vocabulary_size=40, width=64, layers=8, positions=positions))
    for parameter_name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if parameter.ndim == 2:
            adds = parameter_name.endswith(("attention.out_proj.weight", "attention.out.weight", "mlp.project.weight"))
            assert values.std() == pytest.approx(std / 4 if adds else std, rel=3 / parameter.numel() ** 0.5), parameter_name
        else:
            assert (values == float(parameter_name.endswith("weight"))).all(), parameter_name


@pytest.mark.parametrize("name", ["encoder-decoder", "classifier"])
@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_padding_at_the_end_changes_nothing(name, positions):
    model, (source, inputs) = make(name, positions=positions), source_and_inputs()
    rest = () if name == "classifier" else (mg.tensor(inputs),)
    longer = np.pad(source, ((0, 0), (0, 3)), constant_values=PAD)
    np.testing.assert_allclose(model(mg.tensor(longer), *rest)[0].detach().numpy(),
                               model(mg.tensor(source), *rest)[0].detach().numpy(), atol=1e-12)


def test_a_classifier_learns_from_its_labels():
    model, labels = make("classifier"), np.array([0, 2, 1])
    logits, loss = model(*arguments("classifier"), mg.tensor(labels))
    log_p = naive.log_softmax(logits.detach().numpy(), 1)
    assert loss.item() == pytest.approx(-log_p[np.arange(3), labels].mean())


@pytest.mark.parametrize("positions", ["learned", "relative"])
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("rnn")])
def test_no_part_has_a_bias_if_none_is_wanted(name, positions):
    state = make(name, positions=positions, bias=False).state_dict()
    biases = {key for key in state if key.endswith((".bias", "proj_bias"))}
    assert biases == ({"head.bias"} if "classifier" in name else set())


def test_relative_positions_reach_through_the_context():
    shapes = {p.shape for name, p in make("encoder-decoder", positions="relative").named_parameters() if "relative" in name}
    assert shapes == {(CONFIG.heads, 2 * CONFIG.context + 1)}


@pytest.mark.parametrize("name", MODELS)
def test_parts_are_not_shared(name):
    """But for the read-out, which is the embedding, each part has parameters of its own."""
    model = make(name)
    assert list(model.named_modules()) == list(model.named_modules(remove_duplicate=False))
    assert len(list(model.parameters())) == len(model.state_dict())
