"""Slow, obvious references: loops over elements, nothing clever. They take arrays of floats, or of `special_values.Exact`."""
import functools
import math

import mpmath
import numpy as np


class Constant(np.ndarray):
    """An input of a case that gets no gradient."""

    def __new__(cls, array):
        return np.asarray(array).view(cls)


def zeros(shape, *arrays):
    """For results made of these arrays' elements"""
    return np.zeros(shape, np.result_type(float, *arrays))


def by_mpmath(name):
    """A function of a number, by its name there"""
    return lambda x: float(getattr(mpmath, name)(x)) if isinstance(x, float) else getattr(x, name)()


erf, erfc = by_mpmath("erf"), by_mpmath("erfc")


def right(x, size=None):
    """x, whose error must be a rounding of itself, or of a number of this size, even where it is a difference of large numbers."""
    return x if isinstance(x, float) else x.rounded_once(x if size is None else size)


def largest(v):
    """The largest size of a number, as a constant"""
    size = max(abs(u) for u in v)
    return size if isinstance(size, float) else size.constant()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def gelu(x):
    return x * erfc(-x / math.sqrt(2)) / 2


def swiglu(a, b):
    return a * sigmoid(a) * b


def gelu_tanh(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def elementwise(function):
    def apply(x, **options):
        return np.array([function(v) for v in x.ravel()]).reshape(x.shape)

    return apply


def pairwise(function):
    def apply(a, b):
        a, b = np.broadcast_arrays(a, b)
        return np.array([function(u, v) for u, v in zip(a.ravel(), b.ravel())]).reshape(a.shape)

    return apply


def running(function):
    """The function of the elements so far, along the last axis."""

    def apply(x):
        out = zeros(x.shape, x)
        for index in np.ndindex(x.shape):
            out[index] = function(list(x[index[:-1]][: index[-1] + 1]))
        return out

    return apply


def reduction(function):
    def apply(x, axis=None, keepdims=False, **options):
        axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis)]
        kept = [a for a in range(x.ndim) if a not in axes]
        out = zeros([1 if a in axes else x.shape[a] for a in range(x.ndim)], x)
        for index in np.ndindex(*[x.shape[a] for a in kept]):
            where = [slice(None)] * x.ndim
            out_index = [0] * x.ndim
            for a, i in zip(kept, index):
                where[a], out_index[a] = i, i
            out[tuple(out_index)] = function(np.ravel(x[tuple(where)]).tolist())
        return out if keepdims else out.reshape([x.shape[a] for a in kept])

    return apply


def running_sum(x, axis):
    return np.moveaxis(running(sum)(np.moveaxis(x, axis, -1)), -1, axis)


def mean(v):
    return sum(v) / len(v)


def centred(v):
    differences = [u - mean(v) for u in v]
    return [right(d, largest(differences)) for d in differences]


def variance(v, correction=1):
    return sum(u**2 for u in centred(v)) / (len(v) - correction)


def deviation(v):
    return np.sqrt(variance(v))


def length(v):
    return norm_of(v, 2)


def logsumexp(v):
    top = max(v) if isinstance(max(v), float) else max(v).constant()
    return top + np.log(sum(np.exp(right(u - top)) for u in v))


def norm_of(v, p):
    size = largest(v)
    return size * sum(abs(u / size) ** p for u in v) ** (1 / p)


def norm(x, p=2.0, **options):
    return reduction(lambda v: norm_of(v, p))(x, **options)


def remainder(rounded):
    return pairwise(lambda u, v: right(u - v * rounded(u / v)))


def set_at(x, value, index):
    out = x.copy()
    out[index] = value
    return out


def einsum(*factors, subscripts):
    """A loop over all labels."""
    inputs, output = subscripts.split("->")
    lengths = {}
    for labels, factor in zip(inputs.split(","), factors):
        for label, n in zip(labels, factor.shape):
            lengths[label] = n if n != 1 else lengths.get(label, 1)
    out = zeros([lengths[label] for label in output], *factors)
    for index in np.ndindex(*lengths.values()):
        at = dict(zip(lengths, index))
        term = 1.0
        for labels, factor in zip(inputs.split(","), factors):
            term *= factor[tuple(at[label] if n > 1 else 0 for label, n in zip(labels, factor.shape))]
        out[tuple(at[label] for label in output)] += term
    return out


def add_at(x, onto=None, *, index, shape):
    out = zeros(shape, x) if onto is None else onto.copy()
    taken = np.arange(out.size).reshape(shape)[index]
    for i, value in zip(taken.ravel(), np.broadcast_to(x, taken.shape).ravel()):
        out.flat[i] += value
    return out


def gather(x, dim, indices):
    out = zeros(indices.shape, x)
    for place in np.ndindex(indices.shape):
        out[place] = x[place[:dim] + (indices[place],) + place[dim + 1 :]]
    return out


