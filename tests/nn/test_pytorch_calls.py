"""The same source here and in PyTorch: it computes the same in both, and arguments and defaults are the same."""
import inspect

import numpy as np
import pytest

from oracle import mg, torch

import nn

rng = np.random.default_rng(0)
T, B, S, C = 5, 3, 4, 8  # all different, so that a confused layout is an error
ARRAYS = {
    "x": rng.normal(size=(T, B, C)), "y": rng.normal(size=(S, B, C)), "narrow": rng.normal(size=(S, B, 6)),
    "row": rng.normal(size=(T, C)), "other": rng.normal(size=(S, C)), "h": rng.normal(size=(4, B, C)),
    "h_row": rng.normal(size=(1, C)), "p": rng.uniform(0.1, 0.9, (T, C)), "q": rng.uniform(0.1, 0.9, (T, C)),
}
CONSTANTS = {
    "ids": rng.integers(0, C, T), "causal": np.triu(np.ones((T, T), bool), 1), "hidden": np.eye(T, S, dtype=bool),
    "by_head": np.stack([np.eye(T, S, k, dtype=bool) for k in (0, 1, 2, 3, 0, -1)]), "added": rng.normal(size=(T, S)),
    "padding": np.array([[False] * 3 + [True], [False] * 4, [True] + [False] * 3]),
    "square_by_head": np.stack([np.eye(T, k=k, dtype=bool) for k in (0, 1, 2, 3, -1, -2)]),
    "added_by_head": rng.normal(size=(6, T, S)), "float_padding": rng.normal(size=(B, S)),
}


def run(source, call, library, names, state):
    """{name: array} of the values of `call`, of the gradients for random upstreams, and of the parameters."""
    tensors = {name: library.tensor(array, requires_grad=True) for name, array in ARRAYS.items()}
    constants = {name: library.tensor(array) for name, array in CONSTANTS.items()}
    scope = {"torch": library, "nn": names, "F": names.functional, **tensors, **constants}
    layer = eval(source, scope)
    parameters = {}
    if isinstance(layer, names.Module):
        if state is None:
            for parameter in layer.double().parameters():
                names.init.normal_(parameter, std=0.5)
        else:
            layer.double().load_state_dict({name: library.tensor(value) for name, value in state.items()})
        parameters = dict(layer.named_parameters())
    results = eval(call, {**scope, "layer": layer})
    results = {f"result {i}": result for i, result in enumerate(results if isinstance(results, tuple) else (results,))}
    upstream = np.random.default_rng(1)
    total = 0.0
    for result in results.values():
        if result is not None:
            total = total + (result * library.tensor(upstream.normal(size=tuple(result.shape)))).sum()
    total.backward()
    found = {**results, **{f"gradient of {name}": t.grad for name, t in {**tensors, **parameters}.items()}}
    state = {name: value.detach().numpy() for name, value in layer.state_dict().items()} if parameters else None
    return {name: None if value is None else value.detach().numpy() for name, value in found.items()}, state


