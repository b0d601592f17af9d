"""Fine-tune a model in a Hugging Face folder until it knows the Zen of Python by heart.

    python examples/finetune.py [FOLDER] [--to OTHER]    # needs the extra hub

FOLDER has a GPT-2 or a Llama, from the Hugging Face Hub or from `minigrad export`. Without it, a small Llama is
first trained on Python's language reference and written as such a folder. With --to, the result is written as another.
"""
import argparse
import codecs
import contextlib
import io
import tempfile

import minigrad as mg
import models
import nn
from models import hub

with contextlib.redirect_stdout(io.StringIO()):  # importing it prints it
    import this

ZEN = codecs.decode(this.s, "rot13")
PROMPT = "Beautiful is "


def make_folder(folder: str, steps: int) -> None:
    """Train a small Llama on the default text, and write it with its tokenizer."""
    preset = models.PRESETS["nano"]
    corpus = models.load_corpus(context=preset.config.context)
    mg.manual_seed(0)
    model = models.CausalTransformer(preset.config)
    models.Trainer(model, corpus, models.TrainingConfig(steps=steps, optimizer="muon")).train()
    hub.write(model, folder, corpus.tokenizer)


def finetune(model: models.CausalTransformer, text: str, steps: int, batch_size: int = 16) -> list[float]:
    """The losses of a plain training loop on random windows of the text."""
    tokens = mg.from_numpy(model.tokenizer.encode(text))
    context = min(model.config.context, 64, len(tokens) - 1)
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for step in range(steps):
        windows = mg.randint(0, len(tokens) - context, (batch_size, 1)) + mg.arange(context + 1)
        batch = tokens[windows]
        _, loss = model(batch[:, :-1], batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:3}: loss {losses[-1]:.3f}")
    model.eval()
    return losses


def main(folder: str | None = None, to: str | None = None, pretraining_steps: int = 200, steps: int = 200) -> list[float]:
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            folder = f"{temporary}/llama"
            print("training a small Llama on Python's language reference ...")
            make_folder(folder, pretraining_steps)
        model = models.load(folder)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; before:")
    print(models.respond(model, PROMPT, tokens=100, temperature=0.5), end="\n\n")
    losses = finetune(model, ZEN, steps)
    print("after:")
    print(models.respond(model, PROMPT, tokens=300, temperature=0))
    if to:
        hub.write(model, to, model.tokenizer)
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--to")
    main(**vars(parser.parse_args()))
