"""Documents: links work, files that they name exist, the guide's examples print the numbers in its prose, and what is made of it is up to date and runs."""
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
from study.page.attention import DEFAULT
from study.page.mistakes import MISTAKES
from study.page.stations import STATIONS

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = sorted(path for folder in (".", "docs", "examples", "models/starter", "study/guide") for path in ROOT.joinpath(folder).glob("*.md"))
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def prose(document: pathlib.Path) -> str:
    return FENCED.sub("", document.read_text(encoding="utf-8"))


@functools.cache
def anchors(document: pathlib.Path) -> set[str]:
    """A document's ids and GitHub's anchors of its headings (lower case, hyphens for spaces, no punctuation); a code file's
    lines."""
    if document.suffix != ".md":
        return {f"L{line}" for line in range(1, document.read_text(encoding="utf-8").count("\n") + 1)}
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return names | set(re.findall(r'<a id="([^"]+)">', prose(document)))


def links(document: pathlib.Path) -> list[str]:
    """The links within the project."""
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(document))
    return [target for target in targets if not re.match(r"\w+://", target)]


def is_there(document: pathlib.Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = document.parent / path if path else document
    return file.exists() and (not anchor or anchor in anchors(file))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_work(document):
    assert [target for target in links(document) if not is_there(document, target)] == []


def test_links_are_found():
    assert "#part-3-flash-attention" in links(GUIDE) and "../../minigrad/ops/attention.py" in links(GUIDE)
    assert not any(is_there(GUIDE, target) for target in ("#part-9", "../../minigrad/ops/no.py", "../../minigrad/tape.py#L9999"))


FOLDERS = ROOT, ROOT / "minigrad", ROOT / "minigrad/fast"  # which documents leave out


def named_files(text: str) -> set[str]:
    """Files in the project's folders, and those of the benchmarks' commands."""
    paths = re.findall(r"(?<![\w./-])(?:\w+/)+\w+\.(?:py|txt|md|ipynb)\b", text)
    commands = re.findall(r"python -m (benchmarks\.\w+)", text)
    ours = [path for path in paths if any((folder / path.split("/")[0]).is_dir() for folder in FOLDERS)]
    return {*ours, *[f"{module.replace('.', '/')}.py" for module in commands]}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_files_exist(document):
    names = named_files(document.read_text(encoding="utf-8"))
    assert [name for name in names if not any((folder / name).exists() for folder in FOLDERS)] == []


def test_files_are_found():
    text = "`kernels/gemm.py`, jane/softmax.py, `python tests/no.py`, `python -m benchmarks.to_a_loss`, [a](../tests/by_hand.py)"
    assert named_files(text) == {"kernels/gemm.py", "tests/no.py", "benchmarks/to_a_loss.py"}


# ---- the guide ----

NUMBER = re.compile(r"(?<![\w.])-?\d*\.\d+|(?<![\w.])-?\d+\.(?=[\s\]])")

OUTPUT = re.compile(r"^```text$.*?^```$", re.DOTALL | re.MULTILINE)  # of a script


def unprinted(section: str) -> set[float]:
    """Decimal numbers in the prose and formulas of a section that none of its examples prints."""
    examples = doctest.DocTestParser().get_examples("\n".join(CODE.findall(section)))
    printed = {float(number) for example in examples for number in NUMBER.findall(example.want)}
    written = re.sub(r"^#.*|\]\([^)]*\)", "", OUTPUT.sub("", CODE.sub("", section)), flags=re.MULTILINE)
    return {float(number) for number in re.findall(r"(?<![\w.:])-?\d+\.\d+", written)} - printed


SECTIONS = re.split(r"^(?=##)", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0].strip("# "))
def test_examples_print_the_numbers_in_the_prose_of_their_section(section):
    assert unprinted(section) == set()


def test_numbers_are_found():
    example = "```python\n>>> show(x)\n[ 0.25 -1.   ]\n\n```\n"
    assert unprinted(f"### 1. It is 0.25, or -1.0, not 0.5\n0.25, -1.0 and `0.75`\n{example}") == {0.75}
    assert unprinted("```text\n0.125\n```\n\n```\n0.25\n```\n") == {0.25}
    assert unprinted(f"x_1 = 1.0 (0.250 - 3.5), arXiv:1706.03762\n{example}") == {1.0, 3.5}
    assert sum(bool(NUMBER.search(CODE.sub("", section))) for section in SECTIONS) > 3


def test_readme_and_guide_have_the_pages_numbers_and_mistakes():
    page = [x.tolist() for x in (*DEFAULT.inputs.values(), DEFAULT.upstream)]
    for document, start, names in ((GUIDE, "np.array", ["Q", "K", "V", "dO"]),
                                   (ROOT / "README.md", "mg.tensor", ["q", "k", "v", "upstream"])):
        given = re.findall(rf"^>>> (\w+) = {start}\((\[\[.*\]\])", document.read_text(encoding="utf-8"), re.MULTILINE)[:4]
        assert [(name, ast.literal_eval(rows)) for name, rows in given] == list(zip(names, page))

    text, = (" ".join(section.split()) for section in SECTIONS if section.startswith("### 12."))
    named = {mistake.title for mistake in MISTAKES if mistake.title in text}
    assert named == {"no scale", "only the diagonal", "dk not transposed", "not masked again"}
    assert {mistake.title for mistake in MISTAKES if mistake.is_right} == {"not masked again"}


def test_the_guide_names_the_stations_that_cite_it():
    named = {}
    for section in SECTIONS:
        for number, flag in re.findall(r"^\*\*On the page\*\*: station (\d+), `minigrad study --numbers --station (\d+)`\.$", section,
                                       re.MULTILINE):
            assert number == flag
            named[section.splitlines()[0].strip("# ")] = int(number)
    assert named == {station["guide"]: number for number, station in enumerate(STATIONS, 1)}


def test_the_notebook_made_of_the_guide_is_up_to_date():
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(GUIDE.read_text(encoding="utf-8")), "run python docs/notebook.py"


@pytest.mark.parametrize("path", [NOTEBOOK, ROOT / "examples/lesson.ipynb"], ids=["the guide", "the lesson"])
def test_a_notebook_runs_and_shows_its_outputs(tmp_path, path):
    """In a fresh process."""
    command = [sys.executable, ROOT / "tests/run_notebook.py", path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    same = doctest.OutputChecker().check_output
    for cell, shown in zip(cells, json.loads(done.stdout), strict=True):
        expected = {"printed": "", "value": ""}
        for output in cell["outputs"]:
            is_value = output["output_type"] == "execute_result"
            expected["value" if is_value else "printed"] = "".join(output["data"]["text/plain"] if is_value else output["text"])
        for kind, text in expected.items():
            assert same(text, shown[kind] or "", doctest.NORMALIZE_WHITESPACE), ("".join(cell["source"]), text, shown)