def assert_same(source, call="layer"):
    torch.manual_seed(0)
    theirs, state = run(source, call, torch, torch.nn, None)
    ours, saved = run(source, call, mg, nn, state)
    assert ours.keys() == theirs.keys() and (state or {}).keys() == (saved or {}).keys()
    for name, wanted in theirs.items():
        if wanted is None:
            assert ours[name] is None, name
        else:
            np.testing.assert_allclose(ours[name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)


ATTENTION, RNN = "nn.MultiheadAttention(8, 2)", "nn.RNN(8, 8)"
ENCODER, DECODER = "nn.TransformerEncoderLayer(8, 2, 9, 0.0)", "nn.TransformerDecoderLayer(8, 2, 9, 0.0)"
TRANSFORMER, WEIGHT = "nn.Transformer(8, 2, 1, 2, 9, 0.0)", "weight=other[0].detach().exp()"
CALLS = [  # (layer, call)
    (ATTENTION, "layer(x, x, x)"),
    (ATTENTION, "layer(x, y, y)"),
    (ATTENTION, "layer(x, y, y * 2)"),
    (ATTENTION, "layer(x, y, y)[0]"),
    (ATTENTION, "layer(x, x, x, None, False)"),
    (ATTENTION, "layer(x, x, x, average_attn_weights=False)"),
    (ATTENTION, "layer(row, row, row)"),
    (ATTENTION, "layer(row, other, other, average_attn_weights=False)"),
    (ATTENTION, "layer(row, other, other, padding[0], attn_mask=by_head[:2])"),
    (ATTENTION, "layer(x, y, y, padding, True, hidden)"),
    (ATTENTION, "layer(x, y, y, attn_mask=by_head, need_weights=False)"),
    (ATTENTION, "layer(x, y, y, attn_mask=added)"),
    (ATTENTION, "layer(x, y, y, float_padding, attn_mask=added_by_head)"),
    (ATTENTION, "layer(x, y, y, float_padding, attn_mask=added.masked_fill(hidden, -float('inf')))"),
    (ATTENTION, "layer(x, x, x, attn_mask=causal, is_causal=True)"),
    (ATTENTION, "layer(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)"),
    ("nn.MultiheadAttention(8, 2, batch_first=True)", "layer(x, x, x)"),
    ("nn.MultiheadAttention(8, 2, batch_first=True)", "layer(x, x, x, need_weights=False)[0]"),
    ("nn.MultiheadAttention(8, 2, batch_first=True)", "layer(row, row, row, attn_mask=causal)"),
    ("nn.MultiheadAttention(8, 2, 0.0, False, False, False, 6, 6, True)",
     "layer(x.transpose(0, 1), narrow.transpose(0, 1), narrow.transpose(0, 1), padding)"),
    ("nn.MultiheadAttention(8, 2, bias=False)", "layer(x, x, x)"),
    ("nn.MultiheadAttention(8, 2, kdim=6)", "layer(x, narrow, y, padding, attn_mask=by_head)"),
    (RNN, "layer(x)"),
    (RNN, "layer(row)"),
    (RNN, "layer(row, h_row)"),
    ("nn.RNN(8, 8, 2, bidirectional=True)", "layer(x, h)"),
    ("nn.RNN(8, 8, 2, 'relu', False, True, 0.0, True)", "layer(x.transpose(0, 1), h)"),
    ("nn.RNN(8, 8, 2, 'tanh', True, True)", "layer(row)"),
    ("nn.RNN(8, 8, 2, bias=False)", "layer(x)"),
    ("nn.GRU(8, 8)", "layer(x)"),
    ("nn.GRU(8, 8)", "layer(row, h_row)"),
    ("nn.GRU(8, 8, 2, False, True, 0.0, True)", "layer(x.transpose(0, 1), h)"),
    ("nn.LSTM(8, 8)", "(lambda states, last: (states, *last))(*layer(x))"),
    ("nn.LSTM(8, 8)", "(lambda states, last: (states, *last))(*layer(row, (h_row, 2 * h_row)))"),
    ("nn.LSTM(8, 8, 2, bidirectional=True)", "(lambda states, last: (states, *last))(*layer(x, (h, h * h)))"),
    ("nn.LSTM(8, 8, 2, False, True, 0.0, True)", "(lambda states, last: (states, *last))(*layer(x.transpose(0, 1), (h, -h)))"),
    (ENCODER, "layer(x)"),
    (ENCODER, "layer(x, causal, is_causal=True)"),
    (ENCODER, "layer(y, None, padding)"),
    (ENCODER, "layer(row, causal)"),
    ("nn.TransformerEncoderLayer(8, 2, 9, 0.0, 'gelu', 1e-3, True, True)", "layer(x.transpose(0, 1), causal)"),
    ("nn.TransformerEncoderLayer(8, 2, 9, 0.0, bias=False)", "layer(x)"),
    ("nn.TransformerEncoderLayer(8, 2, 9, 0.0, F.silu)", "layer(x)"),
    ("nn.TransformerDecoderLayer(8, 2, 9, 0.0, nn.SiLU())", "layer(x, y)"),
    (ENCODER, "layer(x, square_by_head)"),
    (ENCODER, "layer(x, x[:, 0, :5].detach())"),
    ("nn.TransformerDecoderLayer(8, 2, 9, 0.0, 'gelu', 0.5, norm_first=True)", "layer(x, y)"),
    ("nn.TransformerDecoderLayer(8, 2, 9, 0.0, bias=False)",
     "layer(y, x, memory_mask=hidden.T, tgt_key_padding_mask=padding)"),
    (DECODER, "layer(x, y)"),
    (DECODER, "layer(x, y, causal, None, None, padding, True)"),
    (DECODER, "layer(row, other, memory_mask=hidden)"),
    (f"nn.TransformerEncoder({ENCODER}, 2, nn.LayerNorm(8))", "layer(x, causal)"),
    (f"nn.TransformerEncoder({ENCODER}, 2)", "layer(x, causal, is_causal=True)"),
    (f"nn.TransformerDecoder({DECODER}, 2, nn.LayerNorm(8))", "layer(x, y)"),
    (f"nn.TransformerDecoder({DECODER}, 2)", "layer(x, y, causal, memory_key_padding_mask=padding)"),
    (TRANSFORMER, "layer(x, y)"),
    (TRANSFORMER, "layer(x, y, causal, None, hidden.T, tgt_key_padding_mask=padding, src_is_causal=True)"),
    (TRANSFORMER, "layer(y, x, None, causal, hidden, padding, memory_key_padding_mask=padding, tgt_is_causal=True)"),
    ("nn.Transformer(8, 2, 2, 1, 9, 0.0, 'gelu', None, None, 0.5, True, True, False)",
     "layer(x.transpose(0, 1), y.transpose(0, 1))"),
    (f"nn.Transformer(8, 2, 1, 1, 9, 0.0, custom_decoder=nn.TransformerDecoder({DECODER}, 1))", "layer(x, y)"),
    (TRANSFORMER, "layer(x, x, tgt_mask=layer.generate_square_subsequent_mask(len(x)).double(), tgt_is_causal=True)"),
    ("nn.Sequential(nn.Linear(8, 4), nn.ReLU(True), nn.LayerNorm(4), nn.Softmax(1))", "layer(x)"),
    *[(source, "layer(x)") for source in (
        "nn.Linear(8, 4)", "nn.Linear(8, 4, bias=False)", "nn.LayerNorm(8)", "nn.LayerNorm(8, bias=False)", "nn.RMSNorm(8)",
        "nn.LayerNorm((3, 8), eps=1e-2)", "nn.LayerNorm([8], elementwise_affine=False)", "nn.RMSNorm((3, 8), eps=0.5)",
        "nn.RMSNorm([8], elementwise_affine=False)", "nn.Flatten()", "nn.Flatten(0, 1)", "nn.Flatten(end_dim=-2)", "nn.Flatten(-2)",
        "nn.Identity()", "nn.LogSoftmax(dim=0)", "nn.Softmax(-1)", "nn.GELU()", "nn.Sigmoid()",
        "nn.GELU(approximate='tanh')", "nn.LeakyReLU()", "nn.LeakyReLU(0.5)", "nn.SiLU()", "nn.Softplus()",
        "nn.Softplus(beta=2.0, threshold=1.0)", "nn.Dropout(0.5).eval()")],
    ("nn.Sequential(nn.Flatten(), nn.Tanh())", "layer(x)"),
    *[(f"nn.{name}({options}reduction='{reduction}')", f"layer({inputs})") for reduction in ("mean", "sum", "none")
      for name, options, inputs in (
          ("MSELoss", "", "p, q"), ("L1Loss", "", "p, q"), ("NLLLoss", "", "row.log_softmax(1), ids"), ("BCELoss", "", "p, q.detach()"),
          ("NLLLoss", f"{WEIGHT}, ignore_index=2, ", "row.log_softmax(1), ids"), ("BCELoss", f"{WEIGHT}, ", "p, q.detach()"),
          ("BCEWithLogitsLoss", "", "row, q.detach()"), ("BCEWithLogitsLoss", f"{WEIGHT}, pos_{WEIGHT}, ", "row, q.detach()"),
          ("CrossEntropyLoss", "", "row, ids"), ("CrossEntropyLoss", f"{WEIGHT}, ignore_index=2, label_smoothing=0.3, ", "row, ids"),
          ("CrossEntropyLoss", "", "row, p.detach()"), ("CrossEntropyLoss", f"{WEIGHT}, label_smoothing=0.3, ", "row, p.detach()"))],
]
FUNCTIONS = [  # the others are in tests/minigrad/test_pytorch_samples.py
    "F.relu(x * 2, True)", "F.scaled_dot_product_attention(torch.cat([x, x, x[:2]]), x[:4], y, enable_gqa=True)",
    "nn.utils.rnn.pad_sequence([x, y, x[:1]])", "nn.utils.rnn.pad_sequence([row[0], row[1, :3]], True, -1.5, 'left')",
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:reduction. 'mean' divides the total loss")  # PyTorch's
@pytest.mark.parametrize("source, call", CALLS, ids=[f"{source} {call}" for source, call in CALLS])
def test_a_layer_is_called_like_pytorchs_and_computes_the_same(source, call):
    assert_same(source, call)


@pytest.mark.parametrize("source", FUNCTIONS)
def test_a_function_is_called_like_pytorchs_and_computes_the_same(source):
    assert_same(source)


REFUSED = {  # what runs in PyTorch, and the error here, where the result would be another
    "nn.Softmax()(x)": "missing a required argument: 'dim'",  # PyTorch takes axis 0 or 1, and warns
    "nn.LogSoftmax()(x)": "missing a required argument: 'dim'",
    "F.softmax(x)": "missing 1 required positional argument: 'dim'",
    "F.mse_loss(p, q, False)": "takes 2 positional arguments but 3 were given",  # it is size_average there
    "F.l1_loss(p, q, False)": "takes 2 positional arguments but 3 were given",
    "F.kl_div(p, q, False)": "takes 2 positional arguments but 3 were given",
    "F.cross_entropy(p, ids, None, None, 2)": "positional arguments",
    "F.nll_loss(p, ids, None, None, 2)": "positional arguments",
    "F.binary_cross_entropy(p, q.detach(), None, False)": "positional arguments",
    "F.binary_cross_entropy_with_logits(p, q, None, False)": "positional arguments",
    "nn.MSELoss(False)(p, q)": "positional argument",
    "nn.utils.rnn.pad_sequence([ids, p[0].detach()])": "pad_sequence: expected one dtype",  # PyTorch rounds to the first one's
    "nn.MultiheadAttention(8, 2, add_zero_attn=True).double()(x, x, x)[0]": "left out",
    "nn.MultiheadAttention(8, 2).double()(x, x, x, attn_mask=~causal, is_causal=True)[0]": "attn_mask is another",
    "nn.TransformerEncoderLayer(8, 2, batch_first=True).double().eval().requires_grad_(False)(x.detach(), is_causal=True)":
        "Need attn_mask",  # PyTorch says so only if gradients are needed, and otherwise ignores the hint
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", REFUSED)
def test_what_would_differ_is_refused(source):
    tensors = {**ARRAYS, **CONSTANTS}
    scope = {name: torch.tensor(array, requires_grad=name in ARRAYS) for name, array in tensors.items()}
    assert eval(source, {**scope, "torch": torch, "nn": torch.nn, "F": torch.nn.functional}).shape is not None
    scope = {name: mg.tensor(array) for name, array in tensors.items()}
    with pytest.raises((TypeError, ValueError)) as raised:
        eval(source, {**scope, "torch": mg, "nn": nn, "F": nn.functional})
    assert REFUSED[source] in str(raised.value)


# ---- arguments and defaults ----

EMPTY, BY_NAME = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
ANY = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
MODULES = {"nn": torch.nn, "nn.functional": torch.nn.functional, "nn.init": torch.nn.init, "nn.utils": torch.nn.utils, "nn.utils.rnn": torch.nn.utils.rnn,
           "nn.optim": torch.optim, "nn.optim.lr_scheduler": torch.optim.lr_scheduler, "nn.utils.data": torch.utils.data}
OUR_NAMES = {  # of positional arguments, of layers; functions have PyTorch's
    "input": {"x", "ids"}, "hx": {"h_0"}, "key": {"index"},
    **{name: {"member", "members", "other"} for name in ("module", "modules", "parameters", "sequential", "value", "values")},
}
DOCUMENTED = {  # where PyTorch has only *args, **kwargs as its signature, lacks a *, or documents another name
    "scaled_dot_product_attention": "(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, "
                                    "enable_gqa=False)",
    "RNN": "(input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False, dropout=0.0, "
           "bidirectional=False, device=None, dtype=None)",
    "GRU": "(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, "
           "device=None, dtype=None)",
    "LSTM": "(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, "
            "proj_size=0, device=None, dtype=None)",
    "one_hot": "(input, num_classes=-1)",
    "Sigmoid": "()", "Tanh": "()", "Module": "()",
}
OTHER_DEFAULTS = {  # {name: {argument: why it differs}}
    **{name: {"dim": "required: PyTorch takes axis 0 or 1 by the number of axes, and warns"} for name in (
        "softmax", "log_softmax", "Softmax", "LogSoftmax")},
    "Parameter": {"data": "required: a parameter of nothing is None"},
    **{name: {own: "() is nothing, too"} for name, own in (
        ("ModuleList", "modules"), ("ModuleDict", "modules"))},
    "TransformerEncoderLayer": {"activation": "relu of this library"},
    "Transformer": {"activation": "relu of this library"},
    "TransformerDecoderLayer": {"activation": "relu of this library"},
    "random_split": {"generator": "None is the default one"},
}


def shared():
    for path, theirs in MODULES.items():
        ours = eval(path, {"nn": nn})
        for name, value in vars(ours).items():
            if callable(value) and not name.startswith("_") and callable(getattr(theirs, name, None)) and name != "Tensor" \
                    and value.__module__.startswith("nn"):
                yield name, value, getattr(theirs, name)
                if inspect.isclass(value) and not issubclass(value, mg.Tensor):
                    yield from methods(name, value, getattr(theirs, name))


def methods(name, ours, theirs):
    """Those that the class itself defines, there or here, and forward."""
    for method in dir(theirs):
        if not method.startswith("_") and inspect.isroutine(getattr(theirs, method)) and method in {**vars(theirs), **vars(ours)} and (
                method != "forward" or method in vars(ours)) and getattr(getattr(ours, method, None), "__module__", "").startswith("nn"):
            yield f"{name}.{method}", getattr(ours, method), getattr(theirs, method)


def parameters(name, function):
    """{name: inspect.Parameter} of a function of PyTorch, from the first line of its docs if it has no signature."""
    if name in DOCUMENTED:
        text = DOCUMENTED[name]
    else:
        try:
            return dict(inspect.signature(function).parameters)
        except ValueError:
            text = function.__doc__.split("->")[0]
            text = text[text.index("(") : text.rindex(")") + 1]
    scope = {}
    exec(f"def function{text}: ...", scope)
    return dict(inspect.signature(scope["function"]).parameters)


SHARED = list(shared())


@pytest.mark.parametrize("name, ours, theirs", SHARED, ids=[f"{ours.__module__.removeprefix('nn.')}.{name}" for name, ours, _ in SHARED])
def test_arguments_and_defaults_are_pytorchs(name, ours, theirs):
    wanted, got = parameters(name, theirs), dict(inspect.signature(ours).parameters)
    named = {p.name: p for p in got.values() if p.kind not in ANY}
    names = {} if ours.__module__.startswith("nn.functional") else OUR_NAMES
    for p, q in zip(got.values(), wanted.values()):  # by position
        if BY_NAME in (p.kind, q.kind) or {p.kind, q.kind} & ANY:
            break
        assert p.name == q.name or p.name in names.get(q.name, ()), f"{p.name} stands where PyTorch has {q.name}"
        named.setdefault(q.name, p)
    for q in wanted.values():
        if q.name in named:
            default = named[q.name].default
            differs = default is EMPTY and q.default is not EMPTY or default is not EMPTY and default != q.default
            assert differs == (q.name in OTHER_DEFAULTS.get(name, {})), f"{q.name}={default}, in PyTorch {q.default}"
