"""The site: it is built without a warning, its links lead somewhere, it names all that users import, and a search works
without a server."""
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest

mkdocs = pytest.importorskip("mkdocs")

ROOT = pathlib.Path(__file__).parents[1]
INTERNAL = {"minigrad.as_function", "models.tasks.Task"}
GUIDE = "study/guide/backprop_through_attention.html"


class Page(html.parser.HTMLParser):
    """The places of a page, what it links to, and what it shows or loads."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.places, self.links, self.loaded = {""}, set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places.add(given.get("id") or "")
        (self.links if tag == "a" else self.loaded).add(given.get("href") or given.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # --strict: nor is there a warning
    assert not [line for line in done.stderr.splitlines() if not line.startswith("INFO ")]
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    paths = set(site.rglob("*.html")) - {site / "404.html"}  # whose links are for a server
    return {path.relative_to(site).as_posix(): Page(path) for path in paths}


def is_there(site: pathlib.Path, pages: dict[str, Page], name: str, target: str) -> bool:
    path, _, place = urllib.parse.unquote(target).partition("#")
    found = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
    return (site / found).is_file() and (found not in pages or place in pages[found].places)


def test_links_lead_somewhere_within_the_site(site, pages):
    targets = [(name, target) for name, page in pages.items() for target in page.links | page.loaded]
    broken = [row for row in targets if not re.match(r"\w+:", row[1]) and not is_there(site, pages, *row)]
    assert broken == [] and len(targets) > 5_000
    assert not [row for row in targets if row[1].startswith("http") and row[1] in pages[row[0]].loaded]
    assert not any(is_there(site, pages, "index.html", target) for target in ("no.html", "index.html#no", "docs"))


def test_pictures_code_and_the_live_pages_are_there(site, pages):
    assert {"study/guide/attention.png", "docs/study/step.png"} <= pages["index.html"].loaded
    assert {"../../minigrad/ops/attention.py.html", "backprop_through_attention.ipynb"} <= pages[GUIDE].links
    assert "minigrad.ops.softmax.html#Tensor.softmax" in pages["reference/minigrad.tensor.html"].links
    examples = {f"{path.name}.html" for path in (ROOT / "examples").glob("*.py")} | {"lesson.html"}
    assert examples - {"digits.py.html"} <= pages["examples/mlp.py.html"].links  # in its navigation
    assert "lesson.ipynb" in pages["examples/lesson.html"].links
    assert f"../{GUIDE}" in pages["reference/minigrad.ops.attention.html"].links  # as its docstring says
    assert "../live/head.html" in pages["docs/study.html"].links and "stations" in (site / "live/head.html").read_text("utf-8")


def test_the_reference_has_what_users_import(site):
    code = "import sys; sys.path.insert(0, 'docs/site'); import reference; print(*reference.PUBLIC.values())"
    names = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = "".join(path.read_text("utf-8") for path in (site / "reference").glob("*.html"))
    shown = {*re.findall(r'<h[23] id="([\w.]+)"', text), *re.findall(r"<code>([\w.]+)</code>", text)}
    assert {"minigrad.grad", "nn.Linear", "models.load", "Tensor.softmax", "Tensor.backward", "Module.parameters"} <= shown
    assert {"minigrad.softmax", "nn.functional.softmax"} <= {*names} and {*names} - shown <= INTERNAL


def test_a_search_finds_the_derivation(site):
    found = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    sections = {row["location"]: row["text"] for row in found}
    assert "its row sum" in sections[f"{GUIDE}#4-the-weighted-mean"]
    assert ">>> " in sections["reference/minigrad.tensor.html#minigrad.Tensor"].replace("&gt;", ">")
    assert not any(location.startswith("minigrad/") for location in sections)  # code is not searched


def test_a_search_works_from_a_disk(site, browser):
    browser.open(site / "index.html")
    field = browser.driver.find_element("css selector", ".md-search__input")
    browser.driver.execute_script("arguments[0].value = 'row su'", field)  # lunr may warn of parts as short as one letter
    field.send_keys("m")
    browser.wait_for(f'.md-search-result__item:first-child a[href*="{GUIDE}"]')
