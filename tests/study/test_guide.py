"""The guide as a page, which holds its pictures and links to what is installed; the Markdown that it is made of."""
import html.parser
import pathlib
import sys
import urllib.parse
import webbrowser

import pytest
from refusals import one_line

from study import document, guide
from study.command import main

ROOT = pathlib.Path(__file__).parents[2]
TEXT = guide.GUIDE.read_text(encoding="utf-8")
PAIRED = "img", "thead", "tbody"  # tags that say nothing more


class Page(html.parser.HTMLParser):
    """Tags with what they identify and lead to, and words between them."""

    def __init__(self, text: str):
        super().__init__()
        self.parts, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, given := dict(attributes)))
        self.parts += [(tag, given.get("id"), given.get("alt"))] * (tag not in PAIRED[1:])

    def handle_endtag(self, tag):
        self.parts += [(f"/{tag}",)] * (tag not in PAIRED)

    def handle_data(self, data):
        self.parts += [" ".join(data.split())] * bool(data.strip())

    def of(self, name: str) -> list[str]:
        return [given[name] for _, given in self.tags if name in given]


@pytest.mark.parametrize("path", ["study/guide/backprop_through_attention.md", "docs/study.md", "docs/pytorch.md", "docs/training.md"])
def test_documents_are_rendered_as_by_the_library_markdown(path):
    markdown = pytest.importorskip("markdown")
    text, folder = (ROOT / path).read_text(encoding="utf-8"), (ROOT / path).parent
    expected = Page(markdown.markdown(text, extensions=["fenced_code", "sane_lists", "tables", "toc"]))
    assert Page(document.body(text, folder)).parts == expected.parts and len(expected.parts) > 300


def test_links_and_pictures_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown", None)  # which pip install . does not bring
    page = Page(guide.write(tmp_path).read_text("utf-8"))
    urls = [urllib.parse.urlparse(target) for target in page.of("href")]
    assert [url for url in urls if url.scheme not in ("", "file")] == []
    assert all(pathlib.Path(urllib.parse.unquote(url.path)).is_file() if url.scheme else url.fragment in page.of("id") for url in urls)
    assert len(page.of("src")) == 4 and all(source.startswith("data:image/png;base64,iVBOR") for source in page.of("src"))
    assert {"#part-1-understand-ds", (ROOT / "minigrad/runner.py").as_uri()} <= {*page.of("href")}
    assert any("dS = P * (dP - r), r = rowsum(dP * P)" in part for part in page.parts)


def test_what_is_not_installed_has_no_link(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").touch()
    page = Page(document.body("[a](a.md#there) [b](b.md) [c](../docs)", tmp_path / "docs"))
    assert page.of("href") == [(tmp_path / "docs/a.md").as_uri() + "#there"] and "b c" in page.parts


def test_the_command_opens_the_guide_at_a_section(monkeypatch, capsys, tmp_path):
    urls = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["study", "--guide"]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert urls == [path.as_uri()] and path.name == "backprop_through_attention.html" and path.parents[1] == tmp_path
    assert main(["study", "--guide", "4"]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert urls[1] == f"{path.as_uri()}#4-the-weighted-mean" and "4-the-weighted-mean" in Page(path.read_text("utf-8")).of("id")
    assert main(["study", "--guide", "--no-open"]) == 0 and len(urls) == 2 and capsys.readouterr()
    for number in ("0", "26"):
        code = main(["study", "--guide", number])
        one_line((code, *capsys.readouterr()), f"--guide: the guide has sections 1 to 25, got {number}", (2,))


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_is_accessible(browser, tmp_path, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    browser.open(guide.write(tmp_path))
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.accessibility() == [] and browser.errors() == [] and browser.requests() == []
