"""nn.Attention with all its switches against loops over heads and tokens, and its gradients against finite differences."""
import itertools
import math

import numpy as np
import pytest

import minigrad as mg
import nn

B, T, S, D, H = 2, 3, 4, 4, 2
SCALES = "none", "d_k", "d_model", 0.7
SWITCHES = {
    "query_key": ("none", "shared", "separate"),
    "value": (False, True),
    "output_projection": ("none", "concat", "sum"),
    "causal": (False, "mask", "renormalise"),
    "layout": ("rows", "columns"),
    "positions": ("none", "rotary", "relative"),
}
each_layout = pytest.mark.parametrize("layout", SWITCHES["layout"])
each_position = pytest.mark.parametrize("positions", SWITCHES["positions"])
COMBINATIONS = [dict(zip(SWITCHES, chosen)) for chosen in itertools.product(*SWITCHES.values())]


def make(scale="d_k", **switches) -> nn.Attention:
    """In float64, with random parameters, more features in keys than in values, and distances beyond max_distance."""
    sizes = {"key_size": 6} if switches.get("query_key", "separate") != "none" else {}
    if switches.get("value", True):
        sizes["value_size"] = 3
    mg.manual_seed(0)
    layer = nn.Attention(D, H, scale=scale, bias=True, max_distance=1, **sizes, **switches)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.double()


def is_allowed(switches) -> bool:
    try:
        make(**switches)
    except ValueError:
        return False
    return True


ALLOWED = [(switches, SCALES[i % 4]) for i, switches in enumerate(filter(is_allowed, COMBINATIONS))]


def tokens(*shape, seed=0) -> mg.Tensor:
    return mg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def rows(layer, x):
    """x (..., T, D) in the layer's layout; and back."""
    return x.mT if layer.layout == "columns" else x


def projected(projection, x, head):
    """What a Linear (or nothing) makes of x (T, D) for one head."""
    if projection is None:
        return x
    size = projection.weight.shape[0] // H
    weight, bias = (p.data[head * size : (head + 1) * size] for p in (projection.weight, projection.bias))
    return x @ weight.T + bias


def turned(x):
    """x (T, D) with rotary positions, pair by pair."""
    out = np.zeros_like(x)
    for t, i in itertools.product(range(x.shape[0]), range(0, x.shape[1], 2)):
        angle = t / 10_000 ** (i / x.shape[1])
        pair = complex(*x[t, i : i + 2]) * complex(math.cos(angle), math.sin(angle))
        out[t, i], out[t, i + 1] = pair.real, pair.imag
    return out


def reference(layer, switches, scale, x, context, padding):
    """(y, weights) of one sequence in rows, x (Tq, D) and context (Tk, D), of which padding (Tk,) hides some."""
    modules = {name: getattr(layer, name, None) for name in ("query", "key", "value", "out")}
    modules["key"] = modules["query"] if switches["query_key"] == "shared" else modules["key"]
    heads, all_weights = [], []
    for h in range(H):
        q, k, v = (projected(modules[name], source, h)
                   for name, source in (("query", x), ("key", context), ("value", context)))
        divisor = {"none": 1, "d_k": math.sqrt(k.shape[1]), "d_model": math.sqrt(D), 0.7: 1 / 0.7}[scale]
        if switches["positions"] == "rotary":
            q, k = turned(q), turned(k)
        weights = np.zeros((len(x), len(context)))
        for t, s in np.ndindex(weights.shape):
            score = q[t] @ k[s] / divisor
            if switches["positions"] == "relative":
                score += layer.relative_bias.data[h, min(max(t - s, -1), 1) + 1]
            weights[t, s] = 0 if padding[s] or switches["causal"] and s > t else math.exp(score)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)  # a query that sees no key gets zeros
        heads.append(weights @ v)
        all_weights.append(weights)
    if switches["output_projection"] == "sum":
        y = sum(head @ matrix.T for head, matrix in zip(heads, layer.out_weights.data))
    else:
        y = np.concatenate(heads, axis=1)
    if switches["output_projection"] == "concat":
        y = y @ layer.out.weight.data.T + layer.out.bias.data
    return y, np.array(all_weights)


