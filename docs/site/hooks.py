"""mkdocs' hooks for the site (mkdocs.yml). Each document keeps its path in the repository, so that its links work in both;
files of code that it links to become pages. reference.py writes those in reference/, `minigrad study` those in live/."""
import json
import pathlib
import posixpath
import re
import sys
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(pathlib.Path(__file__).parent)]  # the site is about this copy, not one that is installed

import reference  # noqa: E402
from minigrad.tracing.page import html  # noqa: E402
from study.page.command import page_of  # noqa: E402

FOLDERS = ".", "docs", "docs/*", "examples", "models/starter", "study/guide"
SUFFIXES = {".md", ".png", ".ipynb", ".css", ".js"}  # of documents, and of what they show
LIVE = {"head": {}, "heads": {"heads": 2}, "tiles": {"tiles": 2}, "block": {"block": "pre"}}  # flags of `minigrad study`
META = {  # what pages would say in front matter, which code hosts show
    "README.md": {"hide": ["navigation"]},
    "docs/gradcheck.md": {"hide": ["navigation"]},
    "study/guide/backprop_through_attention.md": {"search": {"boost": 20}},
}
OF_CODE = {"hide": ["navigation", "toc"], "search": {"exclude": True}}
OF_EXAMPLES = {"hide": ["toc"]}
LESSON = "examples/lesson.ipynb"
OPEN = "[Open the page](../live/head.html){ .md-button }"


class Code(File):
    """A page that shows a file of code."""

    def is_documentation_page(self) -> bool:
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Documents, the reference, the live pages, the code that they link to, and the theme's files."""
    paths = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*") if path.suffix in SUFFIXES)
    found = [File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, False) for path in paths]
    found += [File.generated(config, path, content=text) for path, text in reference.pages(entries(config.nav))]
    found += [File.generated(config, f"live/{name}.html", content=live(flags)) for name, flags in LIVE.items()]
    found.append(File.generated(config, LESSON.replace(".ipynb", ".md"), content=notebook(ROOT / LESSON)))
    found += [code(path, config) for path in sorted({path for file in found for path in linked(file)})]
    return Files([*found, *(file for file in files if file.src_dir != config.docs_dir)])


def entries(navigation: list) -> dict[str, str]:
    """{path: title} of the pages in the navigation."""
    found = {}
    for item in navigation:
        for title, target in item.items() if isinstance(item, dict) else [("", item)]:
            found |= {target: title} if isinstance(target, str) else entries(target)
    return found


def live(flags: dict) -> str:
    page = page_of(flags)
    return html(page.trace, page.extras)


def notebook(path: pathlib.Path) -> str:
    """Its cells and what they print, as Markdown."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            text = "".join(output.get("text") or output["data"]["text/plain"])
            parts.append(f"```text\n{text.rstrip()}\n```")
    parts.append(f"[The notebook]({path.name})")
    return "\n\n".join(parts) + "\n"


def linked(file: File) -> Iterator[str]:
    """The files of code that a document links to."""
    if file.src_uri.endswith(".md"):
        for target in re.findall(r"\]\(([^):#]+\.(?:py|js))[#)]", file.content_string):
            yield posixpath.normpath(posixpath.join(posixpath.dirname(file.src_uri), target))


def code(path: str, config: MkDocsConfig) -> Code:
    """Its lines have the anchors L1, L2, ..., as on code hosts."""
    text, shape = (ROOT / path).read_text(encoding="utf-8"), HtmlFormatter(lineanchors="L", wrapcode=True)
    coloured = re.sub(r'<a id="L-(\d+)"[^>]*>', r'<a id="L\1">', highlight(text, get_lexer_for_filename(path), shape))
    file = Code.generated(config, path, content=f"# {path}\n\n{coloured}\n")
    file.dest_uri = f"{path}.html"
    return file


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give examples with prompts their colours, and docs/study.md its page."""
    is_example = page.file.src_uri.startswith("examples/")
    page.meta |= OF_EXAMPLES if is_example else OF_CODE if isinstance(page.file, Code) else META.get(page.file.src_uri, {})
    if page.file.src_uri == "docs/study.md":
        markdown = markdown.replace("\n", f"\n\n{OPEN}\n", 1)
    return re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """In tables, a bar in code is escaped for code hosts only."""
    return re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)
