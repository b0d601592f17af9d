"""Decisions of a compiled step in Python are followed, refused by name, or noticed within a few calls."""
import cProfile
import collections
import copy
import functools
import gc
import importlib
import pickle
import re
import sys
import types
import weakref

import numpy as np
import pytest

import minigrad as mg
import nn
from fuzz.stateful import are_alike, flat
from minigrad.fast.compiling import compiled
from minigrad.fast.compiling import code, surroundings
from minigrad.fast.compiling.surroundings import Surroundings

HEAD = """
import collections, contextlib, dataclasses, functools, itertools, random, types
import numpy as np
import minigrad as mg, nn, nn.functional as F
w = nn.Parameter(mg.tensor([[0.5, -0.3], [0.1, 0.4]]))
optimizer, other = nn.optim.AdamW([w], lr=0.05), nn.optim.SGD([w], lr=0.1)
"""
STEP = """
{top}
def step(x):
    {names}
    y = x @ w
    {body}
    loss = (y * y).mean()
    loss.backward()
    {end}
    return loss
"""


def world(top: str = "", body: str = "pass", end: str = "optimizer.step(); optimizer.zero_grad()", names: str = "pass") -> dict:
    """The variables of a module with a step."""
    module = types.ModuleType("written_by_a_user")
    exec(HEAD + STEP.format(top=top, body=body.replace("\n", "\n    "), end=end.replace("\n", "\n    "), names=names), vars(module))
    return vars(module)


def lives(changes: dict[int, str], calls: int = 10, **text) -> str | None:
    """Run the plain and the compiled step, which must give the same bits: None, or the first error. `changes` are made after
    calls."""
    plain, own = world(**text), world(**text)
    step = mg.compile(own["step"])
    for call in range(1, calls + 1):
        x = mg.tensor(np.random.default_rng(call).standard_normal((3, 2)).astype(np.float32))
        expected = plain["step"](x)
        try:
            got = step(x)
        except RuntimeError as error:
            return f"call {call}: {error}"
        for names in (plain, own):
            exec(changes.get(call, "pass"), names)
        states = [[names["w"].detach().numpy(), *flat(result)] for names, result in ((plain, expected), (own, got))]
        assert are_alike(*states), f"call {call}"
    return None


# ---------------------------------------------------------------------------------------------------- followed

