"""A model in nanoGPT's style, written for PyTorch, works after changing its imports, as README says."""
import collections
import copy
import math

import numpy as np
import pytest

import minigrad as mg
import nn
import pytorch_files

SIZES = dict(block_size=8, vocab_size=11, n_layer=2, n_head=2, n_embd=16)


@pytest.fixture(params=[True, False], ids=["fused", "spelled out"])
def file(request):
    return pytorch_files.ours("nanogpt_style.py", request.param)


def test_it_learns_and_generates(file):
    mg.manual_seed(0)
    model = file.GPT(file.GPTConfig(dropout=0.1))
    optimizer = model.configure_optimizers(0.1, 1e-2, (0.9, 0.95), "cpu")
    x = mg.randint(11, (4, 8))
    y = (x + 1) % 11
    losses = []
    for _ in range(30):
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - math.log(11)) < 0.1
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    prompt = x[:1, :3]
    text = model.generate(prompt, max_new_tokens=8, top_k=3)
    assert text.shape == (1, 11)
    assert (text[:, :3] == prompt).all()


def test_its_state_can_be_saved_loaded_copied_and_cropped(file, tmp_path):
    model, restored, copied = (file.GPT(file.GPTConfig()).eval() for _ in range(3))
    x = mg.randint(11, (2, 5))
    logits = model(x, x)[0]
    mg.save({"model": model.state_dict(), "iteration": 7}, tmp_path / "ckpt.pt")
    restored.load_state_dict(mg.load(tmp_path / "ckpt.pt", map_location=x.device)["model"])
    copied.copy_from({name: value.t() if "c_attn.weight" in name else value for name, value in model.state_dict().items()})
    for other in (restored, copied):
        assert not (other(x, x)[0] != logits).any()
    restored.crop_block_size(5)
    assert not (restored(x, x)[0] != logits).any()
    assert restored.transformer.wpe.weight.is_leaf and restored.transformer.wpe.weight.shape == (5, 16)
    assert restored.generate(x, 4).shape == (2, 9)
    with pytest.raises(AssertionError):
        restored(mg.zeros(1, 6, dtype=mg.long))


@pytest.mark.parametrize("is_fused", [True, False])
def test_it_trains_as_in_pytorch(is_fused):
    pytest.importorskip("torch")
    from nanogpt_side_by_side import BOUND, compared

    source = (pytorch_files.FOLDER / "nanogpt_style.py").read_text(encoding="utf-8")
    differences = compared(source, is_fused, SIZES, batch=4, steps=20)
    assert len(differences) == 6
    assert max(differences.values()) <= BOUND, differences


@pytest.mark.parametrize("is_fused", [True, False])
def test_its_gradients_under_autocast_are_no_further_from_float64_than_pytorchs(is_fused):
    """In the median over seeds, for each parameter: the norm of the error, relative to that of the gradient."""
    torch = pytest.importorskip("torch")
    from nanogpt_side_by_side import SideBySide

    source = (pytorch_files.FOLDER / "nanogpt_style.py").read_text(encoding="utf-8")
    sizes = dict(block_size=32, vocab_size=31, n_layer=2, n_head=2, n_embd=64)
    ratios = collections.defaultdict(list)
    for seed in range(5):
        pair = SideBySide(source, is_fused, sizes, seed)
        x, y = pair.batch(8)
        exact = copy.deepcopy(pair.theirs).double()
        exact(torch.tensor(x), torch.tensor(y))[1].backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = pair.theirs(torch.tensor(x), torch.tensor(y))[1]
        loss.backward()
        with mg.autocast("cpu", dtype=mg.bfloat16):
            loss = pair.ours(mg.tensor(x), mg.tensor(y))[1]
        loss.backward()
        ours = dict(pair.ours.named_parameters())
        for (name, right), theirs in zip(exact.named_parameters(), pair.theirs.parameters()):
            right = right.grad.numpy()
            errors = [np.linalg.norm(gradient - right) for gradient in (ours[name].grad.numpy(), theirs.grad.numpy())]
            ratios[name].append(errors[0] / errors[1])
            assert errors[0] > 0
    medians = {name: np.median(found) for name, found in ratios.items()}
    assert max(medians.values()) < 1.05 and np.median(list(medians.values())) < 0.9, medians
