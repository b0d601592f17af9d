"""Random steps with state in Python, plain and compiled: the same bits, a refusal, or an error within a few calls.

    python tests/fuzz/stateful.py [--minutes 30] [--seed 0]

A step is drawn as text. It reads and sets variables of every kind (SLOTS), makes decisions that depend on them, steps
optimizers, and is wrapped in various ways (FORMS). Between calls, variables are set from outside. Two worlds with the same
seed run in parallel, one with the plain and one with the compiled step. After each call the results, the parameters and the
variables are compared. A difference is silent if none of the next calls at which Python runs the step again raises an error.
A short form is tests/minigrad/test_fuzz.py.
"""
import pathlib
import random
import sys
import textwrap
import types

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = map(str, (pathlib.Path(__file__).parents[2], pathlib.Path(__file__).parents[1]))

import minigrad as mg
from fuzz.searching import parser, search

# For each kind of variable: its definition at the top of the file, in World.__init__, and how it is read.
SLOTS = {
    "global": ("G{n} = {v}", "", "G{n}"),
    "attribute": ("", "self.a{n} = {v}", "self.a{n}"),
    "by name": ("", "self.b{n} = {v}", 'getattr(self, "b{n}")'),
    "class attribute": ("", "World.k{n} = {v}", "World.k{n}"),
    "class attribute by self": ("", "World.m{n} = {v}", "self.m{n}"),
    "dict": ("D = {{}}", 'D["d{n}"] = {v}', 'D["d{n}"]'),
    "globals()": ("N{n} = {v}", "", 'globals()["N{n}"]'),
    "list": ("L = [0.0] * 99", "L[{n}] = {v}", "L[{n}]"),
    "nested": ("TREE = [{{'x': types.SimpleNamespace(n=0.0)}} for _ in range(99)]", "TREE[{n}]['x'].n = {v}", "TREE[{n}]['x'].n"),
    "namespace": ("S = types.SimpleNamespace()", "S.s{n} = {v}", "S.s{n}"),
    "slots": ("class Slots:\n    __slots__ = ('q',)\nQ = [Slots() for _ in range(99)]", "Q[{n}].q = {v}", "Q[{n}].q"),
    "dataclass": ("@dataclasses.dataclass\nclass C{n}:\n    x: float = 0.0\nc{n} = C{n}()", "c{n}.x = {v}", "c{n}.x"),
    "module": ("settings = types.ModuleType('settings')", "settings.t{n} = {v}", "settings.t{n}"),
    "function": ("def f{n}(x): return x * f{n}.scale", "f{n}.scale = {v}", "f{n}.scale"),
    "default": ("def g{n}(box=[0.0]): return box[0]", "g{n}.__defaults__[0][0] = {v}", "g{n}()"),
    "array": ("A = np.zeros(99)", "A[{n}] = {v}", "float(A[{n}])"),
    "array as a tensor": ("B = np.zeros(99)", "B[{n}] = {v}", "mg.tensor(B)[{n}].float()"),
    "new array": ("E = np.zeros(99)", "E[{n}] = {v}", "(E + 0)[{n}].item()"),
    "tensor": ("T{n} = mg.tensor({v})", "", "T{n}"),
    "detached": ("U{n} = mg.tensor({v}, requires_grad=True)", "", "U{n}.detach()"),
    "property": ("", "self._p{n} = {v}", "self.p{n}"),
    "set": ("Z = set()", "self.z{n} = {v}; Z.add({n})", "(1.5 if {n} in Z else self.z{n})"),
    "deque": ("O = collections.deque([0.0] * 99)", "O[{n}] = {v}", "O[{n}]"),
    "closure": ("def make{n}(value):\n    def get(): return value\n    def put(new):\n        nonlocal value\n        value = new\n    return get, put\n"
                "get{n}, put{n} = make{n}({v})", "", "get{n}()"),
    "large list": ("BIG = [0.0] * 2000", "BIG[{n}] = {v}", "BIG[{n}]"),
    "large array": ("HUGE = np.zeros(99999)", "HUGE[{n}] = {v}", "float(HUGE[{n}])"),
    "named by a local": ("class Config: pass\nconfig = Config()", "config.h{n} = {v}", "(lambda own: own.h{n})(config)"),
}  # fmt: skip
SETS_BY = {"by name": 'setattr(self, "b{n}", {v})', "class attribute by self": "self.m{n} = {v}", "closure": "put{n}({v})",
           "detached": "U{n}.data = np.float32({v})", "tensor": "T{n}.data = np.float32({v})",
           "set": "Z.symmetric_difference_update([{n}])"}  # the others as in __init__, or else by `= {v}`
