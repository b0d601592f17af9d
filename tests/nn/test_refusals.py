"""What nn refuses: on each line a call, the error, and words of its message."""
import math

import pytest

import minigrad as mg
import nn
from stepping import make_parameters


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.first = nn.Parameter(mg.ones(3)), nn.Linear(3, 3)
        self.register_buffer("count", mg.zeros(1))


class WithoutInit(nn.Module):
    def __init__(self, value):
        self.value = value


SCOPE = {
    **vars(nn.position), **vars(nn.utils.data), **vars(nn.optim), **vars(nn), **globals(), "F": nn.functional,
    "inf": math.inf, "nan": math.nan, "zeros": mg.zeros, "ones": mg.ones, "P": make_parameters([(2,)]),
    "M": make_parameters([(4, 3)]), "x": mg.zeros(2, 3, 4), "memory": mg.zeros(2, 4, 4), "hidden": mg.ones(2, 3).bool(),
    "long": mg.tensor([0, 1]), "tokens": mg.zeros(2, 5, 8), "own": nn.MultiHeadAttention(8, 2),
    "pytorchs": nn.MultiheadAttention(8, 2), "encoder": nn.TransformerEncoderLayer(6, 2, batch_first=True),
    "learned": nn.PositionEncoding("learned", 4, size=3), "rnn": nn.RNN(3, 4, batch_first=True),
    "block": Block(), "triple": (3.4445, -4.7750, 2.0315), "samples": nn.utils.data.TensorDataset(mg.arange(3)),
}
SCALINGS = ("", "yarn", "none:1", "linear", "linear:0", "linear:-2", "linear:nan", "linear:inf", "linear:1:2", "linear:x",
            "llama3:8:1:4", "llama3:8:4:1:32", "llama3:8:4:4:32", None, 4)
