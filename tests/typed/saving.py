"""State dicts, saved and loaded."""
import pathlib
import tempfile

import minigrad as mg
import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = nn.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "model.npz"
    mg.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}, path)
    state = mg.load(path)
missing = model.load_state_dict(state["model"], strict=False).missing_keys
optimizer.load_state_dict(state["optimizer"])
nn.init.kaiming_uniform_(nn.Parameter(mg.zeros(3, 3)), nonlinearity="relu")
sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
print(missing, sizes, model.float().double().eval().requires_grad_(False))
