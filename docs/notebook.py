"""Make the guide to backpropagation a notebook.

    python docs/notebook.py            # writes study/guide/backprop_through_attention.ipynb

In the notebook, prose becomes Markdown cells, and examples become code without prompts.
"""
import ast
import doctest
import json
import pathlib
import re

GUIDE = pathlib.Path(__file__).parents[1] / "study/guide/backprop_through_attention.md"
NOTEBOOK = GUIDE.with_suffix(".ipynb")
CODE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PRINTING = re.compile(r"(show|print)\(")


def cells(text: str) -> list[dict]:
    """Prose and code in turn. A cell shows one result, so code is cut behind every example that has one."""
    found = []
    for i, part in enumerate(CODE.split(text)):
        if i % 2 == 0:
            found += [{"cell_type": "markdown", "metadata": {}, "source": lines(part)}] if part.strip() else []
            continue
        source = ""
        for example in doctest.DocTestParser().get_examples(part):
            source += example.source + ("\n" if "\n    " in example.source else "")  # a line between functions
            if example.want:
                found.append(code(source, example.want))
                source = ""
        if source:
            found.append(code(source, ""))
    return found


def code(source: str, result: str) -> dict:
    """A code cell, with its result: what it prints, or the value of its last line."""
    last = ast.parse(source).body[-1]
    is_value = isinstance(last, ast.Expr) and not PRINTING.match(ast.unparse(last))
    if is_value:
        output = {"data": {"text/plain": lines(result)}, "execution_count": None, "metadata": {},
                  "output_type": "execute_result"}
    else:
        output = {"name": "stdout", "output_type": "stream", "text": lines(result, "\n")}
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [output] if result else [],
            "source": lines(source)}


def lines(text: str, end: str = "") -> list[str]:
    """As notebooks keep text: a list of lines, each but the last with its end."""
    return (text.strip("\n") + end).splitlines(keepends=True)


def notebook(text: str) -> str:
    """The notebook, as JSON."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells(text), "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
                "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
