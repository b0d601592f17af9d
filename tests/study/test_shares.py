"""How a gradient comes down a stack of blocks: past attention and MLPs, and as a whole."""
import itertools

import numpy as np
import pytest

import minigrad as mg
from docs.notebook import GUIDE
from minigrad.tracing import shares as shares_of
from models.config import PLACEMENTS
from study.page import block, pages, shares

FROZEN = {  # a block from x, and from what its attention and its MLP add, as if these did not depend on x
    "pre": lambda ln_1, ln_2, x, a, m: x + a + m,
    "post": lambda ln_1, ln_2, x, a, m: ln_2(ln_1(x + a) + m),
    "inner": lambda ln_1, ln_2, x, a, m: ln_2(ln_1(x) + a) + m,
    "mixed": lambda ln_1, ln_2, x, a, m: ln_1(x) + a + m,
}


@pytest.mark.parametrize("placement", FROZEN)
def test_the_part_along_residual_connections_is_that_of_blocks_whose_sublayers_are_constants(placement):
    blocks, x, upstream = shares.stack(placement, 2, seed=3, width=8)
    frozen, at, seen = [], x, {}
    for layer in blocks:
        handles = [getattr(layer, name).register_forward_hook(lambda module, inputs, out, name=name: seen.update({name: out}))
                   for name in ("attention", "mlp")]
        after = layer(at)
        for handle in handles:
            handle.remove()
        frozen.append(lambda x, layer=layer, a=seen["attention"].detach(), m=seen["mlp"].detach():
                      FROZEN[placement](layer.ln_1, layer.ln_2, x, a, m))
        assert frozen[-1](at).detach().numpy() == pytest.approx(after.detach().numpy(), abs=1e-12)
        at = after.detach()
    whole = mg.vjp(lambda x: blocks[1](blocks[0](x)), x, upstream)[1].numpy()
    skip = mg.vjp(lambda x: frozen[1](frozen[0](x)), x, upstream)[1].numpy()
    length, skip_length, _ = shares.down(blocks, x, upstream)
    assert (length, skip_length) == pytest.approx((np.linalg.norm(whole), np.linalg.norm(skip)))


def test_the_share_of_a_blocks_residual_connections():
    """In pre-norm blocks, they carry what arrives at the block."""
    blocks, x, upstream = shares.stack("pre", 3, seed=3, width=8)
    xs = [x.requires_grad_(True)]
    for layer in blocks:
        xs.append(layer(xs[-1]))
    gradients = [gradient.numpy().ravel() for gradient in mg.grad(xs[-1], xs, upstream)]
    expected = [after @ before / (before @ before) for before, after in itertools.pairwise(gradients)]
    assert shares.down(blocks, x, upstream)[2] == pytest.approx(expected)


@pytest.mark.parametrize("initialisation, matrix, writer, tokens", [
    ("1/sqrt(inputs)", 64**-0.5, 64**-0.5, 1.0), ("GPT-2", 0.02, 0.02 / 4, 0.02 * 2**0.5)])
def test_a_stack_at_initialisation(initialisation, matrix, writer, tokens):
    blocks, x, upstream = shares.stack("post", 8, 1, initialisation, width=64)
    assert len(blocks) == 8 and np.linalg.norm(upstream.numpy()) == pytest.approx(1)
    for name, expected in (("attention.in_proj_weight", matrix), ("attention.out_proj.weight", writer)):
        assert np.std(dict(blocks[7].named_parameters())[name].detach().numpy()) == pytest.approx(expected, rel=0.05)
    assert np.std(x.numpy()) == pytest.approx(tokens, rel=0.1)


def test_a_share_is_more_than_all_where_another_points_the_other_way():
    part, other = np.array([3.0, 1.0]), np.array([-1.0, 1.0])
    assert (shares.share(part, part + other), shares.share(other, part + other)) == (1.0, 0.0)
    assert shares.share(part, part - part / 2) == 2.0 and shares.share(-part / 2, part - part / 2) == -1.0


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_words_agree_with_the_numbers(placement):
    """What goes past the sublayers of a whole block is the gradient of its output, less than that, or nothing."""
    numbers = block.draw(placement)
    trace, words = pages.trace_of(block.block, numbers), shares.in_words(placement)
    paths = shares.paths_in_block(trace, placement)
    residuals = [[path for path, label in found.items() if "residual" in label] for found in paths.values()]
    assert (words == [shares.IN_WORDS, shares.OF_A_STACK["gaps"]]) == (not all(residuals))
    if all(residuals):
        (first,), _ = residuals
        middle = list(paths)[1]
        is_same = [np.array_equal(gradient, expected) for gradient, expected in (
            (shares_of(trace, "x", [first])[first], trace[middle].gradient),
            (shares_of(trace, middle, residuals[1])[residuals[1][0]], numbers.upstream))]
        assert (words[1] == shares.OF_A_STACK["nothing"]) == all(is_same)


def test_the_page_of_a_block_says_what_its_shares_mean():
    assert pages.page_of_block(block.draw("post")).extras["about_shares"] == shares.in_words("post")


def test_the_guide_says_what_shares_of_a_block_are():
    for placement in ("pre", "post"):
        found = []
        for seed in range(1, 21):
            trace = pages.trace_of(block.block, block.draw(placement, seed=seed))
            (path,) = (path for path, label in shares.paths_in_block(trace, placement)["x"].items() if label == "the residual")
            found.append(shares.share(shares_of(trace, "x", [path])[path], trace["x"].gradient))
        said = f"{np.median(found):.0%} ({min(found):.0%} to {max(found):.0%}) with {placement}-norm"
        assert said in GUIDE.read_text(encoding="utf-8")
