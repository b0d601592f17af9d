"""Run a notebook's code cells in order, as a kernel does, and print their outputs as JSON:

    python tests/run_notebook.py study/guide/backprop_through_attention.ipynb
"""
import ast
import contextlib
import io
import json
import pathlib
import sys


def run(source: str, namespace: dict) -> dict:
    """What a cell prints, and the repr of its last expression, or None."""
    tree, value = ast.parse(source), None
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(last, "<cell>", "eval"), namespace)
    return {"printed": printed.getvalue(), "value": None if value is None else repr(value)}


if __name__ == "__main__":
    namespace = {"__name__": "__main__"}
    cells = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    json.dump([run(source, namespace) for source in sources], sys.stdout)