def scatter_add(x, onto=None, *, dim, indices, shape):
    out = zeros(shape, x) if onto is None else onto.copy()
    for place in np.ndindex(indices.shape):
        out[place[:dim] + (indices[place],) + place[dim + 1 :]] += x[place]
    return out


def scatter(x, value, dim, indices):
    out = x.copy()
    for place in np.ndindex(indices.shape):
        out[place[:dim] + (indices[place],) + place[dim + 1 :]] = value[place]
    return out


def flip(x, axes):
    out = zeros(x.shape, x)
    for place in np.ndindex(x.shape):
        out[tuple(n - 1 - i if d in axes else i for d, (i, n) in enumerate(zip(place, x.shape)))] = x[place]
    return out


def diagonal(x, offset):
    rows, columns = x.shape[-2:]
    kept = [x[..., i, i + offset] for i in range(rows) if 0 <= i + offset < columns]
    return np.stack(kept, -1) if kept else np.zeros(x.shape[:-2] + (0,))


def from_diagonal(x, offset, shape):
    out = zeros(shape, x)
    for i in range(x.shape[-1]):
        out[..., i + max(0, -offset), i + max(0, offset)] = x[..., i]
    return out


def triangle(x, diagonal, upper):
    out = zeros(x.shape, x)
    for i, j in np.ndindex(x.shape[-2:]):
        if j - i >= diagonal if upper else j - i <= diagonal:
            out[..., i, j] = x[..., i, j]
    return out


def pad(x, index, shape, value):
    out = zeros(shape, x)
    out[...] = value
    out[index] = x
    return out


def matmul(a, b):
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, shape + a.shape[-2:]), np.broadcast_to(b, shape + b.shape[-2:])
    out = zeros(shape + (a.shape[-2], b.shape[-1]), a)
    for index in np.ndindex(out.shape):
        lead, (i, j) = index[:-2], index[-2:]
        out[index] = sum((a[lead][i, :] * b[lead][:, j]).tolist())
    return out


def linear(x, weight, bias):
    out = matmul(x, weight.T)
    return out if bias is None else out + bias


def mlp(x, expand, expand_bias, project, project_bias, approximate="none"):
    activated = elementwise(gelu if approximate == "none" else gelu_tanh)(linear(x, expand, expand_bias))
    return linear(activated, project, project_bias)


def embedding(weight, positions, ids):
    return weight[ids] if positions is None else weight[ids] + positions[: ids.shape[-1]]


def along(axis, x, function, *arguments):
    """np.apply_along_axis, and also of nothing"""
    return np.apply_along_axis(function, axis, x, *arguments) if x.size else x


def softmax(x, dim):
    def row(v):
        e = [np.exp(u) for u in v]
        return [u / sum(e) for u in e]

    return along(dim, x, row)


def log_softmax(x, dim):
    return np.log(softmax(x, dim))


def normalized(row, denominator, correction=0):
    """(x - mean) / denominator(variance)"""
    divisor = denominator(variance(row, correction))
    return [u / divisor for u in centred(row)]


def layer_norm(x, weight, bias, eps=1e-5):
    out = along(-1, x, normalized, lambda variance: np.sqrt(variance + eps))
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(x, weight, eps=1e-5):
    out = along(-1, x, lambda row: row / np.sqrt(sum(v * v for v in row) / len(row) + eps))
    return out if weight is None else out * weight


def normalize(x, dim=-1, eps=1e-12):
    return along(dim, x, lambda row: row / max(length(row), eps))


