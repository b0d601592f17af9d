"""Data-parallel training on several ranks by MPI (extra mpi): each computes its share of every batch.

    mpiexec -n 2 python examples/data_parallel.py

All ranks hold the same model and draw the same batches. Gradients are summed over the ranks after backward, so each rank
takes the same step, and the losses are those of a single process: python examples/data_parallel.py.
"""
import minigrad as mg
import nn
from digits import digits
from models.distributed import Alone, connected
from nn import functional as F


def train(ranks: Alone, steps: int, batch_size: int) -> list[float]:
    """The mean losses over whole batches."""
    mg.manual_seed(0)  # the same weights and batches on all ranks
    images, labels = map(mg.from_numpy, digits(5000, seed=0))
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        batch = mg.randint(0, len(images), (batch_size,))
        own = batch[ranks.rows(batch_size)]
        loss = F.cross_entropy(model(images[own]), labels[own], reduction="sum") / batch_size
        optimizer.zero_grad()
        loss.backward()
        ranks.sum_gradients(list(model.parameters()))
        optimizer.step()
        losses += ranks.sum([loss.item()]).tolist()
        if ranks.is_first and (step % 50 == 0 or step == steps - 1):
            print(f"step {step:3}: loss {losses[-1]:.6f} over {batch_size} digits, {len(own)} on rank 0", flush=True)
    return losses


def main(steps: int = 301, batch_size: int = 64) -> list[float]:
    with connected() as ranks:
        return train(ranks, steps, batch_size)


if __name__ == "__main__":
    main()
