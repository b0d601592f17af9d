"""Results that are contiguous in PyTorch are contiguous here, so that they have views, which can be written through."""
import numpy as np
import pytest

from minigrad import fast
from oracle import F, mg, torch

LAYOUTS = {
    "in order": lambda x: x, "reversed axes": lambda x: x.permute(3, 1, 0, 2), "swapped axes": lambda x: x.transpose(1, 2),
    "with gaps": lambda x: x[:, ::2], "expanded": lambda x: x[:, :, :1].expand(*x.shape),
}
ALONG_DIM = "softmax log_softmax cumsum cumprod logcumsumexp argsort flip"
REDUCED = "sum mean amax amin prod var std logsumexp norm any all argmax argmin"
PICKED = "max min median sort"
OF_ELEMENTS = "exp tanh sigmoid erf abs floor sign square reciprocal cos isnan double long bool clone tril triu nan_to_num"
FUNCTIONS = {  # of the library, its functional module, and x of 4 axes
    **{name: lambda m, F, x, name=name: getattr(x, name)() for name in OF_ELEMENTS.split()},
    **{f"{name} {d}": lambda m, F, x, name=name, d=d: getattr(x, name)(d) for name in ALONG_DIM.split() for d in range(4)},
    **{f"{name} {d}": lambda m, F, x, name=name, d=d: getattr(x, name)(dim=d) for name in REDUCED.split() for d in range(4)},
    **{f"{name} {d} kept": lambda m, F, x, name=name, d=d: getattr(x, name)(dim=d, keepdim=True)
       for name in REDUCED.split() for d in range(4)},
    **{f"{name} {d} {part}": lambda m, F, x, name=name, d=d, part=part: getattr(x, name)(dim=d)[part]
       for name in PICKED.split() for d in range(4) for part in (0, 1)},
    **{f"{name} 0, 2": lambda m, F, x, name=name: getattr(x, name)(dim=(0, 2)) for name in "sum mean amax var norm".split()},
    **{f"{name} {d}": lambda m, F, x, function=function, d=d: function(m, F, x, d) for d in range(4) for name, function in {
        "topk": lambda m, F, x, d: x.topk(2, d)[1],
        "argsort, descending": lambda m, F, x, d: x.argsort(d, True),
        "normalize": lambda m, F, x, d: F.normalize(x, dim=d),
        "cat": lambda m, F, x, d: m.cat([x, x], d),
        "stack": lambda m, F, x, d: m.stack([x, x], d),
        "roll": lambda m, F, x, d: x.roll(1, d),
        "index_select": lambda m, F, x, d: x.index_select(d, m.tensor([0, 1, 1])),
        "index": lambda m, F, x, d: x[(slice(None),) * d + (m.tensor([[0, 1], [1, 0]]),)],
        "repeat_interleave": lambda m, F, x, d: x.repeat_interleave(2, d),
        "gather": lambda m, F, x, d: x.gather(d, m.zeros(2, 2, 2, 2).long()),
        "scatter_add": lambda m, F, x, d: x.scatter_add(d, m.zeros(2, 2, 2, 2).long(), m.ones(2, 2, 2, 2)),
        "index_add": lambda m, F, x, d: x.index_add(d, m.tensor([0, 1]), x.narrow(d, 0, 2)),
    }.items()},
    "add": lambda m, F, x: x[0, 0] + x, "power": lambda m, F, x: x**3, "remainder": lambda m, F, x: x % 2.0,
    "clamp": lambda m, F, x: x.clamp(0, 1), "where": lambda m, F, x: m.where(x > 0, x, 2.0), "equal": lambda m, F, x: x == x,
    "masked_fill": lambda m, F, x: x.masked_fill(x > 0, 1.0), "lerp": lambda m, F, x: x.lerp(x * 2, 0.3),
    "matmul": lambda m, F, x: x @ x.mT, "matrix": lambda m, F, x: x @ x[0, 0, 0], "outer": lambda m, F, x: m.outer(x[0, 0, 0], x[0, 0, 0]),
    "einsum": lambda m, F, x: m.einsum("ij,jk->ki", x[0, 0], x[0, 0].T), "einsum of one": lambda m, F, x: m.einsum("abcd->db", x),
    "tensordot": lambda m, F, x: m.tensordot(x, x, ([0, 2], [0, 2])), "kron": lambda m, F, x: m.kron(x[0, 0], x[0, 0]),
    "indices of two axes": lambda m, F, x: x[:, m.tensor([0, 1]), m.tensor([1, 0])], "mask": lambda m, F, x: x[x > 0],
    "pad": lambda m, F, x: F.pad(x, (1, 1, 2, 0)), "repeat": lambda m, F, x: x.repeat(2, 1, 1, 1), "silu": lambda m, F, x: F.silu(x),
    "elu": lambda m, F, x: F.elu(x), "layer_norm": lambda m, F, x: F.layer_norm(x, x.shape[-2:]),
    "linear": lambda m, F, x: F.linear(x, m.ones(3, x.shape[-1])), "dropout": lambda m, F, x: F.dropout(x, 0.5),
    "attention": lambda m, F, x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "attention with a mask": lambda m, F, x: F.scaled_dot_product_attention(x, x, x, m.ones(x.shape[2], x.shape[2])),
    **({"attention of split heads": lambda m, F, x: F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3).transpose(1, 2)}
       if fast.IS_FAST else {}),  # kernels write heads side by side where they read them so
    "multinomial": lambda m, F, x: m.multinomial(x[0, 0].softmax(-1), 2), "mse_loss": lambda m, F, x: F.mse_loss(x, x * 2, reduction="none"),
    "cross_entropy": lambda m, F, x: F.cross_entropy(x, m.zeros(len(x), *x.shape[2:]).long(), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (8, 16, 12, 32)])
