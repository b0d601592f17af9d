"""The guide to backpropagation through attention, as Markdown, as a notebook, and as the page that `minigrad study --guide`
opens, with another for the lecture notes."""
import base64
import contextlib
import html
import pathlib
import re

from models.extras import MissingExtra, extra

GUIDE = pathlib.Path(__file__).with_name("backprop_through_attention.md")
DOCUMENTS = GUIDE, GUIDE.parents[1] / "notes" / "lecture_notes.md"
EXTENSIONS = "fenced_code", "sane_lists", "tables", "toc"
PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif }}
body {{ color: #1d2433; background: #fbfaf8 }}
a {{ color: #3a4fd0 }} img {{ max-width: 100% }} code {{ font-size: 0.875em }}
pre {{ overflow-x: auto; padding: 0.75rem; background: #f1f1f4 }}
table {{ display: block; overflow-x: auto; border-collapse: collapse }}
td, th {{ border: 1px solid #dcdfe6; padding: 0.25rem 0.75rem; text-align: left; vertical-align: top }}
</style>
{body}
"""


def write(folder: pathlib.Path) -> pathlib.Path:
    """Write the pages of all documents into a folder, and return that of the guide."""
    for document in DOCUMENTS:
        (folder / f"{document.stem}.html").write_text(as_page(document), encoding="utf-8")
    return folder / f"{GUIDE.stem}.html"


def as_page(document: pathlib.Path) -> str:
    """A document in HTML, which holds its pictures. Links lead to pages of documents and to installed files; what is not
    installed has none."""
    def picture(found: re.Match) -> str:
        data = base64.b64encode((document.parent / found[1]).read_bytes()).decode()
        return f'src="data:image/png;base64,{data}"'

    def link(found: re.Match) -> str:
        target = (document.parent / found[1]).resolve()
        url = f"{target.stem}.html" if target in DOCUMENTS else target.as_uri()
        return f'<a href="{url}{found[2]}">{found[3]}</a>' if target.is_file() else found[3]

    text = document.read_text(encoding="utf-8")
    body = in_html(text)
    body = re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), body)  # what code hosts want escaped in code
    body = re.sub(r'src="([^"]+)"', picture, body)
    body = re.sub(r'<a href="([^"#:]+)(#[^"]*|)">(.*?)</a>', link, body, flags=re.DOTALL)
    return PAGE.format(title=text.partition("\n")[0].removeprefix("# "), body=body)


def in_html(markdown: str) -> str:
    """As it stands if the library markdown is missing, which the extra docs installs."""
    with contextlib.suppress(MissingExtra):
        return extra("docs", "markdown").markdown(markdown, extensions=EXTENSIONS)
    return f"<pre>{html.escape(markdown)}</pre>"
