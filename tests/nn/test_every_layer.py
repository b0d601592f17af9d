"""What holds for every layer: dtypes stay, states round-trip, gradients are right, and compiling changes no bit."""
import ast
import functools
import inspect
from dataclasses import KW_ONLY

import numpy as np
import pytest

import minigrad as mg
import nn
from layers import ROWS
from layouts import LAYOUTS
from nn.function_module import FunctionModule
from nn.module import Module
from special_values import assert_right, special_inputs
from tables import each

LOGITS, FRACTIONS, IDS, TOKENS, IMAGES = "logits", "fractions", "ids", "tokens", "images"  # kinds of inputs
LAYERS = {  # name: (constructor, the kinds of its inputs)
    **{name: (getattr(nn, name), [LOGITS]) for name in (
        "GELU", "LeakyReLU", "ReLU", "SiLU", "Sigmoid", "Softplus", "Tanh", "Dropout", "Flatten",
    )},
    **{name: (functools.partial(getattr(nn, name), dim=-1), [LOGITS]) for name in ("LogSoftmax", "Softmax")},
    **{name: (getattr(nn, name), [LOGITS, FRACTIONS]) for name in ("BCEWithLogitsLoss", "L1Loss", "MSELoss")},
    "BCELoss": (nn.BCELoss, [FRACTIONS, FRACTIONS]),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(mg.rand(6)), [LOGITS, IDS]),
    "NLLLoss": (lambda: nn.NLLLoss(mg.rand(6), ignore_index=2), [LOGITS, IDS]),
    "Embedding": (lambda: nn.Embedding(6, 3, padding_idx=2), [IDS]),
    "Linear": (lambda: nn.Linear(6, 3), [LOGITS]),
    "LayerNorm": (lambda: nn.LayerNorm(6), [LOGITS]),
    "RMSNorm": (lambda: nn.RMSNorm(6), [LOGITS]),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(6, 2), [TOKENS]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(6, 2, dropout=0.2), [TOKENS] * 3),
    "AdditiveAttention": (lambda: nn.AdditiveAttention(6, 6, 5), [TOKENS, TOKENS]),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(6, 2, 8), [TOKENS]),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(6, 2, 8), [TOKENS, TOKENS]),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8), 2), [TOKENS]),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 8), 2), [TOKENS, TOKENS]),
    "Transformer": (lambda: nn.Transformer(6, 2, 1, 1, 8), [TOKENS, TOKENS]),
    "PositionEncoding": (lambda: nn.PositionEncoding("learned", 6, 9), [TOKENS]),
    "RNN": (lambda: nn.RNN(6, 3), [TOKENS]),
    "GRU": (lambda: nn.GRU(6, 3), [TOKENS]),
    "LSTM": (lambda: nn.LSTM(6, 3), [TOKENS]),
    "PatchEmbedding": (lambda: nn.PatchEmbedding(2, 2, 3), [IMAGES]),
}
every_layer = pytest.mark.parametrize("make, kinds", LAYERS.values(), ids=LAYERS)
CONTAINERS = {"Identity", "Module", "ModuleDict", "ModuleList", "Sequential"}


def test_every_layer_has_a_row():
    layers = {name for name, value in vars(nn).items() if inspect.isclass(value) and issubclass(value, Module)}
    assert layers - CONTAINERS == set(LAYERS)


@pytest.mark.parametrize("module", [nn, nn.functional, nn.optim, nn.utils], ids=lambda module: module.__name__)
def test_every_name_is_exported(module):
    names = {name for name in vars(module) if not name.startswith("_")}
    below = {name for name in names if inspect.ismodule(vars(module)[name])}  # files, and parts such as nn.functional
    assert names - below <= set(module.__all__) <= names


OF_FUNCTIONS = [name for name in LAYERS if issubclass(getattr(nn, name), FunctionModule)]


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_the_options_that_a_class_declares_are_those_of_its_function(name):
    layer, declared = getattr(nn, name), {}
    for parent in layer.__mro__[layer.__mro__.index(FunctionModule) - 1::-1]:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for option, annotation in inspect.get_annotations(parent).items():
            if annotation is KW_ONLY:
                kind = inspect.Parameter.KEYWORD_ONLY
            else:
                default = getattr(layer, option, inspect.Parameter.empty)
                declared[option] = inspect.Parameter(option, kind, default=default, annotation=annotation)
    assert inspect.Signature(sorted(declared.values(), key=lambda p: p.kind)) == layer.__signature__


@pytest.mark.parametrize("name", [name for name in OF_FUNCTIONS if getattr(nn, name).function.__doc__])
def test_a_class_has_its_functions_docstring_and_the_first_line_in_its_file_too(name):
    layer = getattr(nn, name)
    written = ast.get_docstring(ast.parse(inspect.getsource(layer)).body[0])
    assert layer.__doc__ == layer.function.__doc__
    assert written == inspect.cleandoc(layer.__doc__).split("\n")[0]


