"""The site: it is built without a warning, its links lead somewhere, it names all that users import, and a search works
without a server."""
import html.parser
import importlib
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
    assert broken == [] and len(targets) > 2_000
    assert not [row for row in targets if row[1].startswith("http") and row[1] in pages[row[0]].loaded]
    assert not any(is_there(site, pages, "index.html", target) for target in ("no.html", "index.html#no", "docs"))


def test_pictures_code_and_the_live_pages_are_there(site, pages):
    assert {"study/guide/attention.png", "docs/study/play.png"} <= pages["index.html"].loaded
    assert {"../../minigrad/ops/attention.py", "backprop_through_attention.ipynb"} <= pages[GUIDE].links
    assert {"mlp.py", "lesson.ipynb"} <= pages["examples/index.html"].links
    assert f"../{GUIDE}" in pages["reference/minigrad.ops.attention.html"].links  # as its docstring says
    assert "../live/head.html" in pages["docs/study.html"].links and "stations" in (site / "live/head.html").read_text("utf-8")


@pytest.mark.parametrize("module", ["minigrad", "nn", "nn.functional", "nn.init", "nn.optim", "nn.utils.data", "models", "minigrad.gradcheck"])
def test_the_reference_has_what_users_import(site, module):
    """As an entry or, made by a function such as `predicate`, in the code of its family."""
    shown = {*re.findall(r"\w+", "".join(path.read_text("utf-8") for path in (site / "reference").glob("*.html")))}
    namespace = importlib.import_module(module)
    ours = {name: value for name, value in vars(namespace).items() if name[0] != "_" and callable(value)}
    names = {name: {name, value.__name__} for name, value in ours.items() if value.__module__.startswith(module.partition(".")[0])}
    assert len(names) > 5 and not [name for name, either in names.items() if not either & shown] and "no_such_name" not in shown


def test_a_search_finds_the_derivation(site):
    found = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    sections = {row["location"]: row["text"] for row in found}
    assert "its row sum" in sections[f"{GUIDE}#4-the-weighted-mean"]
    assert ">>> " in sections["reference/minigrad.tensor.html#minigrad.tensor.Tensor"].replace("&gt;", ">")


def test_a_search_works_from_a_disk(site, browser):
    browser.open(site / "index.html")
    field = browser.driver.find_element("css selector", ".md-search__input")
    browser.driver.execute_script("arguments[0].value = 'row su'", field)  # lunr may warn of parts as short as one letter
    field.send_keys("m")
    browser.wait_for(f'.md-search-result__item:first-child a[href*="{GUIDE}"]')
