"""A multilayer perceptron that reads digits, with the training loop from PyTorch's tutorials.

    python examples/mlp.py

Only the import lines differ from a PyTorch file; their comments give the originals.
"""
import tempfile

import minigrad as torch  # import torch
import nn  # from torch import nn
from digits import as_text, digits
from nn.utils.data import DataLoader, Dataset, random_split  # from torch.utils.data import ...

device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"


class Digits(Dataset):
    def __init__(self, samples):
        self.images, self.labels = digits(samples, seed=0)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.stack = nn.Sequential(nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.stack(self.flatten(x))


def train(loader, model, loss_fn, optimizer):
    model.train()
    for X, y in loader:
        X, y = X.to(device), y.to(device)
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test(loader, model, loss_fn):
    """The mean loss, and the share of digits that are read rightly."""
    model.eval()
    loss, correct = 0.0, 0.0
    with torch.no_grad():
        for X, y in loader:
            prediction = model(X.to(device))
            loss += loss_fn(prediction, y.to(device)).item()
            correct += (prediction.argmax(1) == y).type(torch.float).sum().item()
    return loss / len(loader), correct / len(loader.dataset)


def main(samples=6000, epochs=8):
    torch.manual_seed(0)
    held_out, training = random_split(Digits(samples), [samples // 6, samples - samples // 6])
    train_loader = DataLoader(training, batch_size=64, shuffle=True, drop_last=True)
    test_loader = DataLoader(held_out, batch_size=256)
    model, loss_fn = Network().to(device), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        train(train_loader, model, loss_fn, optimizer)
        loss, accuracy = test(test_loader, model, loss_fn)
        print(f"epoch {epoch + 1}: loss {loss:.3f}, {accuracy:.1%} of new digits are read rightly")

    with tempfile.TemporaryDirectory() as folder:  # saved, and loaded into another model
        torch.save(model.state_dict(), f"{folder}/model.pth")
        model = Network().to(device)
        model.load_state_dict(torch.load(f"{folder}/model.pth", weights_only=True))
    X, _ = next(iter(test_loader))
    print(as_text(X[:4, 0].numpy()))
    print("read as", model(X[:4]).argmax(1).tolist())
    return test(test_loader, model, loss_fn)[1]


if __name__ == "__main__":
    main()