REFUSED = {
    "layers": """
    Linear(0, 3)  # ValueError: Linear: in_features must be a positive integer, got 0
    Linear(3, 2.5)  # ValueError: Linear: out_features must be a positive integer, got 2.5
    Linear(2, 3, activation="swish")  # ValueError: Linear: activation must be one of None, gelu, gelu_tanh, relu
    Embedding(-1, 3)  # ValueError: Embedding: num_embeddings
    Embedding(3, 2, padding_idx=3)  # ValueError: Embedding: padding_idx must be None or an integer from -3 to 2, got 3
    LayerNorm((3, 0))  # ValueError: LayerNorm: normalized_shape
    LayerNorm(3, eps_at="below")  # ValueError: LayerNorm: eps_at must be one of inside, outside, double_root, got 'below'
    RMSNorm((3, 0))  # ValueError: RMSNorm: normalized_shape
    F.layer_norm(ones(2), 2, eps_at="below")  # ValueError: layer_norm: eps_at must be one of inside, outside
    RMSNorm(3)(zeros(2, 4))  # ValueError: rms_norm: expected an input of shape (..., 3,), got (2, 4)
    Dropout(nan)  # ValueError: Dropout: p must be a probability
    GELU("erf")(x)  # ValueError: gelu: approximate is 'none' or 'tanh', got 'erf'
    patchify(zeros(1, 1, 4, 6), 3)  # ValueError: must divide height and width, got size 3 and an image 4 x 6
    patchify(zeros(1, 1, 6, 4), 3)  # ValueError: must divide height and width, got size 3 and an image 6 x 4
    patchify(zeros(1, 1, 4, 4), 0)  # ValueError: patchify: size must be a positive integer, got 0
    patchify(zeros(4, 4), 2)  # ValueError: patchify: expected images (B, channels, height, width), got (4, 4)
    unpatchify(zeros(1, 4, 4), 0, 4, 4)  # ValueError: unpatchify: size must be a positive integer, got 0
    unpatchify(zeros(1, 4, 4), 2, 5, 4)  # ValueError: unpatchify: size must divide height and width, got size 2 and * 5 x 4
    unpatchify(zeros(1, 3, 4), 2, 4, 4)  # ValueError: unpatchify: expected 4 patches (B, patches, channels * 4), got (1, 3, 4)
    unpatchify(zeros(1, 4, 5), 2, 4, 4)  # ValueError: unpatchify: expected 4 patches (B, patches, channels * 4), got (1, 4, 5)
    PatchEmbedding(0, 1, 5)  # ValueError: size
    RNN(3, 0)  # ValueError: hidden_size
    RNN(3, 4, num_layers=0)  # ValueError: num_layers
    RNN(3, 4, 2, True)  # ValueError: nonlinearity must be one of tanh, relu, got True
    GRU(3, 4)(zeros(2, 3), zeros(1, 3))  # ValueError: GRU: expected h_0 of shape (1, 4), got (1, 3)
    LSTM(3, 4, proj_size=2)  # ValueError: proj_size is left out, got 2; apply nn.Linear
    LSTM(3, 4)(zeros(2, 3), zeros(1, 4))  # TypeError: expected hx to be a pair (h_0, c_0), got Tensor
    LSTM(3, 4)(zeros(2, 3), (zeros(1, 4), zeros(1, 5)))  # ValueError: expected c_0 of shape (1, 4), got (1, 5)
    RNN(3, 4)(zeros(3))  # ValueError: expected x of shape (T, B, 3) or (T, 3), got (3,)
    RNN(2, 4)(zeros(0, 1, 2))  # ValueError: RNN: expected at least one time step, got x of shape (0, 1, 2)
    LSTM(2, 4, batch_first=True)(zeros(1, 0, 2))  # ValueError: LSTM: expected at least one time step, got x of shape (1, 0, 2)
    rnn(zeros(2, 5, 4))  # ValueError: expected x of shape (B, T, 3) or (T, 3), got (2, 5, 4)
    rnn(zeros(2, 5, 3), zeros(2, 4))  # ValueError: expected h_0 of shape (1, 2, 4), got (2, 4)
    rnn(zeros(5, 3), zeros(1, 2, 4))  # ValueError: expected h_0 of shape (1, 4), got (1, 2, 4)
    """,
    "positions": """
    PositionEncoding("cosine", 4)  # ValueError: kind must be one of none, learned, sinusoidal
    PositionEncoding("integer", 4, combine="multiply")  # ValueError: combine must be one of add, concatenate, got 'multiply'
    PositionEncoding("integer", 4, position_width=3)  # ValueError: needs position_width equal to width, got 3 and 4
    PositionEncoding("learned", 4)  # ValueError: needs size
    learned(zeros(4, 4))  # ValueError: has size 3, got position 3
    learned(zeros(2, 4), start=3)  # ValueError: has size 3, got position 4
    PositionEncoding("one_hot", 4)(zeros(5, 4))  # ValueError: of width 4 end at 3, got position 4
    rotate(zeros(2, 3))  # ValueError: key_size must be even, got 3
    rotate(zeros(4))  # ValueError: rotate: expected x of shape (..., T, D), got (4,)
    PositionEncoding("learned", 4, size=0)  # ValueError: PositionEncoding: size must be a positive integer, got 0
    learned(zeros(4))  # ValueError: PositionEncoding: expected x of shape (..., T, 4), got (4,)
    learned(zeros(2, 1))  # ValueError: PositionEncoding: expected x of shape (..., T, 4), got (2, 1)
    """ + "\n".join(f"PositionEncoding({kind!r}, 4, size=3)(zeros(2, 4), start=-1)  # ValueError: positions {kind!r} begin at 0, "
                    "got start=-1" for kind in nn.position.KINDS if kind != "none") + "\n" + "\n".join(f"rotary_frequencies(4, scaling={scaling!r})  # ValueError: rotary_scaling must be 'none', 'linear:"
                    for scaling in SCALINGS),
    "functions": """
    F.dropout(ones(2), 1.5)  # ValueError: dropout: p must be a probability, from 0 to 1, got 1.5
    F.linear(ones(2), ones(3, 2), activation="swish")  # ValueError: linear: activation must be one of None, gelu
    F.linear(ones(2), ones(3, 2), ones(2))  # ValueError: linear: expected a bias of shape (3,), got (2,)
    F.linear(ones(2), ones(3, 2, dtype=mg.float64))  # TypeError: linear: expected one dtype, got float32 and float64
    F.swiglu(ones(2), ones(1))  # ValueError: swiglu: expected a gate and x of one shape, got (2,) and (1,)
    F.swiglu(ones(2), ones(2, dtype=mg.float64))  # TypeError: swiglu: expected one dtype, got float32 and float64
    F.embedding(long, zeros(3, 2), zeros(3, 2))  # ValueError: embedding: padding_idx must be
    F.embedding(long, ones(3, 2), positions=ones(1, 2))  # ValueError: got 2 ids in a row, and only 1 positions
    F.embedding(long, ones(3, 2), positions=ones(1, 3))  # ValueError: expected ids (..., T) and positions (P, 2)
    F.pad(ones(2), (1, 1), "reflect")  # ValueError: pad: only mode 'constant' is supported, got 'reflect'
    F.one_hot(long[:0])  # ValueError: one_hot: cannot tell the number of classes from no ids
    F.scaled_dot_product_attention(x, x, x, ones(3, 3).bool(), is_causal=True)  # ValueError: give attn_mask or is_causal
    BCELoss()(mg.tensor([0.5, 1.5]), zeros(2))  # ValueError: between 0 and 1, got 1.5
    BCELoss()(mg.tensor([-0.1]), zeros(1))  # ValueError: between 0 and 1, got -0.1
    BCELoss()(zeros(2, 3), zeros(3))  # ValueError: target size must be the same as input size
    MSELoss(reduction="total")(zeros(2), zeros(2))  # ValueError: mse_loss: reduction is
    F.scaled_dot_product_attention(zeros(1, 3, 4), zeros(2, 3, 4), zeros(2, 3, 4), enable_gqa=True)  # ValueError: a multiple of
    F.scaled_dot_product_attention(zeros(2, 3, 4), zeros(2, 3, 4), zeros(0, 3, 4), enable_gqa=True)  # ValueError: a multiple of
    init.orthogonal_(ones(3))  # ValueError: expected at least 2 dimensions, got shape (3,)
    F.one_hot(long, 0)  # ValueError: one_hot: num_classes must be a positive integer, got 0
    F.kl_div(zeros(()), zeros(()), reduction="batchmean")  # TypeError: 0-d tensor
    init.xavier_normal_(ones(3))  # ValueError: fewer than 2 dimensions, got shape (3,)
    init.kaiming_normal_(ones(2, 2), mode="in")  # ValueError: mode must be 'fan_in' or 'fan_out', got 'in'
    init.calculate_gain("gelu")  # ValueError: nonlinearity must be leaky_relu or one of linear, sigmoid
    init.trunc_normal_(ones(2), a=50, b=51)  # ValueError: holds less than 1% of a normal distribution
    """,
    "attention": """
    AdditiveAttention(4, 4, 3)(memory, x, hidden)  # ValueError: AdditiveAttention: * hides all keys of sequence 0
    MultiHeadAttention(8, 3)  # ValueError: embed_dim must be divisible by num_heads, got 8 and 3; change one of them, or give head_size
    MultiHeadAttention(8, 0)  # ValueError: num_heads must be a positive integer
    MultiHeadAttention(8, 2, kdim=0)  # ValueError: kdim must be a positive integer
    MultiHeadAttention(8, 2, vdim=2.5)  # ValueError: vdim must be a positive integer
    MultiHeadAttention(8, 2, dropout=1.5)  # ValueError: dropout must be a probability
    MultiHeadAttention(8, 2, head_size=0)  # ValueError: head_size must be a positive integer, got 0
    MultiHeadAttention(8, 2, key_value_heads=0)  # ValueError: key_value_heads must be a positive integer, got 0
    MultiHeadAttention(8, 2, key_value_heads=3)  # ValueError: key_value_heads must divide num_heads, got 3 and 2
    MultiHeadAttention(8, 2, window=0)  # ValueError: window must be a positive integer, got 0
    MultiHeadAttention(8, 2, max_distance=0)  # ValueError: max_distance must be a positive integer, got 0
    MultiHeadAttention(8, 2, positions="learned")  # ValueError: positions must be one of none, rotary, relative
    MultiHeadAttention(8, 2, positions="rotary", rotary_scaling="linear")  # ValueError: must be * 'linear:FACTOR' * got 'linear'
    MultiHeadAttention(6, 2, positions="rotary")  # ValueError: key_size must be even, got 3
    MultiHeadAttention(8, 2, rotary_base=-1, positions="rotary")  # ValueError: must be a positive number, got -1
    MultiHeadAttention(8, 2, rotary_base=0, positions="rotary")  # ValueError: must be a positive number, got 0
    MultiHeadAttention(8, 2, rotary_base=nan, positions="rotary")  # ValueError: must be a positive number, got nan
    MultiHeadAttention(8, 2, rotary_base="x", positions="rotary")  # ValueError: must be a positive number, got 'x'
    MultiHeadAttention(8, 2, rotary_base=5.0)  # ValueError: rotary_scaling need positions='rotary'
    own(zeros(5, 8))  # ValueError: query must have shape (B, T, 8), got (5, 8)
    own(tokens, zeros(2, 5, 7))  # ValueError: key must have shape (B, T, 8), got (2, 5, 7)
    own(tokens, zeros(3, 5, 8))  # ValueError: the same B
    own(tokens, attn_mask=zeros(5, 4))  # ValueError: attn_mask must have shape (5, 5) or (4, 5, 5), got (5, 4)
    own(tokens, key_padding_mask=zeros(5, 5))  # ValueError: key_padding_mask must have shape (2, 5)
    own(tokens, attn_mask=zeros(5, 5).long())  # TypeError: boolean or floating point, got int64
    MultiheadAttention(8, 2, add_bias_kv=True)  # ValueError: add_bias_kv and add_zero_attn are left out
    MultiheadAttention(8, 2, add_zero_attn=True)  # ValueError: add_bias_kv and add_zero_attn are left out
    pytorchs(*[tokens[None]] * 3)  # ValueError: (T, B, C) with batch_first=False, or (T, C), got (1, 2, 5, 8)
    pytorchs(tokens, tokens, tokens[0])  # ValueError: (2, 5, 8) and (5, 8)
    pytorchs(*[tokens] * 3, is_causal=True)  # ValueError: Need attn_mask if specifying the is_causal hint
    pytorchs(*[tokens] * 3, attn_mask=zeros(2, 2), is_causal=True)  # ValueError: attn_mask is another; leave is_causal
    pytorchs(*[tokens] * 3, attn_mask=zeros(2, 2).bool(), is_causal=True)  # ValueError: attn_mask is another; leave is_causal
    pytorchs(*[tokens] * 3, attn_mask=ones(2, 2).tril().bool(), is_causal=True)  # ValueError: attn_mask is another
    TransformerEncoderLayer(6, 4)  # ValueError: embed_dim must be divisible by num_heads
    TransformerEncoderLayer(0, 4)  # ValueError: TransformerEncoderLayer: d_model must be a positive integer
    TransformerDecoderLayer(8, 4, 0)  # ValueError: TransformerDecoderLayer: dim_feedforward must be a positive integer
    TransformerEncoderLayer(8, 4, dropout=2)  # ValueError: TransformerEncoderLayer: dropout must be a probability
    TransformerEncoderLayer(8, 4, activation="swish")  # ValueError: activation must be one of gelu,
    Transformer(8, 4, 0)  # ValueError: TransformerEncoder: num_layers must be a positive integer
    TransformerEncoder(encoder, 0)  # ValueError: TransformerEncoder: num_layers must be a positive integer
    encoder(zeros(2, 3, 4, 6))  # ValueError: (B, T, C) with batch_first=True, or (T, C), got (2, 3, 4,
    """,
    "modules": """
    WithoutInit(nn.Parameter(ones(1)))  # AttributeError: cannot assign parameters before
    WithoutInit(block)  # AttributeError: cannot assign module before
    WithoutInit(1).training  # AttributeError: was super
    setattr(block, "scale", ones(3))  # TypeError: cannot assign 'Tensor' as parameter 'scale'
    setattr(block, "first", 1)  # TypeError: cannot assign 'int' as child module 'first'
    setattr(block, "count", 1)  # TypeError: cannot assign 'int' as buffer 'count'
    block.scael  # AttributeError: has no attribute 'scael'; it holds scale, first
    delattr(block, "scael")  # AttributeError: scael
    block.get_submodule("second")  # AttributeError: Block has no 'second' among its modules: named_modules() lists them
    block.get_submodule("scale")  # AttributeError: Block has no 'scale' among its modules
    block.get_parameter("first")  # AttributeError: Block has no 'first' among its parameters
    block.get_buffer("first.count")  # AttributeError: Block has no 'first.count' among its buffers
    block.register_parameter("a.b", None)  # KeyError: a non-empty string without '.'
    block.register_parameter("forward", nn.Parameter(ones(1)))  # KeyError: already exists
    block.register_parameter("w", ones(1))  # TypeError: Parameter or None
    block.register_buffer("b", 1)  # TypeError: Tensor or None
    block.train("yes")  # ValueError: boolean
    block.to(mg.int64)  # TypeError: float32 or float64
    block.load_state_dict([1])  # TypeError: dict
    nn.Module()(1)  # NotImplementedError: Module has no forward
    Sequential(block)[7]  # IndexError: index 7 is out of range for a Sequential of 1 modules
    ModuleList([block])[7]  # IndexError: index 7 is out of range for a ModuleList of 1 modules
    ModuleList().append(3)  # TypeError: Module or None
    ModuleDict()["b"]  # KeyError: b
    ModuleDict().__delitem__("b")  # KeyError: b
    ModuleDict().update({"forward": block})  # KeyError: forward
    """,
    "data": """
    DataLoader(samples, 0)  # ValueError: batch_size must be a positive integer or None, got 0
    DataLoader(samples, 2.0)  # ValueError: batch_size must be a positive integer or None, got 2.0
    DataLoader(samples, shuffle=True, sampler=(0,))  # ValueError: shuffle excludes sampler
    default_collate([])  # ValueError: default_collate: expected at least one sample, got an empty batch
    DataLoader(samples, batch_sampler=((0,),), drop_last=True)  # ValueError: batch_sampler excludes
    DataLoader(samples, None, drop_last=True)  # ValueError: no last one to drop
    TensorDataset(zeros(2), zeros(3))  # ValueError: TensorDataset: expected tensors of equal length, got [(2,), (3,)]
    TensorDataset(zeros(2), zeros(2).numpy())  # TypeError: TensorDataset: expected Tensors, got Tensor, ndarray
    default_collate([{1}])  # TypeError: default_collate: expected tensors * got set; give a collate_fn
    default_collate([(1,), (1, 2)])  # ValueError: samples of one batch have [1, 2] elements
    random_split(range(10), [5, 4])  # ValueError: random_split: expected lengths that add up to 10
    random_split(range(10), [0.5, 0.4])  # ValueError: random_split: expected lengths that add up to 10
    random_split(range(10), [11, -1])  # ValueError: random_split: expected lengths that add up to 10
    random_split(range(10), [0.5, 0.6])  # ValueError: random_split: expected lengths that add up to 10
    """,
    "optimizers": """
    SGD([])  # ValueError: empty parameter list
    SGD(P[0])  # TypeError: iterable
    SGD([1])  # TypeError: can only optimise Tensors
    SGD(nn.Linear(2, 2).named_parameters())  # TypeError: not named_parameters
    SGD([mg.arange(3)])  # ValueError: non-float
    SGD([P[0] * 2])  # ValueError: non-leaf
    AdamW(P + P)  # ValueError: given twice
    AdamW([{"params": P}, {"params": P}])  # ValueError: given twice
    AdamW([{"parameters": P}])  # TypeError: 'params'
    AdamW(P, lr=-1.0)  # ValueError: AdamW: lr must be a finite number >= 0, got -1.0
    AdamW(P, lr=nan)  # ValueError: lr must be
    AdamW(P, lr="fast")  # ValueError: lr must be
    AdamW([{"params": P, "lr": inf}])  # ValueError: lr must be
    AdamW(P, betas=(0.9, 1.0))  # ValueError: betas must be two numbers from 0 to below 1
    AdamW(P, betas=0.9)  # ValueError: betas
    AdamW(P, eps=-1e-8)  # ValueError: eps
    AdamW(P, weight_decay=-0.1)  # ValueError: weight_decay
    AdamW(P, max_grad_norm=0.0)  # ValueError: max_grad_norm must be positive
    SGD(P, momentum=nan)  # ValueError: momentum
    SGD(P, nesterov=True)  # ValueError: Nesterov momentum requires
    SGD(P, maximize="no")  # ValueError: maximize must be True or False
    AdamW(P, amsgrad=1)  # ValueError: amsgrad must be True or False, got 1
    clip_grad_norm_(P, nan)  # ValueError: max_norm must be positive
    clip_grad_norm_(P, 1.0, norm_type=0)  # ValueError: norm_type must be positive, got 0.0
    Optimizer(P, {}).update(P[0].array, P[0].array, {}, {})  # NotImplementedError: Optimizer has no update
    Muon(P)  # ValueError: Muon only supports 2D parameters whereas we found a parameter with size: (2,)
    Muon(make_parameters([(3, 2, 2)]))  # ValueError: Muon only supports 2D parameters
    Muon(M, blocks=3)  # ValueError: must divide the rows and columns of a matrix, got blocks=3 and a matrix of (4, 3)
    Muon(M, blocks=(2, 2))  # ValueError: blocks must divide the rows and columns
    Muon(M, blocks=0)  # ValueError: blocks must be a whole number from 1, or two of them, got 0
    Muon(M, blocks=1.0)  # ValueError: blocks must be a whole number from 1, or two of them, got 1.0
    Muon(M, blocks=(1, 1, 1))  # ValueError: blocks must be a whole number from 1, or two of them, got (1, 1, 1)
    Muon(M, nesterov=1)  # ValueError: nesterov must be True or False
    Muon(M, adjust_lr_fn="none")  # ValueError: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got 'none'
    Muon(M, ns_steps=100)  # ValueError: ns_steps must be a whole number from 0 to 99
    Muon(M, ns_steps=2.0)  # ValueError: ns_steps must be
    Muon(M, ns_coefficients=(1.0, 2.0))  # ValueError: ns_coefficients must be three finite numbers
    Muon(M, ns_coefficients=(1.0, 2.0, nan))  # ValueError: ns_coefficients must be three finite numbers
    Muon(M, ns_coefficients=((1, 2, 3), (1, 2)))  # ValueError: ns_coefficients must be three finite numbers
    Muon(M, ns_coefficients=(triple,) * 4)  # ValueError: or 5 of them, for ns_steps=5, got 4
    Joined([SGD(P)])  # TypeError: can only join Adam, AdamW and Muon, got SGD
    Joined(Muon(M))  # TypeError: expected a list of optimizers, got Muon
    Joined([])  # ValueError: expected at least one optimizer
    Joined([Muon(M), AdamW(M)])  # ValueError: a parameter was given to two optimizers
    Joined([AdamW(P, max_grad_norm=1.0)])  # ValueError: Joined: give max_grad_norm to Joined, not to AdamW
    Joined([AdamW(P)], -1.0)  # ValueError: Joined: max_grad_norm must be positive
    Joined([AdamW(P)]).add_param_group({"params": M})  # TypeError: add the group to one of the joined optimizers
    """,
}


def said(call):
    """The error that the call raises."""
    try:
        return f"nothing, but {eval(call, SCOPE)!r:.100}"
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("room", REFUSED)
def test_what_is_refused(room):
    rows = [line.strip().split("  # ") for line in REFUSED[room].split("\n") if line.strip()]
    found = {call: said(call) for call, _ in rows}
    for call, expected in rows:
        error, words = expected.split(": ", 1)
        if found[call].startswith(f"{error}: ") and all(word in found[call] for word in words.split(" * ")):
            del found[call]
    assert found == {}