def test_which_combinations_are_allowed():
    """Only columns + causal and rotary + none contradict each other: 8 x 4 x 2 x 3 remain."""
    assert len(COMBINATIONS) == 324 and len(ALLOWED) == 192


def computed(layer, leaves, padding, upstream, need_weights):
    """(y, weights or None, gradients of x, context and parameters) in float64; the context may be None: x itself."""
    layer.zero_grad()
    leaves = [leaf if leaf is None else leaf.detach().clone().requires_grad_() for leaf in leaves]
    result = layer(*leaves, key_padding_mask=padding, need_weights=need_weights)
    y, weights = result if need_weights else (result, None)
    y.backward(upstream)
    gradients = [p.grad.numpy() for p in (*leaves, *layer.parameters()) if p is not None]
    return y.detach(), weights, gradients


def assert_right(layer, switches, scale, leaves, padding):
    """Fused, spelled out and by loops are the same, and the gradients are differences along a random direction."""
    x, context = ([leaf if leaf is None else rows(layer, leaf) for leaf in leaves])
    context = x if context is None else context
    upstream = rows(layer, tokens(B, T, layer.out_width, seed=2)).detach()
    fused = computed(layer, leaves, padding, upstream, need_weights=False)
    gradients = fused[2]
    spelled_out = computed(layer, leaves, padding, upstream, need_weights=True)
    hidden = np.zeros((B, context.shape[1]), bool) if padding is None else padding.numpy()
    for b in range(B):
        expected, expected_weights = reference(layer, switches, scale, x.numpy()[b], context.numpy()[b], hidden[b])
        np.testing.assert_allclose(rows(layer, spelled_out[1]).data[b], expected_weights, atol=1e-12)
        for found, _, _ in (fused, spelled_out):
            np.testing.assert_allclose(rows(layer, found).numpy()[b], expected, atol=1e-12)
    for one, other in zip(gradients, spelled_out[2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    if leaves[1] is not None:
        assert not rows(layer, mg.tensor(gradients[1])).numpy()[hidden].any()
    arrays = [p.data for p in (*leaves, *layer.parameters()) if p is not None]
    steps, losses = [1e-6 * random.normal(size=array.shape) for array in arrays], []
    for sign in (1, -2):
        for array, step in zip(arrays, steps):
            array += sign * step
        losses.append((layer(*leaves, key_padding_mask=padding) * upstream).sum().item())
    slope = sum((gradient * step).sum() for gradient, step in zip(gradients, steps))
    assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(slope / 1e-6, rel=1e-7, abs=1e-7)


random = np.random.default_rng(3)


@each_position
@pytest.mark.parametrize("query_key", SWITCHES["query_key"])
@pytest.mark.parametrize("value", SWITCHES["value"])
def test_fused_is_spelled_out_is_loops(query_key, positions, value):
    """With a context or without; padded at the end, or, if it is causal, at the start, where a query then sees no key."""
    for switches, scale in ALLOWED:
        if (switches["query_key"], switches["positions"], switches["value"]) == (query_key, positions, value):
            layer = make(scale, **switches)
            hidden = mg.tensor([[False, False, True, True], [False] * S])
            x, context = (rows(layer, tokens(B, length, D, seed=length)).detach() for length in (T, S))
            settings = [((x, None), hidden[:, 1:].flip(1)), ((x, None), None)]
            settings += [] if switches["causal"] else [((x, context), None), ((x, context), hidden)]
            for leaves, padding in settings:
                assert_right(layer, switches, scale, leaves, padding)


@each_layout
@pytest.mark.parametrize("batched", [True, False])
def test_returned_weights_have_a_gradient(layout, batched):
    """By hand: y = (weights @ v) Woᵀ for each head."""
    layer = make(layout=layout)
    x = rows(layer, tokens(B, T, D) if batched else tokens(T, D))
    y, weights = layer(x, need_weights=True)
    weights.retain_grad()
    upstream = tokens(*y.shape, seed=2).detach()
    y.backward(upstream)
    v = layer.value(rows(layer, x)).reshape(-1, T, H, layer.value_size).transpose(1, 2)  # (B, H, T, D_v)
    dheads = (rows(layer, upstream) @ layer.out.weight).reshape(-1, T, H, layer.value_size).transpose(1, 2)
    expected = rows(layer, dheads @ v.mT).data
    np.testing.assert_allclose(weights.grad.data, expected if batched else expected[0], atol=1e-12)


@pytest.mark.parametrize("value", [False, True])
def test_a_context_of_another_width(value):
    layer = nn.Attention(D, H, memory_width=6, value=value).double()
    x, context = tokens(B, T, D), tokens(B, S, 6, seed=1)
    assert layer(x, context).shape == (B, T, D)
    mg.gradcheck_module(layer, [x, context], progress=False)


@each_layout
def test_unbatched_is_a_batch_of_one(layout):
    layer = make(layout=layout)
    x, context = rows(layer, tokens(T, D)), rows(layer, tokens(S, D, seed=1))
    batched = layer(x[None], context[None], need_weights=True)
    for found, expected in zip(layer(x, context, need_weights=True), batched, strict=True):
        np.testing.assert_array_equal(found.data, expected.data[0])


@each_layout
def test_residual_adds_the_input(layout):
    plain, adding = make(layout=layout), make(layout=layout, residual=True)
    x = rows(plain, tokens(B, T, D))
    np.testing.assert_allclose((adding(x) - plain(x)).data, x.data, atol=1e-12)
    assert mg.gradcheck(adding, [x.detach().clone().requires_grad_()])


@each_position
@pytest.mark.parametrize("heads, groups", [(4, 2), (6, 2), (3, 1), (2, 2)])
def test_groups_of_queries_share_keys_and_values(heads, groups, positions):
    """As if the matrices of keys and values were repeated for each query head of their group; their gradients are summed."""
    def make(key_value_heads):
        return nn.Attention(D, heads, key_value_heads=key_value_heads, causal="mask", positions=positions, key_size=6,
                            value_size=4, bias=True, max_distance=3).double()

    def repeated(values, size):
        each = values.reshape(groups, size, -1)
        return np.repeat(each, heads // groups, axis=0).reshape(heads * size, *values.shape[1:])

    shared, apart = make(groups), make(None)
    for name, parameter in apart.named_parameters():
        own = dict(shared.named_parameters())[name].data
        size = {"key": 6, "value": 4}.get(name.split(".")[0])
        parameter.data[...] = repeated(own, size) if size else own
    assert shared.key.weight.shape == (groups * 6, D) and shared.value.weight.shape == (groups * 4, D)
    x, upstream = tokens(B, T, D), tokens(B, T, D, seed=2).detach()
    for layer in shared, apart:
        layer(x).backward(upstream)
    for need_weights in (False, True):
        y, expected = (layer(x, need_weights=need_weights) for layer in (shared, apart))
        for one, other in zip(*((y, expected) if need_weights else ([y], [expected]))):
            np.testing.assert_allclose(one.data, other.data, atol=1e-12)
    gradient = apart.value.weight.grad.numpy().reshape(groups, heads // groups, 4, D).sum(axis=1).reshape(-1, D)
    np.testing.assert_allclose(shared.value.weight.grad.numpy(), gradient, atol=1e-12)


@pytest.mark.parametrize("need_weights", [False, True])
@each_position
def test_a_window_hides_what_is_further_back(positions, need_weights):
    layer, x = make(causal="mask", window=2, positions=positions), tokens(B, 6, D).detach()
    everywhere = make(causal="mask", positions=positions)
    y = layer(x, need_weights=need_weights)
    y = y[0] if need_weights else y
    for t in range(6):  # each token after the only one that it sees
        seen = everywhere(x[:, max(0, t - 1) : t + 1])[:, -1]
        np.testing.assert_allclose(y[:, t].data, seen.data, atol=1e-12)


def test_dropout_is_active_in_training_only():
    layer, x = nn.Attention(D, dropout=0.5), mg.randn(B, 20, D)
    assert not np.array_equal(layer(x).data, layer(x).data)
    assert not np.array_equal(layer(x, need_weights=True)[0].data, layer(x, need_weights=True)[0].data)
    layer.eval()
    np.testing.assert_allclose(layer(x).data, layer(x, need_weights=True)[0].data, atol=1e-6)


@pytest.mark.parametrize("switches", [{}, {"positions": "rotary"}, {"positions": "relative", "causal": "mask"},
                                      {"layout": "columns"}], ids=str)
def test_float32_is_float64_rounded(switches):
    layer, x = make(**switches), rows(make(**switches), tokens(B, T, D).detach())
    expected = layer(x).data
    single = layer.to(mg.float32)(x.float())
    assert single.dtype == mg.float32
    np.testing.assert_allclose(single.data, expected, atol=1e-5)


def test_a_padding_mask_that_hides_all_keys_is_refused_in_a_replay():
    layer, x = nn.Attention(D), mg.zeros(B, T, D)
    step = mg.compile(lambda mask: layer(x, key_padding_mask=mask).detach())
    step(mg.zeros(B, T).bool())
    with pytest.raises(ValueError, match="hides all keys of sequence 1"):
        step(mg.tensor([[False] * T, [True] * T]))


def test_initial_parameters():
    """No biases by default; the heads' output matrices are uniform in ±1/sqrt(heads * value_size), like a Linear for all."""
    names = {"query.weight", "key.weight", "value.weight"}
    assert {name for name, _ in nn.Attention(D, H).named_parameters()} == names | {"out.weight"}
    layer = nn.Attention(60, H, output_projection="sum", positions="relative")
    assert {name for name, _ in layer.named_parameters()} == names | {"out_weights", "relative_bias"}
    assert 0.95 / math.sqrt(60) < np.abs(layer.out_weights.data).max() <= 1 / math.sqrt(60)
    assert layer.relative_bias.shape == (H, 2 * 32 + 1) and not layer.relative_bias.data.any()


def test_scores_are_divided_by_the_root_of_the_key_size_by_default():
    one, two = (mg.manual_seed(0) and nn.Attention(D, H, key_size=6, **scale) for scale in ({}, {"scale": "d_k"}))
    x = tokens(T, D).detach().float()
    np.testing.assert_array_equal(one(x).data, two(x).data)


def test_repr_names_what_is_not_the_default():
    text = repr(nn.Attention(8, 4, causal="mask", key_value_heads=2, window=5, positions="rotary"))
    assert "heads=4, key_value_heads=2, " in text and "causal='mask', positions='rotary', window=5" in text
    text = repr(nn.Attention(D, H, causal="mask", value=False, output_projection="none", query_key="none"))
    assert text == "Attention(4, heads=2, query_key='none', value=False, output_projection='none', causal='mask')"


def test_additive_attention_is_one_matrix_times_the_concatenation():
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(D, 6, hidden=5).double()
    s, h = tokens(B, T, D), tokens(B, S, 6, seed=1)
    padding = np.array([[False, False, True, True], [False] * S])
    assert mg.gradcheck(lambda s, h: layer(s, h, mg.tensor(padding)), [s, h])
    together = np.concatenate([layer.context.weight.data, layer.state.weight.data], axis=1)
    scores = np.zeros((B, T, S))
    for b, t, j in np.ndindex(B, T, S):
        hidden = together @ np.concatenate([h.data[b, j], s.data[b, t]]) + layer.state.bias.data
        scores[b, t, j] = layer.score.weight.data[0] @ np.tanh(hidden)
    for mask in (None, padding):
        expected = np.exp(scores) * (1 if mask is None else ~mask[:, None])
        expected /= expected.sum(axis=-1, keepdims=True)
        c, weights = layer(s, h, mask if mask is None else mg.tensor(mask))
        np.testing.assert_allclose(weights.data, expected, atol=1e-12)
        np.testing.assert_allclose(c.data, expected @ h.data, atol=1e-12)
