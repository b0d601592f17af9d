"""`minigrad gradcheck FILE:NAME --inputs ...`: a function in somebody's file, on inputs described in a line."""
import json

import pytest
from tables import each

OWN = """
import numpy as np
import minigrad as mg
import nn

class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 3)

    def forward(self, x):
        return self.linear(x).relu()

def tanh(x):
    return np.tanh(x)

def back(dout, x):
    return dout * (1 - np.tanh(x) ** 2)

def forgets_the_square(dout, x):
    return dout * (1 - np.tanh(x))

def product(x, y, scale=2.0, shift=0.0):
    return x * y * scale + shift

def half(x):
    return x * x.detach()

def looked_up(table, ids):
    return table[ids]

def several(*tensors):
    return sum(tensors) * tensors[0]

def raises(x):
    return x / None

def leaves(x):
    raise SystemExit(3)

def scores(x, *, scale=1.0):
    return x * x * scale

class Layer:
    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")

    def __call__(self, x):
        return x

opaque = Layer()

def constant(x):
    return x.softmax(-1).sum()

def stops(x):
    raise BaseException("odd")

def scaled(factor):
    return lambda x: x * (1 / factor)

class Dense:
    def __init__(self, inputs, outputs):
        self.W = np.random.default_rng(0).normal(size=(inputs, outputs))

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, dout):
        self.dW = self.x.T @ dout
        return dout @ self.W.T

class Tanh:
    forward, backward = staticmethod(tanh), staticmethod(back)

def chosen(x, how="other"):
    return x * 2 if how == "a way" else x.detach()

def root(a):
    print("called")
    return a.sqrt()
"""
TORCH = """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power=3):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        return (dout * 3 * x * x).to(torch.float32).to(x.dtype), None

class Layer(torch.nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2, bias)

    def forward(self, tokens):
        return self.linear(tokens)

def softmax(scores):
    return scores.softmax(-1)

def only_float32(x):
    return x @ torch.ones(3, 3)

def twice(x):
    return torch.add(x, x)

def twice_back(dout, x):
    return torch.add(dout, dout)
"""
CHECKS = {  # arguments: the exit code, and what is said
    ("own.py:tanh,back", "x=randn(3,4)"): (0, "gradcheck of tanh: PASS"),
    ("own.py:tanh,forgets_the_square", "x=randn(3,4)"): (1, "diagnosis: this is tanh: "),
    ("own.py:tanh,back", "x=randn(3,4)", "--dtype", "float32"): (0, "x in float32"),
    ("own.py:product", "x,y=randn(3, 4) shift=1.5"): (0, "y      (3, 4)"),
    ("own.py:product", "x=randn(3, 4), y=randn(4),shift = 1.5"): (0, "y      (4,)"),
    ("own.py:product", "x, y=randn(3)"): (0, "y      (3,)"),
    ("own.py:product", "x=randn(3, 4)", "y=randn(4)", "shift=1.5"): (0, "y      (4,)"),
    ("own.py:half", "x=rand(4)"): (1, "differences is 0.5 everywhere"),
    ("own.py:looked_up", "table=randn(3,2)  ids=randint(3,5)"): (0, "gradcheck of looked_up: PASS"),
    ("own.py:scores", "scale=3 x=randn(2)"): (0, "gradcheck of scores: PASS"),
    ("own.py:MLP(2)", "x=randn(3,2)"): (0, "linear.weight"),
    ("own.py:scaled(2)", "x=randn(2)"): (0, "gradcheck of"),
    ("own.py:constant", "x=randn(3)"): (1, "gradcheck of constant: PASS, but proves nothing (seed 0)"),
    ("own.py:several", "a,b=ones(2) c=zeros(2)"): (0, "gradcheck of several: PASS"),
    ("own.py:tanh, back", "x=randn(3,4)"): (0, "gradcheck of tanh: PASS"),
    ("own.py:Tanh.forward,Tanh.backward", "x=randn(3,4)"): (0, "gradcheck of tanh: PASS"),
    ("own:Tanh.forward,Tanh.backward", "x=randn(3,4)"): (0, "gradcheck of tanh: PASS"),
    ("own.py:Dense(4, 2)", "x=randn(3,4)"): (0, "parameters: W"),
    ("own.py:product", "x=rand(4,4)+0.5, y=-2*spd(4)/3"): (0, "y      (4, 4)"),
    ("own.py:chosen", "x=randn(3) how='a way'"): (0, "gradcheck of chosen: PASS"),
}
IN_TORCH = {
    ("torch_own.py:Cube", "x=randn(3)"): (1, "float64 throughout: FAIL"),
    ("torch_own.py:Layer(4, bias=False)", "tokens=randn(3,4)"): (0, "linear.weight"),
    ("torch_own.py:Layer(4)", "tokens=randn(3,4)", "--dtype", "bfloat16"): (0, "linear.bias in bfloat16"),
    ("torch_own.py:softmax", "scores=randn(2,3)", "--dtype", "bfloat16"): (0, "scores in bfloat16"),
    ("torch_own.py:softmax", "scores=randn(2,3)", "--device", "cpu"): (0, "gradcheck of softmax: PASS"),
    ("torch_own.py:only_float32", "x=randn(2,3)"): (0, "checked in float32, as float64 gives: "),
    ("torch_own.py:twice,twice_back", "x=randn(2,3)"): (0, "gradcheck of twice: PASS"),
}
REFUSED = [
    (("own.py:tangent", "--inputs", "x=randn(2)"), "own.py has no 'tangent'; it defines MLP, tanh, back, forgets"),
    (("none.py:tanh", "--inputs", "x=randn(2)"), "there is no file 'none.py'"),
    (("own.py", "--inputs", "x=randn(2)"), "'own.py' is not FILE.py:NAME, as in minigrad gradcheck"),
    (("broken.py:f", "--inputs", "x=randn(2)"), "broken.py cannot be imported: NameError: name 'oops' is not defined, in line 1"),
    (("own.py:half",), "--inputs is missing; give the arguments of own.py:half"),
    (("own.py:half", "--inputs", "y=randn(2)"), "own.py:half cannot be checked: the function has no argument 'y'; it has x\n"),
    (("own.py:product", "--inputs", "y=randn(2)"), "own.py:product cannot be checked: the argument 'x' is missing\n"),
    (("own.py:product", "--inputs", "x=randn(2) shift=1"), "own.py:product cannot be checked: the argument 'y' is missing\n"),
    (("own.py:product", "--inputs", "x=randn(2)"), "own.py:product cannot be checked: the argument 'y' is missing\n"),
    (("own.py:half", "--inputs", "x=random(2)"), "'random(2)' is not a value; write randn(...),"),
    (("own.py:half", "--inputs", "x=randn(2"), "'randn(2' is not a value"),
    (("own.py:half", "--inputs", "randn(2)"), "--inputs has 'randn(2)' without a name"),
    (("own.py:raises", "--inputs", "x=randn(2)"), "own.py:raises cannot be checked: "),
    (("own.py:leaves", "--inputs", "x=randn(2)"), "own.py:leaves cannot be checked: SystemExit: 3, in line "),
    (("leaving.py:f", "--inputs", "x=randn(2)"), "leaving.py cannot be imported: SystemExit: 4, in line 1"),
    (("own.py:product(1)", "--inputs", "x=randn(2)"), "own.py:product(1) cannot be made: TypeError: product() missing"),
    (("own.py:scaled(oops)", "--inputs", "x=randn(2)"), "scaled(oops): its arguments must be numbers, strings, True, False or None"),
    (("own.py:scores", "--inputs", "x=randn(2) scale=ones(2)"), "own.py:scores cannot be checked: the function takes scale by keyword only; a check passes"),
    (("own.py:half", "--inputs", "=3 x=randn(2)"), "--inputs has '=3' without a name"),
    (("own.py:half", "--inputs", ""), "--inputs has '' without a name"),
    (("--inputs", "x=randn(2)", "own.py:half"), "--inputs is for a function; name it first, as in"),
    (("own.py:opaque", "--inputs", "x=randn(2)"), "own.py:opaque cannot be checked: RuntimeError: no "),
    (("own.py:stops", "--inputs", "x=randn(2)"), "own.py:stops cannot be checked: BaseException: odd, in line "),
    (("syntax.py:f", "--inputs", "x=randn(2)"), "syntax.py cannot be imported: SyntaxError: '(' was never closed (syntax.py, line 1)\n"),
    (("own.py:torch.nn.Linear(2)", "--inputs", "x=randn(2)"), "'torch.nn.Linear(2)' is not a call of a name in own.py"),
    (("own.py:scaled(2", "--inputs", "x=randn(2)"), "'scaled(2' is not a call of a name in own.py; write it like Layer(8, bias=False)"),
    (("own.py:scaled(2)(3)", "--inputs", "x=randn(2)"), "'scaled(2)(3)' is not a call"),
    (("own.py:Layer", "--inputs", "x=randn(2)"), "Layer is a class, and not an autograd Function; give a function, or an instance"),
    (("own.py:tanh,back,half", "--inputs", "x=randn(2)"), "own.py:tanh,back,half names 3 functions; give one, or FORWARD,BACKWARD"),
    (("nowhere:tanh", "--inputs", "x=randn(2)"), "nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    (("own.py:Tanh.sideways", "--inputs", "x=randn(2)"), "own.py:Tanh.sideways cannot be found: AttributeError: "),
    (("empty.py:f", "--inputs", "x=randn(2)"), "empty.py has no 'f'; it defines nothing"),
    (("own.py:half", "--inputs", "x=randn(2) x=randn(3)"), "--inputs has 'x' twice"),
    (("own.py:product", "--inputs", "x,x=randn(2)"), "--inputs has 'x' twice"),
    (("own.py:half", "--inputs", "x=randn(2, 10**9)"), "'randn(2, 10**9)' is not a value"),
    (("own.py:half", "--inputs", "x=randint(3,2)"), "no input or parameter requires a gradient"),
    (("own.py:half", "--inputs", "x=randn(2)", "--dtype", "bfloat16"), "--dtype bfloat16 is for functions of PyTorch and JAX"),
    (("own.py:half", "--inputs", "x=randn(2)", "--device", "cuda"), "--device is for functions of PyTorch; own.py:half is one of minigrad"),
    (("--device", "cuda"), "--device is for a function; name it first"),
    (("--json",), "--json is for a function; name it first, as in minigrad gradcheck"),
]


REFUSED_IN_TORCH = [
    (("torch_own.py:softmax", "--inputs", "scores=randn(2)", "--device", "meta"), "scores is on the device meta, which holds no numbers"),
    (("torch_own.py:softmax", "--inputs", "scores=randn(2)", "--device", "cuda:99"), "--device cuda:99 cannot be used: "),
    (("torch_own.py:softmax", "--inputs", "scores=randn(2)", "--device", "gpu"), "--device gpu cannot be used: Expected one of cpu, cuda"),
]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    for name, text in {"own": OWN, "torch_own": TORCH, "broken": "oops", "syntax": "f(", "empty": "", "loud": OWN + "print('loud')", "leaving": "raise SystemExit(4)"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def judged(run):
    def check(arguments, row):
        function, inputs, *flags = arguments
        code, out, err = run("gradcheck", function, "--inputs", inputs, *flags)
        problems = [line for line in err.splitlines() if "compiling kernels" not in line]
        assert (code, problems) == (row[0], []) and row[1] in out

    return check


def test_functions(run):
    each(CHECKS, judged(run))


def test_functions_of_pytorch(run, refused):
    pytest.importorskip("torch")
    each(IN_TORCH, judged(run))
    refused(REFUSED_IN_TORCH, "gradcheck")
    layer = "gradcheck", "torch_own.py:Layer(4)", "--inputs", "tokens=randn(3,4)", "--seed"
    assert run(*layer, 1) == run(*layer, 1) != run(*layer, 2)  # its parameters too


def test_what_the_function_prints_is_shown_once(run):
    code, out, err = run("gradcheck", "own.py:root", "--inputs", "a=spd(2)")
    assert code == 0 and "called" not in out and err.count("called") == 1


def test_json(run):
    code, out, _ = run("gradcheck", "loud.py:tanh,forgets_the_square", "--inputs", "x=randn(3,4)", "--json")
    report = json.loads(out)
    assert code == 1 and report["verdict"] == "fail" and report["inputs"][0]["name"] == "x"
    assert report["diagnosis"]["names"] == ["the power is missing"] and {check["passed"] for check in report["side_checks"]} == {True}
    for target, said in (("own.py:raises", "cannot be checked: TypeError"), ("none.py:f", "there is no file 'none.py'")):
        code, out, err = run("gradcheck", target, "--inputs", "x=randn(2)", "--json")
        report = json.loads(out)
        assert (code, err, report["verdict"]) == (2, "", "error") and said in report["error"]


def test_bad_input(refused):
    refused(REFUSED, "gradcheck")
