"""A classifier and its training loop, written for PyTorch as its tutorials are: the tests run it with other imports."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
if torch.cuda.is_available():
    device = torch.device("cuda:0")


class Stripes(Dataset):
    """6 x 6 images with a bright row or column, and noise; the label says which of the twelve."""

    def __init__(self, samples, generator=None):
        self.labels = torch.randint(0, 12, (samples,), generator=generator)
        self.images = 0.3 * torch.randn(samples, 1, 6, 6, generator=generator)
        for image, label in zip(self.images, self.labels.tolist()):
            if label < 6:
                image[0, label] += 1.0
            else:
                image[0, :, label - 6] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index].item()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.stack = nn.Sequential(nn.Linear(36, 32), nn.ReLU(), nn.Linear(32, 12))

    def forward(self, x):
        return self.stack(self.flatten(x))


def train(loader, model, loss_fn, optimizer):
    model.train()
    losses = []
    for X, y in loader:
        X, y = X.to(device), y.to(device, non_blocking=True)
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test(loader, model, loss_fn):
    model.eval()
    loss, correct = 0.0, 0.0
    with torch.no_grad():
        for X, y in loader:
            X, y = X.to(device), y.to(device)
            prediction = model(X)
            loss += loss_fn(prediction, y).item()
            correct += (prediction.argmax(1) == y).type(torch.float).sum().item()
    return loss / len(loader), correct / len(loader.dataset)


def main(path, epochs=12):
    """The share of right answers of the model that was trained, saved and loaded again."""
    torch.manual_seed(0)
    training, held_out = random_split(Stripes(600), [500, 100], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(training, batch_size=32, shuffle=True, drop_last=True)
    test_loader = DataLoader(held_out, batch_size=64)
    model = Network().to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    for _ in range(epochs):
        train(train_loader, model, loss_fn, optimizer)
    torch.save(model.state_dict(), path)

    model = Network().to(device)
    model.load_state_dict(torch.load(path, weights_only=True, map_location=device))
    return test(test_loader, model, loss_fn)[1]
