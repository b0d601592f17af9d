"""The packages under the names that files written for PyTorch use."""
import minigrad as mg
import minigrad.models as models
import minigrad.nn as nn
import minigrad.nn.functional as F
import minigrad.optim as optim
from minigrad.nn import init
from minigrad.nn.utils import clip_grad_norm_
from minigrad.optim.lr_scheduler import StepLR
from minigrad.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        init.zeros_(self.layer.weight)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return F.relu(self.layer(x))


net = Net()
optimizer = optim.AdamW(net.parameters(), lr=0.1, foreach=True)
scheduler = StepLR(optimizer, 2)
for (x,) in DataLoader(TensorDataset(mg.ones(4, 2)), batch_size=2):
    loss: mg.Tensor = F.mse_loss(net(x), mg.ones(2, 1))
    loss.backward()
    clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
print(models.TransformerConfig().layers)
