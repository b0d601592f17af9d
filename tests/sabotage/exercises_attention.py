"""Sabotages of the exercises in norms and attention: reference solutions, known mistakes, and what they are tried on."""
from sabotage.edit import edits

COURSE = "tests/study/exercises/test_course.py"
NORMS = COURSE, "-k", "norm and (solution or names)"
ATTENTION = COURSE, "-k", "(scores or masked or attention or multi_head or rotary) and solution"
APART = COURSE, "-k", "masked_softmax and apart"

SABOTAGES = [
    *edits(NORMS, "study.mistakes.norms", {
        "norms: the mean of dx_hat is added": ("layer_norm_backward", "first(h) - shift_factor", "first(h) + shift_factor"),
        "norms: the deviation is constant": ("layer_norm_backward", "- stretch_factor", "- 0 * stretch_factor"),
        "norms: eps is ignored": ("layer_norm_backward", "inverse(h.var, eps)", "inverse(h.var, EPS)"),
        "norms: rows of the first axis alone": ("over_rows", "range(a.ndim - 1)", "range(1)"),
        "norms: RMS norm is centred": ("scaled_rms_norm_backward", "centre=centre", "centre=lambda x: x - mean(x)"),
        "norms: no residual": ("residual_norm_backward", "residual(dout, x, weight)", "0 * dout"),
        "norms: forward without its residual": ("residual_norm", "return x + ", "return "),
    }),
    *edits(NORMS, "study.exercises.course.norms", {
        "norms: a solution without the mean's path": ("layer_norm_backward", "dx_hat - shift - ", "dx_hat - "),
        "norms: a solution for matrices only": ("layer_norm_backward", "range(x.ndim - 1)", "range(1)"),
        "norms: a solution with eps outside of the root": ("rms_norm_backward", "keepdims=True) + eps)", "keepdims=True)) + eps"),
        "norms: a solution without the residual": ("residual_norm_backward", "dout + from_norm", "from_norm"),
    }),
    *edits(ATTENTION, "study.mistakes.attention", {
        "attention: the scale of the tokens": ("root", "shape[-1]", "shape[-2]"),
        "attention: the mask shows one ahead": ("causal", "shape[-2:], ", "shape[-2:], 1, "),
        "attention: rows without a key are NaN": ("safe_softmax", "np.maximum(e.sum(axis, keepdims=True), 1e-300)", "e.sum(axis, keepdims=True)"),
        "attention: no row sum": ("dscores", "h.rowsum = total(h)", "h.rowsum = 0.0"),
        "attention: dv from v": ("attention_backward", "values(h)", "v"),
        "attention: dq and dk exchanged": ("scores_backward", "order(turn_q(h.dout) @ keys(h) * scale_q(h), turn_k(h.dout) @ queries(h) * scale_k(h))", "order(turn_k(h.dout) @ queries(h) * scale_k(h), turn_q(h.dout) @ keys(h) * scale_q(h))"),
    }),
    *edits(ATTENTION, "study.mistakes.heads", {
        "attention: heads split by a reshape": ("split", "np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -3, -2)", "split_by_reshape(x, heads)"),
        "attention: heads merged by a reshape": ("merge", "x = np.swapaxes(x, -3, -2)\n    return x.reshape(*x.shape[:-2], -1)", "return merge_by_reshape(x)"),
    }),
    *edits(ATTENTION, "study.mistakes.rotary", {
        "rotary: halves for pairs": ("neighbours", "x[..., 0::2], x[..., 1::2]", "halves(x)"),
        "rotary: angles of its own": ("rotary_backward", "angles_of(x) if angles is None else angles", "angles_of(x)"),
    }),
    *edits(ATTENTION, "study.exercises.course.attention", {
        "attention: a solution that is NaN": ("masked_softmax_backward", "np.where(total == 0, 1, total)", "total"),
        "attention: a solution without the mask": ("causal_attention_backward", "np.tri(T, dtype=bool)", "np.ones((T, T), bool)"),
        "attention: a solution for few axes": ("attention_backward", "dv = np.swapaxes(weights, -1, -2)", "dv = weights.T"),
        "attention: a solution that turns forwards": ("rotary_backward", "even * cos + odd * sin", "even * cos - odd * sin"),
        "attention: a solution in tiles that shrinks nothing": ("blockwise_attention_backward", "np.exp(before - largest)", "1.0"),
        "attention: a solution in tiles that overwrites": ("blockwise_attention_backward", "dv[..., columns, :] +=", "dv[..., columns, :] ="),
    }),
    *edits(ATTENTION, "study.exercises.exercise", {
        "exercise: sizes are not multiplied": ("size", "int(factor) if factor.isdigit()", "1 if factor.isdigit()"),
    }),
    *edits(APART, "study.exercises.course.attention", {
        "attention: masks always show something": ("some_mask", "mask[everything], mask[nothing] = True, False", "mask[0], mask[-1] = True, True"),
    }),
]
