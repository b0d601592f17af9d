"""The guide to backpropagation through attention: Markdown, a notebook, and the page of `minigrad study --guide`."""
import pathlib
import re

from study import document

GUIDE = pathlib.Path(__file__).with_name("backprop_through_attention.md")


def write(folder: pathlib.Path) -> pathlib.Path:
    """Write the guide's page into a folder."""
    path = folder / f"{GUIDE.stem}.html"
    path.write_text(document.page(GUIDE.read_text(encoding="utf-8"), GUIDE.parent), encoding="utf-8")
    return path


def fragment(section: int | None) -> str:
    """Where a section is on the page: "#4-the-weighted-mean"; "" without one, and ValueError if there is none."""
    headings = re.findall(r"^### (\d+\. .*)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    if section is None:
        return ""
    if not 1 <= section <= len(headings):
        raise ValueError(f"--guide: the guide has sections 1 to {len(headings)}, got {section}")
    return f"#{document.anchor(headings[section - 1])}"
