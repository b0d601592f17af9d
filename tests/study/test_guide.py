"""The guide as pages, which hold their pictures and link to what is installed."""
import html.parser
import pathlib
import shutil
import sys
import urllib.parse
import webbrowser

import pytest

from study.command import main
from study import guide


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def of(self, name: str) -> list[str]:
        return [given[name] for _, given in self.tags if name in given]


@pytest.fixture
def pages(tmp_path, monkeypatch) -> dict[str, Page]:
    monkeypatch.setitem(sys.modules, "markdown", None)  # which pip install . does not bring
    guide.write(tmp_path)
    return {path.name: Page(path.read_text("utf-8")) for path in tmp_path.iterdir()}


def leads_somewhere(pages: dict[str, Page], name: str, target: str) -> bool:
    url = urllib.parse.urlparse(target)
    if url.scheme:
        return url.scheme == "file" and pathlib.Path(urllib.parse.unquote(url.path)).is_file()
    return url.fragment in ("", *pages[url.path or name].of("id"))


def test_links_and_pictures_of_the_pages(pages):
    for name, page in pages.items():
        assert [target for target in page.of("href") if not leads_somewhere(pages, name, target)] == []
        assert all(source.startswith("data:image/png;base64,iVBOR") for source in page.of("src"))
    (first,) = pages.values()
    assert len(first.of("src")) == 4
    assert {"#part-1-understand-ds", (guide.GUIDE.parents[2] / "minigrad/runner.py").as_uri()} <= {*first.of("href")}
    assert ("h3", {"id": "4-the-weighted-mean"}) in first.tags and "table" in dict(first.tags) and "li" in dict(first.tags)
    assert "dS = P * (dP - r),     r = rowsum(dP * P)\n" in first.text


def test_what_is_not_installed_has_no_link(tmp_path):
    copy = tmp_path / "study/guide" / guide.GUIDE.name
    shutil.copytree(guide.GUIDE.parent, copy.parent)
    (tmp_path / "docs").mkdir()
    check = tmp_path / "docs/gradcheck.md"
    check.touch()
    page = Page(guide.as_page(copy))
    assert {target for target in page.of("href") if target[0] != "#"} == {
        copy.with_suffix(".ipynb").as_uri(), check.as_uri(), f"{check.as_uri()}#grading-exercises"}
    assert "Write a backward for each function" in page.text


def test_the_command_opens_the_guide(monkeypatch, capsys, tmp_path):
    urls = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["study", "--guide"]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert urls == [path.as_uri()] and path.name == "backprop_through_attention.html" and path.parents[1] == tmp_path
    assert main(["study", "--guide", "--no-open"]) == 0 and len(urls) == 1
