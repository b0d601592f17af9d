"""Note 002, an introduction: tokens are the columns of X (D, N), and attention is Y = X A."""
import numpy as np

import minigrad as mg
import nn
from models.tasks import TASKS
from models.transformer import Block, TransformerConfig
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    check_gradients, largest, normal, normalised, plain_attention, refusal, require_equal, silence, softmax, trained,
)

N, D, K = 5, 8, 4  # tokens, features, features after a projection


def projecting_attention(query_key: str = "separate", layout: str = "rows") -> nn.Attention:
    """Attention as the note has it, with projections to K features that are not small."""
    mg.manual_seed(0)
    layer = nn.Attention(D, query_key=query_key, key_size=K, value=False, output_projection="none", scale="none",
                         layout=layout)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer.double()


@claim("L2", note="002")
def columns_are_rows_transposed():
    """Tokens stand in the columns of a D x N array, and attention multiplies from the right, Y = X A, by a matrix whose
    columns sum to one."""
    columns, rows = projecting_attention(layout="columns"), projecting_attention()
    X, upstream = normal(0, 2, D, N)
    by_columns, by_rows = mg.tensor(X, requires_grad=True), mg.tensor(X.T, requires_grad=True)
    Y, A = columns(by_columns, need_weights=True)
    Y.backward(mg.tensor(upstream))
    rows(by_rows).backward(mg.tensor(upstream.T))

    U_q, U_k = columns.query.weight.array, columns.key.weight.array
    expected = np.zeros((N, N))
    for j in range(N):
        for i in range(N):
            expected[i, j] = np.exp((U_k @ X[:, i]) @ (U_q @ X[:, j]))
        expected[:, j] /= expected[:, j].sum()
    pairs = (A[0], expected), (Y, X @ expected), (A[0].array.sum(axis=0), 1.0)
    forward = max(require_equal(*pair) for pair in pairs)
    backward = max(require_equal(by_columns.grad.T, by_rows.grad),
                   require_equal(columns.query.weight.grad, rows.query.weight.grad),
                   require_equal(columns.key.weight.grad, rows.key.weight.grad))
    check_gradients(columns, X)
    return f"A, Y = X A and column sums within {forward:.0e}; dX, dU_q, dU_k of both layouts within {backward:.0e}"


@claim("R5", note="002")
def the_summary_block_is_mixed():
    """At the end, attention is added to its normalised input, but the MLP to what it had before its norm."""
    mg.manual_seed(0)
    block = Block(TransformerConfig(width=D, heads=2, placement="mixed"), is_causal=False).double()
    for name, parameter in block.named_parameters():
        if not name.startswith("ln"):
            nn.init.normal_(parameter, std=0.4)
    x = normal(1, 1, N, D)
    X_bar = normalised(x)
    Y = X_bar + block.attention(mg.tensor(X_bar)).array
    expected = Y + block.mlp(mg.tensor(normalised(Y))).array
    out = block(mg.tensor(x))
    difference = require_equal(out, expected)
    others = {}
    for placement in ("inner", "pre"):
        other = Block(TransformerConfig(width=D, heads=2, placement=placement), is_causal=False).double()
        other.load_state_dict(block.state_dict())
        others[placement] = largest(other(mg.tensor(x)), out)
    require(min(others.values()) > 0.1, f"it can hardly be told from others: {others}")
    check_gradients(block, x, fast_mode=True)

    idle = silence(block)(mg.tensor(x))
    require_equal(idle, normalised(x))
    from_identity = largest(idle, x)
    return (f"spelled out within {difference:.0e}; {others['inner']:.2f} from note 000's block and "
            f"{others['pre']:.2f} from pre-norm; with zero outputs it is LN(X), {from_identity:.2f} from X")


@claim("G10", note="002")
def attention_resolves_words_and_sees_images():
    """Tokens can be words, whose meaning attention takes from the words around them, such as the bank of a river or one
    for cash (note 003), and just as well patches of an image."""
    bank, stripes = TASKS["bank"], TASKS["stripes"]
    right = {}
    for task, name, width, steps in ((bank, "no-attention", 32, 150), (bank, "encoder", 32, 150),
                                     (stripes, "encoder", 64, 300)):
        config = TransformerConfig(context=16, layers=1, heads=4, width=width)
        right[task.name, name] = task.accuracy(trained(task, name, config, steps=steps, lr=3e-3, warmup_steps=20))
    blind, bank_right, stripes_right = right.values()
    require(abs(blind - 0.5) < 0.06, f"without attention {blind:.1%} of the banks are right")
    require(bank_right > 0.99, f"with attention only {bank_right:.1%} of the banks are right")
    require(stripes_right > 0.95, f"only {stripes_right:.1%} of the stripes are right")
    return (f"bank: {blind:.0%} without attention, {bank_right:.0%} with it; stripes from 2 x 2 patches: "
            f"{stripes_right:.0%}")