USES = [
    "y = y * {r}", "y = y + {r}", "y = y * 0.5 if {number} > 1.2 else y", "y = y - 0.1 * {r} if int({number} * 10) % 2 else y + 1",
    "for _ in range(int({number} * 2)): y = (y * 1.1).tanh()", "y = (y @ w) * {r}", "y = [y, y * 2][int({number}) % 2]",
]  # fmt: skip
CHANGES = ["+ 0.25", "* 1.5", "+ 1", "* 0.5"]
OPTIMIZING = [
    "optimizer.step(); optimizer.zero_grad()", "optimizer.step()", "scheduler.step(); optimizer.step(); optimizer.zero_grad()", "",
    "(optimizer if {number} > 1.2 else other).step(); optimizer.zero_grad()",
    "if int({number} * 4) % 2: optimizer.step(); optimizer.zero_grad()",
    "scheduler.step(); loss = loss * optimizer.param_groups[0]['lr']; optimizer.step(); w.grad = None",
    "for group in optimizer.param_groups: group['lr'] = 0.01 * {number}\noptimizer.step(); w.grad = None",
]  # fmt: skip
FORMS = {
    "method": "step = world.step", "function": "def step(x): return world.step(x)", "lambda": "step = lambda x: world.step(x)",
    "partial": "step = functools.partial(World.step, world)", "decorated": "step = mg.enable_grad()(world.step)",
    "wrapped": "def around(f):\n    @functools.wraps(f)\n    def call(*a): return f(*a)\n    return call\nstep = around(world.step)",
    "callable": "class Step:\n    def __init__(self, world): self.world = world\n    def __call__(self, x): return self.world.step(x)\n"
                "step = Step(world)",
    "of a list": "steps = {'a': [world.step]}\nstep = lambda x: steps['a'][0](x)",
    "subclass": "class Sub(World):\n    def step(self, x): return super().step(x)\nworld = Sub()\nstep = world.step",
}  # fmt: skip
HEAD = """
import collections, dataclasses, functools, types
import numpy as np
import minigrad as mg, nn
w = nn.Parameter(mg.tensor([[0.5, -0.3, 0.2], [0.1, 0.4, -0.2], [0.3, 0.2, 0.6]]))
optimizer, other = nn.optim.AdamW([w], lr=0.05), nn.optim.SGD([w], lr=0.1)
scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 3)
"""


class Life:
    """The text of a step, drawn from a seed, and what happens between its calls."""

    def __init__(self, seed: int, calls: int = 10):
        self.draw = random.Random(seed)
        kinds = [self.draw.choice(list(SLOTS)) for _ in range(self.draw.randint(1, 5))]
        self.slots = [(kind, n, round(self.draw.uniform(0.6, 1.9), 2)) for n, kind in enumerate(kinds)]
        self.form = self.draw.choice(list(FORMS))
        self.sets_itself = self.draw.random() < 0.35
        self.events = [[self._set(*self.draw.choice(self.slots)) for _ in range(self.draw.choice([0, 0, 0, 1, 2]))]
                       for _ in range(calls)]  # fmt: skip

    def _read(self, kind: str, n: int, _=None) -> str:
        return SLOTS[kind][2].format(n=n)

    def _number(self, kind: str, n: int) -> str:
        return "1.0" if kind in ("tensor", "detached", "array as a tensor") else self._read(kind, n)

    def _set(self, kind: str, n: int, value: float, relative: bool = False) -> str:
        value = f"{self._read(kind, n)} {self.draw.choice(CHANGES)}" if relative else round(self.draw.uniform(0.6, 1.9), 2)
        return SETS_BY.get(kind, SLOTS[kind][1] or SLOTS[kind][2] + " = {v}").format(n=n, v=value)

    def text(self) -> str:
        """The source: the variables, and the step that uses them."""
        draw, body = self.draw, []
        top = dict.fromkeys(SLOTS[kind][0].format(n=n, v=value) for kind, n, value in self.slots)
        start = [SLOTS[kind][1].format(n=n, v=value) for kind, n, value in self.slots]
        for kind, n, _ in draw.choices(self.slots, k=draw.randint(1, 5)):
            body.append(draw.choice(USES).format(r=self._read(kind, n), number=self._number(kind, n)))
        if self.sets_itself:
            kind, n, value = draw.choice(self.slots)
            if kind not in ("tensor", "detached"):
                body.insert(draw.randint(0, len(body)), self._set(kind, n, value, kind not in ("array as a tensor", "set")))
        kind, n, _ = draw.choice(self.slots)
        body += ["loss = (y * y).mean() + (w * w).sum() * 0.01", "loss.backward()"]
        body += draw.choice(OPTIMIZING).format(number=self._number(kind, n)).split("\n")
        body.append(draw.choice(["return loss", "return [loss, y]", "return {'loss': loss, 'y': (y,)}", "return None"]))
        names = ", ".join(f"G{n}" for kind, n, _ in self.slots if kind == "global")
        properties = [f"@property\ndef p{n}(self): return self._p{n}" for kind, n, _ in self.slots if kind == "property"]
        return "\n".join([
            HEAD, *filter(None, top), "class World:", "    def __init__(self):", *[f"        {line or 'pass'}" for line in start],
            *[textwrap.indent(text, "    ") for text in properties], "    def step(self, x):", f"        global {names}" if names else "",
            "        y = x @ w", *[f"        {line}" for line in body], "world = World()", FORMS[self.form],
        ])  # fmt: skip


