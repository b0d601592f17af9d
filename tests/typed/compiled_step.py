"""A compiled training step."""
import minigrad as mg
import nn
from minigrad import Tensor
from nn import functional as F

mg.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
optimizer = nn.optim.Joined([nn.optim.Muon([model[0].weight]), nn.optim.Adam([model[0].bias, *model[2].parameters()])],
                            max_grad_norm=1.0)


@mg.compile
def step(x: Tensor, target: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


x, target = mg.randn(16, 4), mg.zeros(16, 1)
losses = [step(x, target).item() for _ in range(20)]
assert losses[-1] < losses[0]
print(optimizer.grad_norm, mg.get_num_threads())
