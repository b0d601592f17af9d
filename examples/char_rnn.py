"""A recurrent network that learns words letter by letter, and invents new ones.

    python examples/char_rnn.py

The words are those of Python's language reference. A newline ends each word, and also comes before its first letter.
"""
import re
from pydoc_data.topics import topics

import minigrad as mg
import nn
from nn import functional as F

LETTERS = "\nabcdefghijklmnopqrstuvwxyz"
LONGEST = 12
WORDS = sorted({word for text in topics.values() for word in re.findall(rf"\b[a-z]{{4,{LONGEST}}}\b", text)})


def batches_of(words: list[str]) -> tuple[mg.Tensor, mg.Tensor]:
    """Inputs and targets (words, LONGEST + 1): the target of a letter is the next; -100 (ignored) after the end."""
    ids = mg.tensor([[LETTERS.index(letter) for letter in f"\n{word}".ljust(LONGEST + 2, "\n")] for word in words])
    lengths = mg.tensor([len(word) for word in words])
    targets = ids[:, 1:].masked_fill(mg.arange(LONGEST + 1) > lengths[:, None], -100)
    return ids[:, :-1], targets


class CharRNN(nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.read_out = nn.Linear(width, len(LETTERS))

    def forward(self, ids: mg.Tensor, hidden: mg.Tensor | None = None) -> tuple[mg.Tensor, mg.Tensor]:
        """Logits of the next letters (B, T, letters), and the last hidden state."""
        states, hidden = self.rnn(self.embedding(ids), hidden)
        return self.read_out(states), hidden


@mg.no_grad()
def invent(model: CharRNN, count: int, temperature: float = 0.7) -> list[str]:
    """Words drawn letter by letter, all at once."""
    ids, hidden, words = mg.zeros(count, 1, dtype=mg.int64), None, [""] * count
    for _ in range(LONGEST):
        logits, hidden = model(ids, hidden)
        ids = mg.multinomial((logits[:, -1] / temperature).softmax(-1), 1)
        words = [word + LETTERS[i] for word, (i,) in zip(words, ids.tolist())]
    return [word.split("\n")[0] for word in words]


def main(steps: int = 500, batch_size: int = 128) -> list[float]:
    mg.manual_seed(0)
    inputs, targets = batches_of(WORDS)
    model = CharRNN()
    optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        rows = mg.randint(0, len(WORDS), (batch_size,))
        logits, _ = model(inputs[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), targets[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step:3}: loss {losses[-1]:.3f}; {' '.join(invent(model, 6))}")
    words = invent(model, 60)
    print("\ninvented: ", *sorted(word for word in {*words} if word not in WORDS))
    print("that exist:", *sorted(word for word in {*words} if word in WORDS))
    return losses


if __name__ == "__main__":
    main()