def inputs_of(kinds, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    arrays = {LOGITS: lambda: rng.normal(size=(4, 6)).astype(dtype), IDS: lambda: rng.integers(0, 6, 4),
              FRACTIONS: lambda: rng.uniform(0.1, 0.9, (4, 6)).astype(dtype),
              TOKENS: lambda: rng.normal(size=(2, 4, 6)).astype(dtype),
              IMAGES: lambda: rng.normal(size=(2, 2, 4, 6)).astype(dtype)}
    return [mg.tensor(arrays[kind]()) for kind in kinds]


def first(output):
    return output[0] if isinstance(output, tuple) else output


def step_of(layer, optimizer, scale):
    """Forward, backward, also to a parameter in front of the layer, and an update: the output."""
    def step(*inputs):
        optimizer.zero_grad()
        y = first(layer(*(x * scale if x.dtype.kind == "f" else x for x in inputs)))
        (y * y * y).sum().backward()
        optimizer.step()
        return y.detach()

    return step


@every_layer
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_stays_and_compiling_changes_no_bit(make, kinds, dtype):
    histories = []
    for compiled in (False, True):
        mg.manual_seed(0)
        layer = make().to(dtype)
        scale = nn.Parameter(mg.ones(1, dtype=dtype))
        optimizer = nn.optim.AdamW([scale, *layer.parameters()], lr=1e-2, amsgrad=True)
        step = step_of(layer, optimizer, scale)
        step = mg.compile(step) if compiled else step
        mg.manual_seed(1)  # of dropout
        outputs = [step(*inputs_of(kinds, seed, dtype)).numpy() for seed in range(3)]
        parameters = [scale, *layer.parameters()]
        histories.append(outputs + [p.array for p in parameters] + [p.grad.array for p in parameters if p.grad is not None])
    for plain, replayed in zip(*histories, strict=True):
        assert plain.dtype == dtype
        np.testing.assert_array_equal(plain, replayed)


@every_layer
def test_states_round_trip_only_training_is_random_and_gradients_are_differences(make, kinds):
    layer, inputs = make(), inputs_of(kinds, 0)
    once, twice = (first(layer(*inputs)).detach().numpy() for _ in range(2))
    is_random = any(isinstance(module, nn.Dropout) or getattr(module, "dropout", 0.0) != 0.0 for module in layer.modules())
    assert np.array_equal(once, twice) != is_random
    one, other = layer.eval(), make().eval()
    for tensor in [*one.parameters(), *one.buffers()]:
        nn.init.uniform_(tensor, 0.5, 1.5)
    other.load_state_dict({name: value.numpy() for name, value in one.state_dict().items()})
    results = [first(each(*inputs)).array for each in (one, one, other)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    inputs = [x.requires_grad_(x.dtype.kind == "f") for x in inputs_of(kinds, 0, np.float64)]
    report = mg.gradcheck_module(layer.double(), inputs, progress=False, fast_mode=True, directions=1)
    leaves = [*layer.parameters(), *(x for x in inputs if x.requires_grad)]
    assert report.verdict == "pass" and len(report.inputs) == len(leaves)


def test_every_layer_of_several_ops_has_its_formula():
    for name in {"Embedding"} ^ LAYERS.keys() - {name.split(",")[0] for name in ROWS}:
        make, kinds = LAYERS[name]
        out = first(make().eval()(*(x.requires_grad_(x.dtype.kind == "f") for x in inputs_of(kinds, 0))))
        assert out.is_leaf or all(parent is None or parent.is_leaf for parent in out.node.parents), name


TOO_LARGE, OF_OUTPUT = "scores overflow", "the gradient is computed from the output, and 1 - out is rounded"
LEFT_AS_THEY_ARE = {  # (a row or its layer, special values): why they lose digits
    ("attention_weights", "1e25"): TOO_LARGE, ("scaled_dot_product_attention", "1e25"): TOO_LARGE,
    ("MultiHeadAttention", "1e25"): TOO_LARGE, ("MultiheadAttention", "1e25"): TOO_LARGE,
    ("TransformerDecoderLayer", "1e25"): TOO_LARGE, ("TransformerEncoder", "1e25"): TOO_LARGE,
    ("TransformerDecoder", "1e25"): TOO_LARGE, ("Transformer", "1e25"): TOO_LARGE,
    ("AdditiveAttention", "near 1000"): OF_OUTPUT, ("GRU", "near 1000"): OF_OUTPUT,
    ("LSTM", "near 1000"): OF_OUTPUT,
    ("TransformerEncoder", "1e10"): "rounded scores of 1e10 decide which key is seen",
    ("TransformerEncoderLayer", "near 1000"): "the sum with a sublayer is rounded before its mean is subtracted",
    **{(layer, "times 10"): OF_OUTPUT for layer in ("AdditiveAttention", "RNN", "GRU", "LSTM")},
}


def special_values(share):
    def check(name, row):
        function, formula, inputs, others = row
        arrays = [special for dtype in (np.float32, np.float64) for special in special_inputs(list(inputs), dtype)]
        for number, (values, special) in enumerate(arrays, list(ROWS).index(name)):
            what = values.split(",")[0]
            if number % share or (name, what) in LEFT_AS_THEY_ARE or (name.split(",")[0], what) in LEFT_AS_THEY_ARE:
                continue
            try:
                assert_right(function, formula, special + [x.astype(special[0].dtype) for x in others],
                             [*LAYOUTS.values()][number % len(LAYOUTS)], is_product=True)
            except AssertionError as error:
                error.add_note(values)
                raise

    def test():
        """Values and gradients, each way of computing them, in changing layouts, against arithmetic of many digits."""
        each(ROWS, check)

    return test


test_some_special_values = pytest.mark.short(special_values(40))
test_all_special_values = pytest.mark.long(special_values(1))