def cross_entropy(x, targets, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    log_p = log_softmax(x, 1)
    wanted = np.full(x.shape, label_smoothing / x.shape[1])
    for n, t in enumerate(targets):
        if t == ignore_index:
            wanted[n] = 0
        else:
            wanted[n, t] += 1 - label_smoothing
    losses = -(wanted * log_p).sum(1)
    if reduction == "none":
        return losses
    return losses.sum() / (sum(targets != ignore_index) if reduction == "mean" else 1)


def cross_entropy_of_distributions(x, q):
    return np.array([-sum(p * log for p, log in zip(wanted, log_p)) for wanted, log_p in zip(q, log_softmax(x, 1))])


def negative_log_likelihood(x, targets, ignore_index=-100, reduction="mean"):
    losses = np.array([0.0 if t == ignore_index else -x[n, t] for n, t in enumerate(targets)])
    if reduction == "none":
        return losses
    return losses.sum() / (sum(targets != ignore_index) if reduction == "mean" else 1)


def reduced(loss):
    """The loss of each difference of two arrays, or the mean or sum of all."""

    def losses_of(x, target, reduction, **options):
        differences = x - target
        losses = np.array([loss(right(d)) for d in np.ravel(differences)]).reshape(np.shape(differences))
        if reduction == "none":
            return losses
        with np.errstate(invalid="ignore"):  # the mean of nothing is NaN
            return losses.sum() / (losses.size if reduction == "mean" else 1)

    return losses_of


def turned(x, rotation):
    """Each pair of features as a complex number times another one."""
    out = zeros(x.shape, x)
    for *place, t, i in np.ndindex(*x.shape[:-1], x.shape[-1] // 2):
        (a, b), (c, d) = x[(*place, t, slice(2 * i, 2 * i + 2))], rotation[t, 2 * i : 2 * i + 2]
        out[(*place, t, slice(2 * i, 2 * i + 2))] = a * c - b * d, a * d + b * c
    return out


WORD = 2**32 - 1
ROTATIONS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)


@functools.cache
def threefry(counter, key, rounds):
    """Threefry-4x32: four words made of the four of a counter and the four of a key."""
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDA]
    x = [(counter[i] + keys[i]) & WORD for i in range(4)]
    for n in range(rounds):
        for i, count in zip((0, 2), ROTATIONS[n % 8]):
            j = i + 1 if n % 2 == 0 else 3 - i
            x[i] = (x[i] + x[j]) & WORD
            x[j] = rotated(x[j], count) ^ x[i]
        if n % 4 == 3:
            x = [(x[i] + keys[(n // 4 + 1 + i) % 5]) & WORD for i in range(4)]
            x[3] = (x[3] + n // 4 + 1) & WORD
    return x


def rotated(word, count):
    return (word << count | word >> (32 - count)) & WORD


def dropping_factor(position, key, p):
    """What dropout multiplies the element at a position with: see minigrad/random.py."""
    group, within = divmod(position, 128)
    slot, lane = divmod(within, 16)
    counter, key = 16 * group + lane, int(key) % 2**64
    word = threefry((counter & WORD, counter >> 32, 0, 0), (key & WORD, key >> 32, 0, 0), 13)[slot // 2]
    word = word if slot % 2 == 0 else rotated(word, 16)
    return 0 if word < p * 2**32 else 1 / (1 - p)


def dropout(x, key, p):
    factors = [dropping_factor(int(key[1]) + i, key[0], p) for i in range(x.size)]
    return x * np.array(factors).reshape(x.shape)


def weights_dropout(x, key, p):
    out, (*leading, queries, keys) = np.empty_like(x), x.shape
    strips, groups = math.ceil(queries / 16), math.ceil(keys / 8)
    for row, index in enumerate(np.ndindex(*leading)):
        for i, j in np.ndindex(queries, keys):
            block = (row * strips + i // 16) * groups + j // 8
            position = int(key[1]) + 128 * block + 16 * (j % 8) + i % 16
            out[*index, i, j] = x[*index, i, j] * dropping_factor(position, key[0], p)
    return out


def weights_of_seen(q, k, mask=None, rotation=None, is_causal=False, scale=None):
    """Query by query: where it is, and {key that it sees: weight}"""
    q, k = (q, k) if rotation is None else (turned(q, rotation), turned(k, rotation))
    keys, scale = k.shape[-2], 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    mask = np.broadcast_to(0.0 if mask is None else mask, (*q.shape[:-1], keys))
    for *head, i in np.ndindex(q.shape[:-1]):
        seen = [j for j in range(keys) if mask[*head, i, j] > -np.inf and (j <= i or not is_causal)]
        e = [np.exp(sum(q[*head, i] * k[*head, j]) * scale + mask[*head, i, j]) for j in seen]
        yield (*head, i), {j: weight / sum(e) for j, weight in zip(seen, e)}


def attention_weights(q, k, *arguments, **options):
    out = zeros((*q.shape[:-1], k.shape[-2]), q)
    for place, weights in weights_of_seen(q, k, *arguments, **options):
        for j, weight in weights.items():
            out[*place, j] = weight
    return out


def attention(q, k, v, mask=None, rotation=None, is_causal=False, scale=None, dropout_p=0.0, key=None):
    out = zeros((*q.shape[:-1], v.shape[-1]), q)
    factors = np.ones((*q.shape[:-1], k.shape[-2]))
    factors = weights_dropout(factors, key, dropout_p) if dropout_p else factors
    for (*head, i), weights in weights_of_seen(q, k, mask, rotation, is_causal, scale):
        for j, weight in weights.items():
            out[*head, i] += v[*head, j] * (weight * factors[*head, i, j])
    return out


def packed_attention(packed, rotation=None, num_heads=1, is_causal=False, **options):
    batch, time, width = packed.shape
    q, k, v = (part.reshape(batch, time, num_heads, -1).transpose(0, 2, 1, 3) for part in np.split(packed, 3, axis=2))
    return attention(q, k, v, None, rotation, is_causal, **options).transpose(0, 2, 1, 3).reshape(batch, time, width // 3)
