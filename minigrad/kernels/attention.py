"""placeholder until the kernels stand"""
import numpy as np


def _weights(q, k, mask, is_causal, scale):
    s = q @ np.swapaxes(k, -1, -2) * scale
    if is_causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if mask is not None:
        s = s + mask
    m = s.max(-1, keepdims=True)
    m = np.where(m == -np.inf, 0, m)
    e = np.exp(s - m)
    t = e.sum(-1, keepdims=True)
    return (e / np.where(t == 0, 1, t)).astype(q.dtype), np.log(t)[..., 0] + m[..., 0]


def attention_forward(q, k, v, mask, is_causal, scale):
    w, lse = _weights(q, k, mask, is_causal, scale)
    o = w @ v
    out = np.empty((o.shape[0], o.shape[2], o.shape[1], o.shape[3]), o.dtype).transpose(0, 2, 1, 3)
    out[...] = o
    return out, lse


def attention_backward(q, k, v, mask, is_causal, scale, out, lse, dout, dq, dk, dv):
    w, _ = _weights(q, k, mask, is_causal, scale)
    dv[...] = np.swapaxes(w, -1, -2) @ dout
    dw = dout @ np.swapaxes(v, -1, -2)
    ds = w * (dw - (dw * w).sum(-1, keepdims=True))
    dq[...] = ds @ k * scale
    dk[...] = np.swapaxes(ds, -1, -2) @ q * scale
