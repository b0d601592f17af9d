"""A model in nanoGPT's style, written for PyTorch, works after changing its imports, as README says."""
import math

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