FOLLOWED = {  # top of the file, what the step does to y, what is changed outside
    "global": ("k = 2.0", "y = y * k", "k = 3.0"),
    "global that appears": ("", "try: y = y * late\nexcept NameError: pass", "late = 3.0"),
    "global that disappears": ("early = 2.0", "try: y = y * early\nexcept NameError: pass", "del early"),
    "globals()": ("k = 2.0", 'y = y * globals()["k"]', "k = 3.0"),
    "closure": ("def make(k): return lambda x: x * k\nf = make(2.0)", "y = f(y)", "f.__closure__[0].cell_contents = 3.0"),
    "generator": ("class A: k = 2.0\na = A()", "y = sum(y * a.k for _ in range(2))", "a.k = 3.0"),
    "function": ("def f(x): return x * 2", "y = f(y)", "f = lambda x: x * 3"),
    "variable of a function": ("k = 2.0\ndef f(x): return x * k", "y = f(y)", "k = 3.0"),
    "behind no_grad": ("k = 2.0\n@mg.no_grad()\ndef f(): return mg.tensor(k)", "y = y * f()", "k = 3.0"),
    "method behind no_grad": ("class A:\n    k = 2.0\n    @mg.no_grad()\n    def f(self): return mg.tensor(self.k)\na = A()", "y = y * a.f()",
                              "a.k = 3.0"),
    "method behind a decorator": (
        "def same(f):\n    def g(*a): return f(*a)\n    return g\nclass A:\n    k = 2.0\n    @same\n    def f(self, x): return x * self.k\na = A()",
        "y = a.f(y)", "a.k = 3.0"),
    "form of a tensor": ("t = mg.ones(3)", "y = y * len(t)", "t.data = np.ones(4, np.float32)"),
    "wants a gradient": ("t = mg.ones(3)", "y = y * 3 if t.requires_grad else y", "t.requires_grad_()"),
    "behind a decorator": (
        "k = 2.0\ndef twice(f):\n    @functools.wraps(f)\n    def g(x): return f(f(x))\n    return g\n@twice\ndef f(x): return x * k",
        "y = f(y)", "k = 3.0"),
    "behind a context manager": ("k = 2.0\n@contextlib.contextmanager\ndef f():\n    yield k", "with f() as z: y = y * z", "k = 3.0"),
    "partial": ("box = [2.0]\nf = functools.partial(lambda b, x: x * b[0], box)", "y = f(y)", "box[0] = 3.0"),
    "callable object": ("class F:\n    k = 2.0\n    def __call__(self, x): return x * self.k\nf = F()", "y = f(y)", "f.k = 3.0"),
    "static method": ("k = 2.0\nclass A:\n    @staticmethod\n    def f(x): return x * k\na = A()", "y = a.f(y)", "k = 3.0"),
    "class method": ("class A:\n    k = 2.0\n    @classmethod\n    def f(cls, x): return x * cls.k\na = A()", "y = a.f(y)", "A.k = 3.0"),
    "class attribute": ("class A: k = 2.0\na = A()", "y = y * a.k", "A.k = 3.0"),
    "class attribute, hidden": ("class A: k = 2.0\na = A()", "y = y * a.k", "a.k = 3.0"),
    "inherited": ("class A: k = 2.0\nclass B(A): pass\na = B()", "y = y * a.k", "B.k = 3.0"),
    "super": ("k = 2.0\nclass A:\n    def f(self, x): return x * k\nclass B(A):\n    def f(self, x): return super().f(x)\na = B()",
              "y = a.f(y)", "k = 3.0"),
    "slots": ("class A: __slots__ = ('k',)\na = A()\na.k = 2.0", "y = y * a.k", "a.k = 3.0"),
    "property": ("class A:\n    k = 2.0\n    @property\n    def p(self): return self.k\na = A()", "y = y * a.p", "a.k = 3.0"),
    "descriptor": ("class D:\n    def __set_name__(self, owner, name): self.private = '_' + name\n"
                   "    def __get__(self, a, kind=None): return getattr(a, self.private)\nclass A: k = D()\na = A()\na._k = 2.0", "y = y * a.k",
                   "a._k = 3.0"),
    "getattr": ("class A: pass\na = A()\na.k = 2.0", 'y = y * getattr(a, "k")', "a.k = 3.0"),
    "getattr, name in a variable": ("class A: pass\na = A()\na.k, name = 2.0, 'k'\ndef f():\n    'documented'\n    return getattr(a, name)",
                                    "y = y * f()", "a.k = 3.0"),
    "getattr, one of several names": ("class A: pass\na = A()\na.k = 2.0", "for name in ('k', 'k'): y = y * getattr(a, name)", "a.k = 3.0"),
    "__getattr__": ("k = 2.0\nclass A:\n    def __getattr__(self, name): return k\na = A()", "y = y * a.anything", "k = 3.0"),
    "__getattribute__": ("class A:\n    def __init__(self): self.d = {'k': 2.0}\n    def __getattribute__(self, name): "
                         "return object.__getattribute__(self, 'd')[name]\na = A()", "y = y * a.k", "object.__getattribute__(a, 'd')['k'] = 3.0"),
    "another name": ("class A: pass\na = A()\na.k = 2.0", "me = a\ny = y * me.k", "a.k = 3.0"),
    "argument": ("class A: pass\na = A()\na.k = 2.0\ndef f(x, me): return x * me.k", "y = f(y, a)", "a.k = 3.0"),
    "inner function": ("class A: pass\na = A()\na.k = 2.0", "def f(x): return x * a.k\ny = f(y)", "a.k = 3.0"),
    "attribute of an attribute of what a call returns": (
        "class A: pass\na, b = A(), A()\na.b, b.k = b, 2.0\nmade = [a]\ndef f(): return made[0]", "y = y * f().b.k", "b.k = 3.0"),
    "patched method": ("class A:\n    def f(self, x): return x * 2\na = A()", "y = a.f(y)", "A.f = lambda self, x: x * 3"),
    "default": ("def f(x, k=2.0): return x * k", "y = f(y)", "f.__defaults__ = (3.0,)"),
    "mutable default": ("def f(x, k=[2.0]): return x * k[0]", "y = f(y)", "f.__defaults__[0][0] = 3.0"),
    "dict": ("d = {'k': 2.0}", "y = y * d['k']", "d['k'] = 3.0"),
    "key of a dict": ("d = {'k': 2.0}", "y = y * d.get('m', 1.5)", "d['m'] = 3.0"),
    "list of lists": ("d = [[2.0], [5.0]]", "for z in d: y = y * z[0]", "d[1][0] = 3.0"),
    "longer list": ("d = [2.0]", "for z in d: y = y * z", "d.append(3.0)"),
    "large list": ("d = [2.0] * 20_000", "y = y * d[7]", "d[7] = 3.0"),
    "set": ("d = {1}", "y = y * 3 if 2 in d else y", "d.add(2)"),
    "order of a dict": ("d = {'a': 1, 'b': 2}", "for z in d: y = (y + d[z]) * d[z]", "d['a'] = d.pop('a')"),
    "dataclass": ("@dataclasses.dataclass\nclass C: k: float = 2.0\nc = C()", "y = y * c.k", "c.k = 3.0"),
    "fields of a dataclass": ("@dataclasses.dataclass\nclass C: k: float = 2.0\nc = C()", "y = y * dataclasses.asdict(c)['k']", "c.k = 3.0"),
    "module": ("m = types.ModuleType('settings')\nm.k = 2.0", "y = y * m.k", "m.k = 3.0"),
    "counter": ("d = collections.Counter(k=2)", "y = y * d['k']", "d['k'] = 3"),
    "chain map": ("d = collections.ChainMap({}, {'k': 2.0})", "y = y * d['k']", "d['k'] = 3.0"),
    "minus zero": ("k = 0.0", "y = y + 1.0 / mg.tensor(k)", "k = -0.0"),
    "NumPy array as it is": ("a = np.full(2, 2.0, np.float32)", "y = y * a", "a[:] = 3"),
    "NumPy array as a tensor": ("a = np.full(2, 2.0, np.float32)", "y = y * mg.tensor(a)", "a[:] = 3"),
    "Tensor of an array": ("a = np.full(2, 2.0)", "y = y * mg.Tensor(a).float()", "a[:] = 3"),
    "from_numpy": ("a = np.full(2, 2.0, np.float32)", "y = y * mg.from_numpy(a)", "a[:] = 3"),
    "as_tensor, converted": ("a = np.full(2, 2.0)", "y = y * mg.as_tensor(a, dtype=mg.float32)", "a[:] = 3"),
    "computed by NumPy": ("a = np.full(2, 2.0, np.float32)", "y = y * (a + 0)", "a[:] = 3"),
    "number of an array": ("a = np.full(2, 2.0, np.float32)", "y = y * float(a.sum())", "a[:] = 3"),
    "number of a large array": ("a = np.full(99_999, 2.0)", "y = y * float(a[7])", "a[7] = 3"),
    "number of an array in another order": ("a = np.full((2, 2), 2.0, order='F')", "y = y * float(a[1, 0])", "a[1, 0] = 3"),
    "masked array": ("a = np.ma.array([2.0, 1.0], mask=[0, 1])", "y = y * float(a.sum())", "a[0] = 3.0"),
    "list of arrays": ("a = [np.full(2, 2.0, np.float32)]", "y = y * mg.tensor(a)", "a[0][:] = 3"),
    "labels": ("a = np.array([0, 1, 1])", "y = y + F.cross_entropy(y, mg.tensor(a))", "a[:] = 0"),
    "gradient for backward": ("a = np.full((3, 2), 2.0, np.float32)", "(x @ w * 0.1).backward(mg.tensor(a))", "a[:] = 3"),
    "gradient, another array": ("g = mg.ones(3, 2)", "(x @ w * 0.1).backward(g)", "g.data = np.full((3, 2), 3, np.float32)"),
    "detached": ("v = mg.tensor([2.0, 1.0], requires_grad=True)", "y = y * v.detach()", "v.data = np.float32([3, 4])"),
    "tensor of a tensor": ("v = mg.tensor([2.0, 1.0])", "y = y * mg.tensor(v)", "v.data = np.float32([3, 4])"),
    "Tensor of a tensor": ("v = mg.tensor([2.0, 1.0])", "y = y * mg.Tensor(v)", "v.data = np.float32([3, 4])"),
    "state_dict": ("l = nn.Linear(2, 2)\nfor p in l.parameters(): p.data[...] = 0.5", "y = y * l.state_dict()['bias']",
                   "l.bias.data = np.float32([3, 4])"),
    "forward": ("k = 2.0\nclass M(nn.Module):\n    def forward(self, x): return x * k\nm = M()", "y = m(y)", "k = 3.0"),
    "list of a module": ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.ks = [2.0]\n"
                         "    def forward(self, x): return x * self.ks[0]\nm = M()", "y = m(y)", "m.ks[0] = 3.0"),
    "attribute of a parameter": ("l = nn.Linear(2, 2)\nfor p in l.parameters(): p.k = 2.0", "for p in l.parameters(): y = y * p.k", "l.bias.k = 3.0"),
    "attribute of a tensor": ("t = mg.ones(1)\nt.k = 2.0", "for p in [t]: y = y * p.k", "t.k = 3.0"),
    "attribute of the class of a module": ("class M(nn.Module):\n    k = 2.0\n    def forward(self, x): return x\nm = nn.ModuleList([M()])",
                                           "for z in m: y = z(y) * z.k", "M.k = 3.0"),
    "modules in a list": ("m = [nn.ReLU()]", "y = m[0](y)", "m[0] = nn.Tanh()"),
    "learning rate read": ("", "y = y * optimizer.param_groups[0]['lr']", "optimizer.param_groups[0]['lr'] = 0.5"),
    "learning rate": ("", "pass", "optimizer.param_groups[0]['lr'] = 0.5"),
    "a loss made in the step": ("k = 2.0", "y = nn.Tanh()(y) * k", "k = 3.0"),
    "frozen parameter": ("v = nn.Parameter(mg.ones(2))", "y = y * v", "v.requires_grad_(False)"),
    "cache": ("k = 2.0\n@functools.lru_cache\ndef f(n): return n * k\nf(2)", "y = y * f(2)", "k = 3.0; f.cache_clear(); f(2)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_changes_outside_is_followed(name):
    top, body, change = FOLLOWED[name]
    for after in (1, 5):
        assert lives({after: change}, calls=after + 4, top=top, body=body) is None


@pytest.mark.parametrize("line", ["import a_package.settings as s", "from . import settings as s", "from .settings import box as s",
                                  "import a_package; s = a_package.settings", "from a_package import settings as s"])
def test_modules_that_a_function_imports_are_followed(line, monkeypatch):
    package, settings = types.ModuleType("a_package"), types.ModuleType("a_package.settings")
    package.__path__, package.settings, package.__package__, settings.k = [], settings, "a_package", 2.0
    settings.box = types.SimpleNamespace(k=2.0)
    for module in (package, settings):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(f"def step(x):\n    {line}\n    return x * s.k", vars(package))
    step = mg.compile(package.step)
    assert [step(mg.ones(1)).item() for _ in range(5)] == [2.0] * 5
    settings.k = settings.box.k = 3.0
    assert step(mg.ones(1)).item() == 3.0


def test_main_is_the_users_even_if_an_installed_program_runs_it(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/lib/site-packages/pytest/__main__.py", raising=False)
    code._whose_package.cache_clear()
    assert code.whose("__main__") is code.USERS


def test_an_installed_package_that_has_a_step_is_followed(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "an_installed_recipe.py").write_text("scale = 2.0\ndef step(x):\n    return x * scale\ndef count(x):\n    global scale\n"
                                                   "    scale += 1\n    return x\n")
    monkeypatch.syspath_prepend(folder)
    recipe = importlib.import_module("an_installed_recipe")
    assert code.whose(recipe) is code.OTHERS
    for function in (recipe.step, functools.partial(recipe.step)):
        step, recipe.scale = mg.compile(function), 2.0
        assert [step(mg.ones(1)).item() for _ in range(6)] == [2.0] * 6
        recipe.scale = 3.0
        assert step(mg.ones(1)).item() == 3.0
    with pytest.raises(RuntimeError, match="this step changes scale"):
        mg.compile(recipe.count)(mg.ones(1))
    assert code.whose(functools) is code.OTHERS


SOURCES = ["NumPy array as a tensor", "Tensor of an array", "from_numpy", "as_tensor, converted", "labels", "Tensor of a tensor"]


@pytest.mark.parametrize("name", SOURCES)
def test_arrays_too_large_to_check_are_read_again_if_passed_to_minigrad(name, monkeypatch):
    monkeypatch.setattr(surroundings, "LARGEST_ARRAY", -1)
    top, body, change = FOLLOWED[name]
    assert lives({5: change}, top=top, body=body) is None


def test_code_without_a_module_is_followed():
    names = {}
    exec("k = 2.0\nclass A:\n    k = 2.0\n    def f(self, x): return x * self.k * k\na = A()\ndef step(x): return a.f(x)", names)
    step, x = mg.compile(names["step"]), mg.ones(1)
    assert [step(x).item() for _ in range(6)] == [4.0] * 6
    names["k"] = names["A"].k = 3.0
    assert step(x).item() == 9.0


def test_a_scheduler_inside_and_a_new_parameter_group_are_followed():
    inside = "optimizer.step(); scheduler.step(); optimizer.zero_grad()"
    top = "scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 2)\nv = nn.Parameter(mg.ones(2))"
    assert lives({6: "optimizer.add_param_group({'params': [v]})"}, top=top, body="y = y * v", end=inside) is None


@pytest.mark.parametrize("end", ["optimizer.step()", "pass"])
def test_an_input_may_share_memory_with_a_parameter(end):
    w, after = nn.Parameter(mg.tensor([[0.5, -0.3], [0.1, 0.4]])), []
    for compile in (lambda step: step, mg.compile):
        w.data[...] = [[0.5, -0.3], [0.1, 0.4]]
        optimizer = nn.optim.SGD([w], lr=0.1)

        def step(x, optimizer=optimizer):
            w.grad = None
            (w * w).sum().backward()
            if end != "pass":
                optimizer.step()
            return x * 2

        step = compile(step)
        shared = mg.from_numpy(w.detach().numpy()[:, 1:])
        after.append([step(x).tolist() for x in (mg.ones(2, 1), shared, shared, mg.ones(2, 1), shared)])
        after.append([step(shared).tolist() for step in [compile(step.__wrapped__ if compile is mg.compile else step)] for _ in range(3)])
    assert after[0] == after[2] and after[1] == after[3]


SHARED = {  # the input, given the parameter and its optimizer; does the step call the optimizer?
    "gradient": (lambda w, optimizer: w.grad, False),
    "gradient, detached": (lambda w, optimizer: w.grad.detach(), False),
    "gradient, in another shape": (lambda w, optimizer: w.grad.view(-1), False),
    "part of a gradient": (lambda w, optimizer: w.grad[1:], False),
    "state": (lambda w, optimizer: mg.from_numpy(optimizer.state[w]["exp_avg"]), True),
    "part of a state": (lambda w, optimizer: mg.from_numpy(optimizer.state[w]["exp_avg_sq"][1:]), True),
}  # fmt: skip


def shared(given, with_optimizer, compile, hook=False):
    """Results of a step whose input shares memory with the parameter, its gradient, or the optimizer's state."""
    w = nn.Parameter(mg.tensor([1.0, -2.0]))
    optimizer = nn.optim.AdamW([w], lr=0.1)
    w.sum().backward()
    optimizer.step()
    step = compile(lambda x: ((w * w).sum().backward(), optimizer.step() if with_optimizer else None) and x * 2)
    results = [step(mg.ones(2)).tolist()] if hook else []
    if hook:
        w.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    return results + [step(given(w, optimizer)).tolist() for _ in range(7)]


@pytest.mark.parametrize("name", SHARED)
def test_an_input_may_share_memory_with_what_the_step_writes(name):
    assert shared(*SHARED[name], lambda step: step) == shared(*SHARED[name], mg.compile)


def test_an_input_may_share_memory_with_a_parameter_that_a_hook_steps():
    of_w = (lambda w, optimizer: w.detach()), False
    assert shared(*of_w, lambda step: step, hook=True) == shared(*of_w, mg.compile, hook=True)


def test_a_step_that_only_accumulates_is_captured_for_views_of_what_it_reads():
    w, data = nn.Parameter(mg.ones(2)), mg.arange(12.0).reshape(6, 2)
    step = mg.compile(lambda x: ((x - data.mean(0)) * w).sum().backward())
    for start in range(4):
        step(data[start : start + 2])
    assert step.constants()  # of what is captured


def test_a_first_input_that_shares_memory_with_what_a_hook_may_write_is_refused():
    w = nn.Parameter(mg.ones(2))
    w.register_post_accumulate_grad_hook(lambda w: None)
    with pytest.raises(RuntimeError, match="shares memory .* pass a copy"):
        mg.compile(lambda x: w.sum().backward() or x * 2)(w.detach())


# ---------------------------------------------------------------------------------------------------- refused

REFUSED = {  # top, body, the name that the error gives
    "iterator of a module": ("m = nn.Identity()\nm.it = zip([1.0, 2.0])", "y = y * next(m.it)[0]", "m.it "),
    "iterator of a module, elsewhere": ("m = nn.Identity()\nm.it = zip([1.0, 2.0])", "for a in [m]: y = y * next(a.it)[0]", "m.it "),
    "global": ("k = 0", "k += 1\ny = y * k", "k "),
    "global that nobody reads": ("k = 0", "k = 1", "k "),
    "attribute": ("class A: k = 0\na = A()", "a.k += 1", "a.k "),
    "class attribute": ("class A: k = 0", "A.k += 1", "A.k "),
    "class of a module": ("class M(nn.Module):\n    k = 0\n    def forward(self, x):\n        type(self).k += 1\n        return x\nm = M()", "y = m(y)",
                          "M.k "),
    "attribute of a parameter": ("w.k = 0", "for p in [w]: p.k += 1", "w.k "),
    "slot": ("class A: __slots__ = ('n',)\na = A()\na.n = 0", "a.n += 1", "a.n "),
    "dict": ("d = {'k': 0}", "d['k'] += 1", "d "),
    "ordered dict": ("d = collections.OrderedDict(k=0)", "d['m'] = 1", "d "),
    "counter of a collection": ("d = collections.Counter(k=2)", "d['k'] += 1", "d "),
    "list": ("d = []", "d.append(1)", "d "),
    "list of a dict": ("d = {'k': []}", "d['k'].append(1)", r"d\['k'\] "),
    "list, as an argument": ("d = []\ndef f(z): z.append(1)", "f(d)", "d "),
    "of a function": ("def f(): f.calls += 1\nf.calls = 0", "f()", "f.calls "),
    "setattr": ("class A: k = 0\na = A()", "setattr(a, 'k', a.k + 1)", "a.k "),
    "array": ("a = np.zeros(2)", "a[0] += 1", "a "),
    "bytes of another": ("a = bytearray(2)\nm = memoryview(a)", "m[0] = 1", "m "),
    "iterator": ("it = iter([1.0, 2.0, 3.0, 4.0])", "y = y * next(it)", "it "),
    "generator that is sent to": ("def f():\n    total = 0\n    while True: total += (yield total)\nit = f(); next(it)", "y = y * it.send(1)",
                                  "it "),
    "generator": ("def f():\n    yield 1.0\n    yield 2.0\nit = f()", "y = y * next(it)", "it "),
    "count": ("it = itertools.count()", "y = y * next(it)", "it "),
    **{f"iterator {it}": (f"import csv, io\nit = {it}", "next(it)", "it ") for it in [
        "zip([1, 2])", "map(float, [1, 2])", "filter(None, [1, 2])", "enumerate([1, 2])", "reversed([1, 2])", "iter({1, 2})", "iter(int, 1)",
        "itertools.chain([1], [2])", "itertools.islice([1, 2], 2)", "itertools.accumulate([1, 2])", "itertools.cycle([1, 2])",
        "itertools.starmap(pow, [(1, 2), (1, 3)])", "itertools.takewhile(bool, [1, 2])", "itertools.compress([1, 2], [1, 1])",
        "itertools.pairwise([1, 2, 3])", "itertools.tee([1, 2])[0]", "itertools.repeat(1, 3)", "np.ones(3).flat", "np.ndenumerate([1, 2])",
        "csv.reader('12')", "csv.DictReader('123')", "io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'1\\n2')))", "type('It', (zip,), {})([1, 2])"]},
    "proxy, which is not followed": ("import weakref\nclass A: k = 2.0\nkept = A()\nit = weakref.proxy(kept)", "y = y * it.k", "it "),
    "next of an iterator": ("it = map(float, [1, 2]).__next__", "y = y * it()", "it "),
    "partial of next": ("it = functools.partial(next, map(float, [1, 2]))", "y = y * it()", r"it\[0\] "),
    "np.random": ("", "y = y * np.random.random()", "np.random"),
    "NumPy's generator": ("r = np.random.default_rng(0)", "y = y * r.random()", "r "),
    "random": ("", "y = y * random.random()", "random"),
    "running mean": ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.running = mg.zeros(2)\n"
                     "    def forward(self, x):\n        self.running = 0.9 * self.running + x.detach().mean(0)\n        return x - self.running\n"
                     "m = M()", "y = m(y)", "self.running "),
    "carried state": ("h = mg.zeros(3, 2)", "y = y + h\nh = y.detach()", "h "),
    "learning rate": ("it = 3", "for g in optimizer.param_groups: g['lr'] = 0.1 * it", r"optimizer.param_groups\[0\] "),
    "cache": ("@functools.lru_cache\ndef f(n): return n * 2.0", "y = y * f(2)", "f "),
    "cached property": ("class A:\n    @functools.cached_property\n    def p(self): return 2.0\na = A()", "y = y * a.p", "a.p "),
}  # fmt: skip


REPORTED = {  # top, what follows backward, the error
    "norm of the gradients": ("optimizer.max_grad_norm = 1.0", "optimizer.step(); loss = loss * optimizer.grad_norm", "reads the norm of"),
    "state_dict": ("", "optimizer.step(); loss = loss * optimizer.state_dict()['state'][0]['step']", "reads the state of an optimizer"),
    "rates": ("scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)", "scheduler.step(); loss = loss * scheduler.get_last_lr()[0]",
              "reads learning rates"),
    "state of a scheduler": ("scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)",
                             "scheduler.step(); loss = loss * scheduler.state_dict()['last_epoch']", "reads the state of a scheduler"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_what_its_optimizer_or_scheduler_reports_is_not_read_in_the_step(name):
    top, end, error = REPORTED[name]
    assert re.match(f"call 1: .*{error}", lives({}, top=top, end=end))


LEFT_ALONE = {  # what may seem to be an iterator
    "in an attribute that the step does not name": ("class A: k = 2.0\na = A()\na.it = zip([1, 2])", "y = y * a.k"),
    "in a module": ("m = nn.Identity()\nm.it = zip([1, 2])", "y = m(y)"),
    "in a dict": ("d = {'it': zip([1, 2]), 'k': 2.0}", "y = y * d['k']"),
    "in another variable": ("it = zip([1, 2])\ndef f():\n    global it\n    it = None", "y = y * 2"),
    "a file to write to": ("import io\nlog = io.TextIOWrapper(io.BytesIO())", "log.write('here')"),
    "made by the step": ("", "for i, z in enumerate(map(float, [1.0, 2.0])): y = y * z + i"),
    "the class of iterators": ("kind = zip", "for a, b in kind([1.0], [2.0]): y = y * b"),
    "a class that follows its own numbers": (
        "class It:\n    k = 2.0\n    def __iter__(self): return self\n    def __next__(self): return self.k\nit = It()", "y = y * next(it)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_only_iterators_that_the_step_can_reach_are_refused(name):
    top, body = LEFT_ALONE[name]
    assert lives({}, calls=6, top=top, body=body) is None


def held(value):
    """Its items or attributes, which may change."""
    return vars(value) if hasattr(value, "__dict__") and not isinstance(value, dict) else value


@pytest.mark.parametrize("name", REFUSED)
def test_changes_made_by_the_step_are_refused_by_name_and_undone(name):
    top, body, named = REFUSED[name]
    own = world(top=top, body=body, names={"global": "global k", "carried": "global h"}.get(name.partition(" ")[0], "pass"))
    before = {key: copy.deepcopy(held(own[key])) for key in "kdah" if key in own}
    weights, state = own["w"].detach().numpy().copy(), mg.random.get_state()
    own["w"].grad = mg.full((2, 2), 7.0)
    step, x = mg.compile(own["step"]), mg.ones(3, 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"compile: this step changes .*{named}.*\(.*\), which a replay would not"):
            step(x)
    assert np.array_equal(own["w"].detach().numpy(), weights) and (own["w"].grad.array == 7).all()
    assert not own["optimizer"].state and own["optimizer"].param_groups[0]["lr"] == 0.05 and mg.random.get_state() == state
    for key, value in before.items():
        assert repr(held(own[key])) == repr(value) or "object at" in repr(value)


def test_the_line_of_a_change_is_named():
    calls = 0

    def step(x):
        nonlocal calls
        calls += 1  # here
        return x * 2

    line = step.__code__.co_firstlineno + 2
    with pytest.raises(RuntimeError, match=rf"this step changes calls \(.*test_compiled_python.py:{line}\)"):
        mg.compile(step)(mg.ones(2))
    assert calls == 0


def test_a_refusal_stands_even_if_the_step_catches_it():
    def step(x):
        try:
            scale = x.sum().item()
        except RuntimeError:
            scale = 1.0
        return x * scale

    with pytest.raises(RuntimeError, match="reads the values"):
        mg.compile(step)(mg.ones(2))


# ---------------------------------------------------------------------------------------------------- noticed

def test_unseen_changes_are_noticed_when_python_runs_the_step_again():
    """In a list too long to be checked before each replay."""
    top, body = "d = [2.0] * 200_000", "y = y * d[7]"
    said = r"call 8: compile: at call 8 .* gave Mul .* 3.0, where it had given 2.0; replays since call 5 may have been wrong"
    plain, own = world(top=top, body=body), world(top=top, body=body)
    step, x = mg.compile(own["step"]), mg.ones(3, 2)
    for call in range(1, 9):
        expected = plain["step"](x)
        if call == 8:
            with pytest.raises(RuntimeError, match=said.partition(": ")[2]):
                step(x)
        else:
            assert call > 5 or np.array_equal(step(x).array, expected.array)
            if call > 5:
                step(x)
        if call == 5:
            plain["d"][7] = own["d"][7] = 3.0
    step(x)  # it goes on from what Python did


def test_another_call_is_named():
    top, body = "d = [0] * 200_000", "y = y.tanh() if d[7] else y"
    own = world(top=top, body=body)
    step, x = mg.compile(own["step"]), mg.ones(3, 2)
    step(x)
    own["d"][7] = 1
    with pytest.raises(RuntimeError, match=r"at call 2 .* it called Tanh \(<string>:\d+\), where it had called Mul"):
        step(x)


def test_python_runs_the_step_ever_more_rarely(monkeypatch):
    runs, captured, step = [], compiled.captured, mg.compile(lambda x: x * 2)
    monkeypatch.setattr(compiled, "captured", lambda *arguments: runs.append(calls[-1]) or captured(*arguments))
    calls = [0]
    while calls[-1] < 40:
        calls.append(calls[-1] + 1)
        step(mg.ones(2))
    assert runs == [1, 2, 3, 4, 8, 16, 32]


COLLECTIONS = 0


def test_callbacks_of_the_garbage_collector_are_not_part_of_the_step():
    def callback(phase, info):
        global COLLECTIONS
        COLLECTIONS += 1

    def step(x):
        gc.collect(0)
        return x * 2

    gc.callbacks.append(callback)
    try:
        step = mg.compile(step)
        assert [step(mg.ones(1)).item() for _ in range(6)] == [2.0] * 6 and COLLECTIONS
    finally:
        gc.callbacks.remove(callback)


def test_check_compares_each_replay():
    hidden, shown = [2.0] * 200_000, mg.ones(2, requires_grad=True)

    @mg.compile(check=True)
    def step(x):
        loss = (x * hidden[7] * shown).sum()
        loss.backward()
        return loss

    for _ in range(6):
        step(mg.ones(2))
    assert shown.grad.tolist() == [12.0, 12.0]
    hidden[7] = 3.0
    with pytest.raises(RuntimeError, match="compile: check: at call 7 the bits of the result differ between the replay and the step itself"):
        step(mg.ones(2))


def test_constants_have_names_and_lines():
    own = world(top="k = 2.0", body="y = y * k * 1.5 + np.ones(2)")
    step = mg.compile(own["step"])
    assert step.constants() == []
    step(mg.ones(3, 2))
    told = {(name, value): where for name, where, value in step.constants() if isinstance(value, float)}
    assert {("k", 2.0), ("Mul", 2.0), ("Mul", 1.5)} <= told.keys()
    assert told["Mul", 1.5].startswith("<string>:") and told["k", 2.0] == ""


# ---------------------------------------------------------------------------------------------- forms of results

Pair = collections.namedtuple("Pair", "loss y")
FORMS = {
    "list": lambda x: [x, x * 2], "named tuple": lambda x: Pair(x * 2, None), "dict": lambda x: {"a": x, "b": (x * 3, [x])},
    "nested": lambda x: ((x,), {"k": Pair([x], x)}), "nothing": lambda x: None,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_results_keep_the_form_that_the_step_returned(name):
    step = mg.compile(FORMS[name])
    for call in range(6):
        x = mg.tensor([float(call)])
        got, expected = step(x), FORMS[name](x)
        assert type(got) is type(expected) and repr(got) == repr(expected)


class Owner:
    def __init__(self, scale):
        self.scale = scale

    @mg.compile
    def step(self, x):
        return x * self.scale

    @mg.compile(check=True)
    def checked(self, x):
        return x * self.scale


@mg.compile
def of_a_file(x):
    return x * 2


def test_methods_of_a_class_compile():
    one, two = Owner(2.0), Owner(3.0)
    for _ in range(6):
        assert one.step(mg.ones(1)).item() == 2.0 and two.step(mg.ones(1)).item() == 3.0 == two.checked(mg.ones(1)).item()
    two.scale = 5.0
    assert one.step(mg.ones(1)).item() == 2.0 and two.step(mg.ones(1)).item() == 5.0
    for copied in (copy.deepcopy(one), copy.copy(one), pickle.loads(pickle.dumps(one))):
        copied.scale = 7.0
        assert one.step(mg.ones(1)).item() == 2.0 and copied.step(mg.ones(1)).item() == 7.0
    assert isinstance(Owner.step, type(of_a_file))


@pytest.mark.parametrize("slots", [(), ("k",)])
def test_methods_of_objects_that_cannot_keep_them_are_refused(slots):
    """Kept elsewhere, they would keep the objects."""
    class Steps:
        __slots__ = slots
        step = mg.compile(lambda self, x: x * 2)

    class WithDict(Steps):
        pass

    with pytest.raises(TypeError, match="^compile: Steps has __slots__ and no __dict__, in which an object keeps its own compiled"):
        Steps().step(mg.ones(1))
    steps = WithDict()
    assert steps.step(mg.ones(1)).item() == 2.0
    gone = weakref.ref(steps)
    del steps
    gc.collect()
    assert gone() is None


def test_class_methods_compile():
    class Steps:
        k = 2.0

        @classmethod
        @mg.compile
        def step(cls, x):
            return x * cls.k

    class Triple(Steps):
        k = 3.0

    for _ in range(3):
        assert Steps.step(mg.ones(1)).item() == Steps().step(mg.ones(1)).item() == 2.0 and Triple.step(mg.ones(1)).item() == 3.0


def test_methods_of_the_same_name_are_kept_apart():
    class Steps:
        double, triple = mg.compile(lambda self, x: x * 2), mg.compile(lambda self, x: x * 3)

    def with_step(base, change):
        class Derived(base):
            step = mg.compile(change)
        return Derived

    inner = with_step(Steps, lambda self, x: x * 5)
    outer = with_step(inner, lambda self, x: super(type(self), self).step(x) + 1)()
    kept = outer.step
    for _ in range(3):
        assert outer.double(mg.ones(1)).item() == 2 and outer.triple(mg.ones(1)).item() == 3
        assert outer.step(mg.ones(1)).item() == 6 and inner.step.__get__(outer)(mg.ones(1)).item() == 5
        assert outer.step is kept


def test_steps_are_copied_and_pickled():
    of_a_file(mg.ones(1))
    assert copy.deepcopy(of_a_file)(mg.ones(1)).item() == copy.copy(of_a_file)(mg.ones(1)).item() == 2.0
    assert pickle.loads(pickle.dumps(of_a_file)) is of_a_file


def test_a_function_whose_backward_sometimes_returns_none_is_refused():
    w, is_given = mg.ones(2, requires_grad=True), [True] * 200_000  # too long to be checked

    class Fickle(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, dout):
            return dout * 2 if is_given[7] else None

    step = mg.compile(lambda x: Fickle.apply(w * x).sum().backward())
    for _ in range(5):
        step(mg.ones(2))
    is_given[7] = False
    with pytest.raises(RuntimeError, match="compile: Fickle.backward returns no gradient"):
        step(mg.ones(2))


def test_a_function_that_sometimes_returns_a_view_is_followed():
    doubled = [False] * 200_000

    class Sometimes(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2 if doubled[7] else x.view(-1)

        @staticmethod
        def backward(ctx, dout):
            return dout * 2 if doubled[7] else dout

    w = mg.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        y = Sometimes.apply(w * x)
        y.sum().backward()
        return y

    replayed = mg.compile(step)
    for call in range(8):
        doubled[7] = call in (5, 6)
        got, gradient = replayed(mg.ones(2)).tolist(), w.grad.tolist()
        assert got == step(mg.ones(2)).tolist() and gradient == w.grad.tolist(), call


def test_a_function_that_keeps_attributes_only_sometimes_is_followed():
    class Clip(mg.Function):
        @staticmethod
        def forward(ctx, x):
            if (low := x.data < 0).any():
                ctx.low = low
            return mg.clamp(x, min=0.0)

        @staticmethod
        def backward(ctx, dout):
            return dout * mg.tensor(1.0 - ctx.low).float() if hasattr(ctx, "low") else dout * 1

    w = mg.ones(2, requires_grad=True)

    @mg.compile
    def step(x):
        w.grad = None
        Clip.apply(w * x).sum().backward()

    for call in range(1, 8):
        step(mg.tensor([-1.0, 1.0]) if call == 5 else mg.ones(2))
        assert w.grad.tolist() == ([0.0, 1.0] if call == 5 else [1.0, 1.0]), call


# ---------------------------------------------------------------------------------------------------- surroundings

def test_places_have_names():
    class Config:
        scale, other = 2.0, 3.0

    class Trainer:
        def __init__(self):
            self.config, self.step_number, self.kinds = Config(), 0, {"a": [1.0]}

        def step(self, x):
            return x * self.config.scale * self.kinds["a"][0]

    names = {place.name for place in Surroundings(Trainer().step).places.values()}
    assert {"self.config", "self.config.scale", "self.kinds", "self.kinds['a']"} <= names
    assert not any("step_number" in name or "other" in name for name in names)


def test_names_are_followed_before_the_contents_of_containers(monkeypatch):
    monkeypatch.setattr(surroundings, "MOST_OBJECTS", 50)

    class Trainer:
        def __init__(self):
            self.data, self.scale = {"all": [[i] for i in range(100)]}, 2.0

        def step(self, x):
            n = len(self.data["all"])
            return self.scaled(x) * n

        def scaled(self, x):
            return x * self.scale

    names = [place.name for place in Surroundings(Trainer().step).places.values()]
    assert {"self.data", "self.data['all'][0]", "self.scale", "self.scaled.__code__"} <= set(names) and "self.data['all'][99]" not in names


def test_wrappers_are_seen_through():
    scale = 2.0

    @functools.wraps(len)
    def wrapper(x):
        return inner(x)

    def inner(x):
        return x * scale

    for function in (wrapper, functools.partial(wrapper), mg.no_grad()(wrapper), mg.compile(wrapper)):
        assert "scale" in {place.name for place in Surroundings(function).places.values()}


def test_a_profiler_sees_a_compiled_step_and_changes_nothing():
    """One written in C, such as cProfile's, is no function that a capture could set aside and set again."""
    def losses(compiled):
        weight = nn.Parameter(mg.tensor([[0.5, -0.3], [0.1, 0.4]]))
        optimizer = nn.optim.SGD([weight], lr=0.1)

        def train(x):
            loss = (x @ weight).cumsum(0).softmax(-1)[:, 0].sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = compiled(train)
        return [step(mg.ones(2, 2)).item() for _ in range(4)]

    expected, profiler = losses(lambda train: train), cProfile.Profile()
    assert profiler.runcall(losses, mg.compile) == pytest.approx(expected, rel=1e-6)
    assert "train" in {getattr(one.code, "co_name", "") for one in profiler.getstats()}