def test_what_is_contiguous_in_pytorch_is_contiguous_here(shape, layout):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    apart = []
    for name, function in FUNCTIONS.items():
        theirs = function(torch, torch.nn.functional, LAYOUTS[layout](torch.tensor(x)))
        ours = function(mg, F, LAYOUTS[layout](mg.tensor(x)))
        if theirs.is_contiguous() and not ours.is_contiguous():
            apart.append(f"{name}: {ours.shape} with strides {ours.stride()}")
    assert not apart


def factors(random, n: int) -> list[int]:
    """Some numbers with the product n, possibly 1 among them."""
    found = []
    while random.random() < 0.8:
        found.append(int(random.choice([d for d in range(1, n + 1) if n % d == 0])))
        n //= found[-1]
    return [*found, n]


def test_a_view_is_the_same_memory_and_refused_where_pytorch_refuses_it():
    random, refused = np.random.default_rng(0), 0
    for _ in range(2000):
        shape = [int(n) for n in random.integers(1, 5, random.integers(1, 5))]
        order, step, is_expanded = [int(i) for i in random.permutation(len(shape))], int(random.integers(1, 3)), random.random() < 0.3
        pair = []
        for library in (mg, torch):
            base = library.arange(float(np.prod(shape))).reshape(shape)
            x = base.permute(order)[..., ::step]
            pair.append((base, x[:1].expand(x.shape) if is_expanded else x))
        (base, x), (base_there, x_there) = pair
        target = factors(random, x.numel())
        try:
            there = x_there.view(target)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="view size is not compatible .* Use .reshape"):
                x.view(target)
            refused += 1
            assert x.reshape(target).tolist() == x_there.reshape(target).tolist()
            continue
        here = x.view(target)
        assert here.shape == there.shape and here.tolist() == there.tolist()
        if not is_expanded:
            here.zero_(), there.zero_()
            assert base.tolist() == base_there.tolist()
    assert 200 < refused < 1800


def test_a_view_of_nothing_has_any_shape_and_a_wrong_shape_is_named():
    assert mg.zeros(0, 3).T.view(-1).shape == (0,)
    with pytest.raises(ValueError, match=r"shape \(4,\) is invalid for a tensor of shape \(3, 2\)"):
        mg.zeros(2, 3).T.view(4)
    with pytest.raises(RuntimeError, match="Use .reshape"):
        mg.zeros(2, 3).T.view_as(mg.zeros(6))
