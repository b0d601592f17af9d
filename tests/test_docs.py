"""Documents: links lead somewhere, numbers in the guide's prose are printed by its examples, and its notebook runs."""
import ast
import doctest
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from docs.notebook import CODE, GUIDE, NOTEBOOK, notebook
from docs.pictures import DY, X
from study.page.attention import DEFAULT
from study.page.mistakes import MISTAKES

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def prose(document: pathlib.Path) -> str:
    return FENCED.sub("", document.read_text(encoding="utf-8"))


@functools.cache
def anchors(document: pathlib.Path) -> set[str]:
    """Of a document, its ids and the names that GitHub gives to headings: lower case, hyphens for spaces, no other signs.
    Of code, its lines."""
    if document.suffix != ".md":
        return {f"L{line}" for line in range(1, document.read_text(encoding="utf-8").count("\n") + 1)}
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return names | set(re.findall(r'<a id="([^"]+)">', prose(document)))


def links(document: pathlib.Path) -> list[str]:
    """Those that lead to other places of the project."""
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(document))
    return [target for target in targets if not re.match(r"\w+://", target)]


def is_there(document: pathlib.Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = document.parent / path if path else document
    return file.exists() and (not anchor or anchor in anchors(file))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    assert [target for target in links(document) if not is_there(document, target)] == []


def test_links_are_found():
    assert "#part-3-flash-attention" in links(GUIDE) and "../minigrad/ops/attention.py" in links(GUIDE)
    assert not any(is_there(GUIDE, target) for target in ("#part-9", "../minigrad/ops/no.py", "../minigrad/tape.py#L9999"))


# ------------------------------------------------------------------------------------------------ the guide

NUMBER = re.compile(r"(?<![\w.])-?\d*\.\d+|(?<![\w.])-?\d+\.(?=[\s\]])")


def unprinted(section: str) -> set[float]:
    """Numbers with a decimal point in the prose and the formulas of a section that none of its examples prints."""
    examples = doctest.DocTestParser().get_examples("\n".join(CODE.findall(section)))
    printed = {float(number) for example in examples for number in NUMBER.findall(example.want)}
    written = re.sub(r"^#.*|\]\([^)]*\)", "", CODE.sub("", section), flags=re.MULTILINE)
    return {float(number) for number in re.findall(r"(?<![\w.:])-?\d+\.\d+", written)} - printed


SECTIONS = re.split(r"^(?=##)", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0].strip("# "))
def test_numbers_in_prose_are_printed_by_an_example_of_the_section(section):
    assert unprinted(section) == set()


def test_numbers_are_found():
    example = "```python\n>>> show(x)\n[ 0.25 -1.   ]\n\n```\n"
    assert unprinted(f"### 1. It is 0.25, or -1.0, not 0.5\n0.25, -1.0 and `0.75`\n{example}") == {0.75}
    assert unprinted(f"x_1 = 1.0 (0.250 - 3.5), arXiv:1706.03762\n{example}") == {1.0, 3.5}
    assert sum(bool(NUMBER.search(CODE.sub("", section))) for section in SECTIONS) > 3


def test_the_guide_has_the_numbers_of_the_page_and_its_mistakes():
    examples, = (section for section in SECTIONS if section.startswith("### 8."))
    given = re.findall(r"^>>> (\w+) = np.array\((\[\[.*)\)$", examples, re.MULTILINE)
    page = DEFAULT.inputs | {"dO": DEFAULT.upstream}
    assert {name: ast.literal_eval(rows) for name, rows in given} == {name: x.tolist() for name, x in page.items()}

    text, = (" ".join(section.split()) for section in SECTIONS if section.startswith("### 12."))
    named = {mistake.title for mistake in MISTAKES if mistake.title in text}
    assert named == {"no scale", "only the diagonal", "dk not transposed", "not masked again"}
    assert {mistake.title for mistake in MISTAKES if mistake.equivalent} == {"not masked again"}


def test_the_picture_of_softmax_has_the_numbers_of_the_guide():
    assert f"x, dy = np.array({X}), np.array({DY})" in GUIDE.read_text(encoding="utf-8")


def test_notebook_is_that_of_the_guide():
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(GUIDE.read_text(encoding="utf-8")), (
        "run python docs/notebook.py, which makes it anew")


def test_notebook_runs_and_shows_what_it_says(tmp_path):
    """In a process of its own, which knows nothing of this one."""
    command = [sys.executable, ROOT / "tests/run_notebook.py", NOTEBOOK]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    same = doctest.OutputChecker().check_output
    for cell, shown in zip(cells, json.loads(done.stdout), strict=True):
        expected = {"printed": "", "value": ""}
        for output in cell["outputs"]:
            is_value = output["output_type"] == "execute_result"
            expected["value" if is_value else "printed"] = "".join(output["data"]["text/plain"] if is_value else output["text"])
        for kind, text in expected.items():
            assert same(text, shown[kind] or "", doctest.NORMALIZE_WHITESPACE), ("".join(cell["source"]), text, shown)