def observed(names: dict, life: Life) -> list:
    """The parameters, their gradients, and the variables."""
    found = [names["w"].detach().numpy().copy(), None if names["w"].grad is None else names["w"].grad.numpy().copy()]
    for kind, n, _ in life.slots:
        value = eval(life._read(kind, n), names, {"self": names["world"]})
        found.append(value.detach().numpy().copy() if isinstance(value, mg.Tensor) else np.float64(value))
    return found


def flat(results) -> list:
    if isinstance(results, dict):
        return [("dict", list(results))] + [leaf for value in results.values() for leaf in flat(value)]
    if isinstance(results, (list, tuple)):
        return [(type(results).__name__, len(results))] + [leaf for value in results for leaf in flat(value)]
    return [None if results is None else results.detach().numpy().copy()]


def are_alike(a: list, b: list) -> bool:
    return len(a) == len(b) and all(
        x.tobytes() == y.tobytes() and x.shape == y.shape if isinstance(x, (np.ndarray, np.generic)) and isinstance(y, (np.ndarray, np.generic))
        else x is y or type(x) is tuple and x == y for x, y in zip(a, b))  # fmt: skip


def live(seed: int, calls: int = 10) -> str:
    """Run two worlds: "same", "refused: why" or "found out: why". AssertionError if they differ without an error."""
    life = Life(seed, calls)
    text, worlds = life.text(), []
    for name in ("plain", "compiled"):
        module = types.ModuleType(f"fuzzed_{name}")
        exec(compile(text, f"<seed {seed}>", "exec"), vars(module))
        worlds.append(vars(module))
    plain, compiled = worlds
    step, wrong_since = mg.compile(compiled["step"]), None
    for call in range(1, 4 * calls):
        if call > calls and wrong_since is None:
            return "same"
        x = mg.tensor(np.random.default_rng(seed + call).standard_normal((2, 3)).astype(np.float32))
        before = observed(compiled, life)
        expected = plain["step"](x)
        try:
            got = step(x)
        except (RuntimeError, TypeError) as error:
            assert str(error).startswith("compile:"), f"seed {seed}, call {call}: {error!r}\n{text}"
            if call == 1:
                assert are_alike(before, observed(compiled, life)), f"seed {seed}: a refused call changed something\n{text}"
            return ("found out" if wrong_since else "refused") + f": {error}"[:60]
        alike = are_alike(flat(expected) + observed(plain, life), flat(got) + observed(compiled, life))
        wrong_since = wrong_since or (None if alike else call)
        for event in life.events[call - 1] if call <= calls else ():
            for names in worlds:
                exec(event, names, {"self": names["world"]})
    raise AssertionError(f"seed {seed}: SILENT since call {wrong_since}\n{text}\n{life.events}")


if __name__ == "__main__":
    sys.exit(search(live, parser(__doc__).parse_args()))
