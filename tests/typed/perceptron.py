"""Training in the style of PyTorch's tutorials: modules, batches, a loss, an optimiser, a schedule."""
import minigrad as mg
import nn
from minigrad import Tensor
from nn.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Points(Dataset):
    def __init__(self, samples: int) -> None:
        self.inputs = mg.randn(samples, 2)
        self.labels = (self.inputs[:, 0] * self.inputs[:, 1] > 0).long()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.labels[index]


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width)])
        self.activation = nn.LeakyReLU(negative_slope=0.1)
        self.out = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = self.activation(layer(x))
        return self.out(x)


train, test = random_split(Points(256), [0.75, 0.25])
model = Perceptron(16)
loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
scheduler = nn.optim.CosineAnnealingLR(optimizer, T_max=5)
for _ in range(5):
    for inputs, labels in DataLoader(train, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        loss = loss_function(model(inputs), labels)
        loss.backward()
        norm: Tensor = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    scheduler.step()
model.eval()
with mg.no_grad():
    right = [(model(inputs).argmax(1) == labels).float().mean().item() for inputs, labels in DataLoader(test, batch_size=64)]
print(sum(right) / len(right), scheduler.get_last_lr(), len(TensorDataset(mg.zeros(3, 1))), model.out[1].weight.shape)