@claim("E1", note="002", verdict=FALSE)
def one_projection_makes_attention_symmetric():
    """With the same map U for both tokens the attention matrix would be symmetric: any two tokens would attend to each
    other equally. (Only the logits are symmetric; each token then normalises over keys of its own.)"""
    x, asymmetry = mg.tensor(normal(0, N, D)), {}
    for query_key in ("shared", "separate"):
        layer = projecting_attention(query_key)
        q = layer.query(x)
        logits = q @ (q if query_key == "shared" else layer.key(x)).T
        weights = layer(x, need_weights=True)[1][0]
        require_equal(weights, softmax(logits.array))
        asymmetry[query_key] = largest(logits, logits.T), largest(weights, weights.T)
    (logits, weights), (separate_logits, _) = asymmetry["shared"], asymmetry["separate"]
    require(logits < 1e-12, f"the logits of one projection are asymmetric by {logits:.0e}")
    require(weights > 0.1, f"the weights are symmetric within {weights:.0e}")
    require(separate_logits > 0.1, f"the logits of two projections are symmetric within {separate_logits:.0e}")
    return (f"one projection: logits asymmetric by {logits:.0e}, weights by {weights:.3f}; two projections: logits by "
            f"{separate_logits:.1f}")


@claim("E2", note="002", verdict=FALSE)
def the_printed_sum_normalises_columns():
    """Exponentiated similarities are divided by their sum over the second index, so that each column of A sums to one.
    (The second index belongs to the query in Y = X A: the sum must run over the first one.)"""
    X, layer = mg.tensor(normal(0, D, N)), projecting_attention(layout="columns")
    logits = X.T @ layer.key.weight.T @ layer.query.weight @ X  # of keys and queries
    printed, mended = logits.softmax(1), logits.softmax(0)
    Y, A = layer(X, need_weights=True)
    difference = max(require_equal(mended, A[0]), require_equal(X @ mended, Y), require_equal(mended.sum(0), 1.0))
    sums, wrong = printed.sum(0).array, largest(X @ printed, Y)
    beyond = ((X @ printed).max(1)[0] - X.max(1)[0]).max().item()
    require(largest(sums, 1.0) > 0.1, f"the columns of the printed formula do sum to one: {sums}")
    require(wrong > 0.1, f"the printed formula gives the layer's output within {wrong:.0e}")
    return (f"column sums as printed {', '.join(f'{total:.2f}' for total in sums)}, its output off by {wrong:.2f} and "
            f"{beyond:.2f} above the largest token; over the first index within {difference:.0e}")


@claim("E12", note="002", verdict=FALSE)
def the_transposes_and_superscripts():
    """A similarity is written with both tokens transposed, the result's superscript includes its index, and layer m's
    input is called X^(m) in the text but X^(m-1) in the formula. (x_iᵀ x_j, x_n^(m), and X^(m-1) throughout.)"""
    mg.manual_seed(0)
    X, layer = mg.tensor(normal(0, D, N)), plain_attention(D, query_key="none", layout="columns")
    x_i, x_j, U = X[:, 1:2], X[:, 2:3], mg.tensor(normal(1, K, D))
    refusal(lambda: x_i.T @ x_j.T)
    refusal(lambda: x_i.T @ U.T @ U @ x_j.T)
    Y, A = layer(X, need_weights=True)
    logits = np.array([[(X[:, i : i + 1].T @ X[:, j : j + 1]).item() for j in range(N)] for i in range(N)])
    expected = np.exp(logits) / np.exp(logits).sum(axis=0)
    difference = max(require_equal(A[0], expected), require_equal(Y, X @ A[0]))

    mlp = nn.Sequential(nn.Linear(D, 4 * D, activation="relu"), nn.Linear(4 * D, D)).double()
    of_all = mlp(Y.T).T
    token_by_token = np.stack([mlp(Y[:, n]).array for n in range(N)], axis=1)
    difference = max(difference, require_equal(of_all, token_by_token))
    wrong_input = largest(layer(of_all), Y)
    require(wrong_input > 0.1, f"X^(m) and X^(m-1) give the same within {wrong_input:.0e}")
    return (f"(1 x {D}) times (1 x {D}) does not multiply; x_iᵀ x_j, Y = X^(m-1) A and x_n = MLP(y_n) within "
            f"{difference:.0e}; reading X^(m) for the input is off by {wrong_input:.2f}")
