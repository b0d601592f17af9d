"""mkdocs' hooks for the site (mkdocs.yml). Each document keeps its path in the repository, so that its links work in both;
mkdocstrings makes the reference of the modules' docstrings, and `minigrad study` the live pages."""
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the site is about this copy, not one that is installed

from minigrad.tracing.page import html  # noqa: E402
from study.page.command import page_of  # noqa: E402

SHOWN = "*.md", "docs/*.md", "docs/*/*.png", "docs/site/*.*s", "examples/*.*", "models/starter/*.md", "study/guide/*.*"
WHOLE = "minigrad", "minigrad.ops", "minigrad.autograd", "nn", "models"  # a page for each module
GATHERED = (  # packages that name what users import of their modules
    "minigrad.gradcheck", "minigrad.tracing", "minigrad.tracing.flops", "minigrad.fast", "minigrad.fast.autocast",
    "minigrad.arrays.dtypes", "minigrad.arrays.devices", "nn.functional", "nn.optim", "nn.utils", "nn.utils.data",
    "nn.utils.rnn", "models.tokenizers", "study.exercises", "study.mistakes", "study.notes",
)
LIVE = {"head": {}, "heads": {"heads": 2}, "tiles": {"tiles": 2}, "block": {"block": "pre"}}  # flags of `minigrad study`
META = {  # what pages would say in front matter, which code hosts show
    "README.md": {"hide": ["navigation"]},
    "docs/gradcheck.md": {"hide": ["navigation"]},
    "study/guide/backprop_through_attention.md": {"search": {"boost": 20}},
}
OPEN = "[Open the page](../live/head.html){ .md-button }"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Documents, the code that they link to, the reference, the live pages, and the theme's files."""
    paths = {path for pattern in SHOWN for path in ROOT.glob(pattern)}
    paths |= {code for path in paths if path.suffix == ".md" for code in linked_code(path)}
    found = [File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, False) for path in sorted(paths)]
    found += [File.generated(config, f"reference/{name}.md", content=text) for name, text in reference()]
    found += [File.generated(config, f"live/{name}.html", content=live(flags)) for name, flags in LIVE.items()]
    return Files([*found, *(file for file in files if file.src_dir != config.docs_dir)])


def linked_code(document: pathlib.Path) -> Iterator[pathlib.Path]:
    for target in re.findall(r"\]\(([^):#]+\.(?:py|js))[#)]", document.read_text(encoding="utf-8")):
        yield (document.parent / target).resolve()


def reference() -> Iterator[tuple[str, str]]:
    """(name, Markdown) of the page of each public module, and of a table of all."""
    lines = ["# Reference", "", "| module | |", "|---|---|"]
    for name in sorted({*GATHERED, *(name for package in WHOLE for name in modules(package))}):
        summary = (inspect.getdoc(importlib.import_module(name)) or "").partition("\n\n")[0]
        lines.append(f"| [{name}]({name}.md) | {' '.join(summary.split()).replace('|', '&#124;')} |")
        yield name, f"# {name}\n\n::: {name}\n"
    yield "index", "\n".join(lines)


def modules(package: str) -> Iterator[str]:
    """A package and its modules, without packages within and programs."""
    yield package
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if not module.ispkg and "._" not in module.name:
            yield module.name


def live(flags: dict) -> str:
    page = page_of(flags)
    return html(page.trace, page.extras, page.backwards)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give examples with prompts their colours, and docs/study.md its page."""
    page.meta |= META.get(page.file.src_uri, {})
    if page.file.src_uri == "docs/study.md":
        markdown = markdown.replace("\n", f"\n\n{OPEN}\n", 1)
    return re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """In tables, a bar in code is escaped for code hosts only."""
    return re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)
