"""Train the model that comes with minigrad, in a few minutes, on what Python's standard library says about itself:

    python docs/starter.py            # writes models/starter/model.npz

The text is that of the Python that runs this: each module, class and function with the first paragraph of its docstring,
in a fixed random order.
"""
import ast
import dataclasses
import pathlib
import random
import sysconfig
import tempfile
import textwrap
from collections.abc import Iterator

from study.command import main
from models import checkpoint as checkpoints
from minigrad.extend import to_bfloat16
from models.data import in_ascii

FLAGS = "--layers 3 --heads 4 --width 64 --context 128 --batch-size 16 --steps 5000 --eval-every 500".split()
SKIPPED = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "test", "tests", "turtledemo"}
LONGEST_HEAD, LONGEST_PARAGRAPH = 100, 400  # characters
Entry = tuple[str, str | None]  # (a head such as "glob.escape(pathname)", its docstring)


def text() -> str:
    """All entries: the head, and below it the paragraph, indented. Of equal paragraphs, one stays."""
    heads = {docstring.strip().split("\n\n")[0]: head for head, docstring in entries() if docstring}
    found = [f"{head}\n{textwrap.indent(paragraph, '    ')}\n" for paragraph, head in sorted(heads.items())
             if len(head) <= LONGEST_HEAD and 0 < len(paragraph) <= LONGEST_PARAGRAPH]
    random.Random(0).shuffle(found)
    return in_ascii("\n".join(found))


def entries() -> Iterator[Entry]:
    """Those of the standard library's public modules."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = [part for part in path.relative_to(root).with_suffix("").parts if part != "__init__"]
        if SKIPPED.isdisjoint(parts) and not any(part.startswith(("_", "test_")) for part in parts):
            name, tree = ".".join(parts), ast.parse(path.read_bytes())
            yield f"module {name}", ast.get_docstring(tree)
            yield from members(tree, name)


def members(node: ast.Module | ast.ClassDef, place: str) -> Iterator[Entry]:
    """Those of the public classes and functions in a module or class, without those inside functions."""
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
            continue
        name = f"{place}.{child.name}"
        if isinstance(child, ast.ClassDef):
            yield f"class {name}", ast.get_docstring(child)
            yield from members(child, name)
        else:
            yield f"{name}({ast.unparse(child.args)})", ast.get_docstring(child)


def finish(run: pathlib.Path) -> pathlib.Path:
    """Write the model of a run into the package, without what only further training needs."""
    trained = checkpoints.load(run)
    model = {name: to_bfloat16(array) for name, array in trained.model.items()}
    finished = dataclasses.replace(trained, model=model, optimizer={}, dataset=trained.dataset | {"path": None})
    return checkpoints.save(checkpoints.STARTER_FILE.parent, finished, checkpoints.STARTER_FILE.name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file, run = pathlib.Path(folder, "standard_library.txt"), pathlib.Path(folder, "run")
        file.write_text(text(), encoding="utf-8")
        if main(["train", "--text", str(file), *FLAGS, "--out", str(run)]) == 0:
            print(finish(run))
