"""Note 002, an introduction: tokens are the columns of X (D, N), and attention is Y = X A."""
import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from models.architectures import make_model
from study.notes.claims import FALSE, claim, require
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import Block, TransformerConfig

N, D, K = 5, 8, 4  # tokens, features, features after a projection


def plain_attention(query_key: str = "separate", **switches) -> nn.Attention:
    """Attention as the note has it, in float64: weighted tokens without values, scale and read-out."""
    mg.manual_seed(0)
    key_size = None if query_key == "none" else K
    layer = nn.Attention(D, query_key=query_key, key_size=key_size, value=False, read_out="none",
                         scale="none", **switches)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer.double()


def column_logits(X: Tensor, layer: nn.Attention) -> Tensor:
    """x_iᵀ U_kᵀ U_q x_j for all tokens i, the keys, and j, the queries, of columns X (D, N)."""
    return X.T @ layer.key.weight.T @ layer.query.weight @ X


def largest(difference) -> float:
    return float(np.abs(np.asarray(difference)).max())


def zero_outputs(block: Block) -> None:
    """Let attention and MLP give zeros."""
    for layer in (block.attention.out_proj, block.mlp.project):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)


@claim("L2", note="002")
def columns_are_rows_transposed():
    """Tokens stand in the columns of a D x N array, and attention multiplies from the right, Y = X A, by a matrix whose
    columns sum to one."""
    columns, rows = plain_attention(layout="columns"), plain_attention(layout="rows")
    X, upstream = np.random.default_rng(0).normal(size=(2, D, N))
    by_columns, by_rows = mg.tensor(X, requires_grad=True), mg.tensor(X.T, requires_grad=True)
    Y, A = columns(by_columns, need_weights=True)
    Y.backward(mg.tensor(upstream))
    rows(by_rows).backward(mg.tensor(upstream.T))

    U_q, U_k = (projection.weight.detach().numpy() for projection in (columns.query, columns.key))
    expected = np.zeros((N, N))
    for j in range(N):
        for i in range(N):
            expected[i, j] = np.exp((U_k @ X[:, i]) @ (U_q @ X[:, j]))
        expected[:, j] /= expected[:, j].sum()
    A = A.detach().numpy()[0]
    forward = max(largest(A - expected), largest(Y.detach() - X @ expected), largest(A.sum(axis=0) - 1))
    backward = max(largest(by_columns.grad.T - by_rows.grad),
                   largest(columns.query.weight.grad - rows.query.weight.grad),
                   largest(columns.key.weight.grad - rows.key.weight.grad))
    require(forward < 1e-12, f"A, Y or the column sums are off by {forward:.0e}")
    require(backward < 1e-12, f"dX, dU_q or dU_k differ between columns and rows by {backward:.0e}")
    mg.gradcheck_module(columns, [by_columns], progress=False)
    return f"A, Y = X A and column sums within {forward:.0e}; dX, dU_q, dU_k of both layouts within {backward:.0e}"


def normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@claim("R5", note="002")
def the_summary_block_is_mixed():
    """At the end, attention is added to its normalised input, but the MLP to what it had before its norm."""
    rng = np.random.default_rng(1)
    config = TransformerConfig(width=D, heads=2, placement="mixed")
    mg.manual_seed(0)
    block = Block(config, is_causal=False).double()
    for name, parameter in block.named_parameters():
        if not name.startswith("ln"):
            nn.init.normal_(parameter, std=0.4)
    x = rng.normal(size=(1, N, D))
    with mg.no_grad():
        X_bar = normalised(x)
        Y = X_bar + block.attention(mg.tensor(X_bar)).numpy()
        expected = Y + block.mlp(mg.tensor(normalised(Y))).numpy()
        out = block(mg.tensor(x)).numpy()
        others = {}
        for placement in ("inner", "pre"):
            other = Block(TransformerConfig(width=D, heads=2, placement=placement), is_causal=False).double()
            other.load_state_dict(block.state_dict())
            others[placement] = largest(other(mg.tensor(x)).numpy() - out)
    difference = largest(out - expected)
    require(difference < 1e-12, f"the block is off by {difference:.0e}")
    require(min(others.values()) > 0.1, f"it can hardly be told from others: {others}")
    mg.gradcheck_module(block, [mg.tensor(x, requires_grad=True)], progress=False, fast_mode=True)

    zero_outputs(block)
    idle = block(mg.tensor(x)).detach().numpy()
    from_norm, from_identity = largest(idle - normalised(x)), largest(idle - x)
    require(from_norm < 1e-12 < from_identity, f"without outputs it is {from_norm:.0e} from LN(X)")
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
        model = make_model(task, name, TransformerConfig(context=16, layers=1, heads=4, width=width))
        Trainer(model, task, TrainingConfig.of(task, steps=steps, lr=3e-3, warmup_steps=20)).train()
        right[task.name, name] = task.accuracy(model)
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
    x = mg.tensor(np.random.default_rng(0).normal(size=(N, D)))
    asymmetry = {}
    with mg.no_grad():
        for query_key in ("shared", "separate"):
            layer = plain_attention(query_key)
            q = layer.query(x)
            logits = q @ (q if query_key == "shared" else layer.key(x)).T
            weights = layer(x, need_weights=True)[1][0]
            from_logits = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(axis=1, keepdims=True)
            require(largest(weights.numpy() - from_logits) < 1e-12, "the weights are not the softmax of these logits")
            asymmetry[query_key] = largest(logits - logits.T), largest(weights - weights.T)
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
    X = mg.tensor(np.random.default_rng(0).normal(size=(D, N)))
    layer = plain_attention(layout="columns")
    with mg.no_grad():
        logits = column_logits(X, layer)
        printed, mended = logits.softmax(1), logits.softmax(0)
        Y, A = layer(X, need_weights=True)
        sums = printed.sum(0).numpy()
        difference = max(largest(mended - A[0]), largest(X @ mended - Y), largest(mended.sum(0).numpy() - 1))
        wrong = largest(X @ printed - Y)
        beyond = float((X @ printed).max(1)[0].sub(X.max(1)[0]).max())
    require(difference < 1e-12, f"the sum over the first index differs from the layer by {difference:.0e}")
    require(largest(sums - 1) > 0.1, f"the columns of the printed formula do sum to one: {sums}")
    require(wrong > 0.1, f"the printed formula gives the layer's output within {wrong:.0e}")
    return (f"column sums as printed {', '.join(f'{total:.2f}' for total in sums)}, its output off by {wrong:.2f} and "
            f"{beyond:.2f} above the largest token; over the first index within {difference:.0e}")


@claim("E12", note="002", verdict=FALSE)
def the_transposes_and_superscripts():
    """A similarity is written with both tokens transposed, the result's superscript includes its index, and layer m's
    input is called X^(m) in the text but X^(m-1) in the formula. (x_iᵀ x_j, x_n^(m), and X^(m-1) throughout.)"""
    rng = np.random.default_rng(0)
    X, layer = mg.tensor(rng.normal(size=(D, N))), plain_attention("none", layout="columns")
    U = mg.tensor(rng.normal(size=(K, D)))
    x_i, x_j = X[:, 1:2], X[:, 2:3]
    for printed in (lambda: x_i.T @ x_j.T, lambda: x_i.T @ U.T @ U @ x_j.T):
        try:
            shape = printed().shape
        except ValueError:
            continue
        require(False, f"the printed product exists and has shape {shape}")
    Y, A = (out.numpy() for out in layer(X, need_weights=True))
    A = A[0]
    logits = np.array([[(X[:, i : i + 1].T @ X[:, j : j + 1]).item() for j in range(N)] for i in range(N)])
    expected = np.exp(logits) / np.exp(logits).sum(axis=0)
    difference = max(largest(A - expected), largest(Y - X.numpy() @ A))

    mlp = nn.Sequential(nn.Linear(D, 4 * D, activation="relu"), nn.Linear(4 * D, D)).double()
    with mg.no_grad():
        of_all = mlp(mg.tensor(Y.T)).numpy().T
        token_by_token = np.stack([mlp(mg.tensor(Y[:, n])).numpy() for n in range(N)], axis=1)
    wrong_input = largest(layer(mg.tensor(of_all)).numpy() - Y)
    difference = max(difference, largest(of_all - token_by_token))
    require(difference < 1e-12, f"the corrected formulas are off by {difference:.0e}")
    require(wrong_input > 0.1, f"X^(m) and X^(m-1) give the same within {wrong_input:.0e}")
    return (f"(1 x {D}) times (1 x {D}) does not multiply; x_iᵀ x_j, Y = X^(m-1) A and x_n = MLP(y_n) within "
            f"{difference:.0e}; reading X^(m) for the input is off by {wrong_input:.2f}")
