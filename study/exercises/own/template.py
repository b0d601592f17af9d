"""The template for a teacher's own exercise. It is a complete exercise."""
import pathlib

TEMPLATE = '''"""The exercise {name}. Try it as a student would:

    minigrad exercises start {name}_exercise.py
    minigrad exercises check {name}.py --exercise {name}_exercise.py
"""
import numpy as np

title = "A gate"
statement = """
Say in about five lines what is given, what to find, and why it matters. Here: a gate lets a part of x through, and each
column has its own. Find the gradients of x and of the gate.
"""
shapes = {{"x": "M N", "gate": "N"}}  # of forward's arguments; each letter is a size, drawn anew each time


def forward(x, gate):
    return x / (1 + np.exp(-gate))


# That is enough. Everything below is optional.

difficulty = 2  # 1 to 5; also the points for a right answer
formula = "out = x * sigmoid(gate)"  # default: the source of forward
about = {{"x": "what comes in", "gate": "one number for each column"}}
hints = (
    "How often is each number of gate used?",
    "sigmoid' = sigmoid * (1 - sigmoid).",
    "dx = dout * s, and dgate is the sum over rows of dout * x * s * (1 - s), with s = sigmoid(gate).",
)


def backward(dout, x, gate):  # the solution; without it, finite differences say what is right
    s = 1 / (1 + np.exp(-gate))
    return dout * s, (dout * x * s * (1 - s)).sum(axis=0)


def not_summed(dout, x, gate):
    s = 1 / (1 + np.exp(-gate))
    return dout * s, dout * x * s * (1 - s)


mistakes = {{  # wrong backwards, and what you would say to a student who wrote one
    "not summed": ("gate is used in each row: sum its gradient over the rows", not_summed),
}}
'''


def new(name: str, folder: str | pathlib.Path = ".") -> pathlib.Path:
    """Write NAME_exercise.py into the folder, unless it exists, and return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     new("gate", folder).name
    'gate_exercise.py'
    """
    if not name.isidentifier() or name.endswith("_backward"):
        raise ValueError(f"{name!r} cannot name an exercise; use letters, digits and _, such as my_norm: students will "
                         "write my_norm_backward")
    path = pathlib.Path(folder) / f"{name}_exercise.py"
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise ValueError(f"{path} already exists; choose another name") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
    return path
