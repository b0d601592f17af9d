"""An extension of griffe, which reads docstrings for mkdocstrings: plain text, with examples and indented lines as code."""
import re

import griffe


class PlainText(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A docstring as Markdown; nothing in its sentences is markup but `code` and links to documents."""
    parts, block, last = [], "", ""
    for line in text.splitlines():
        is_example = line.startswith(">>>") or bool(line) and block == "pycon"
        is_code = line.startswith("    ") or not line and block == "text"
        kind = "pycon" if is_example else "text" if is_code else ""
        if kind != block:
            parts += ["```"] * bool(block) + [""] + [f"```{kind}"] * bool(kind)
        elif last and re.match(r"\w+: ", line):  # of a list of arguments
            parts.append("<br>")
        parts.append(line if is_example else line.removeprefix("    ") if is_code else escaped(line))
        block, last = kind, line
    return "\n".join(parts + ["```"] * bool(block))


def escaped(line: str) -> str:
    line = re.sub(r"(`[^`]*`|\b[\w/]+\.md\b)|([\\*_<\[#|])", lambda found: found[1] or f"&#{ord(found[2])};", line)
    return re.sub(r"\b(?:docs|study)/[\w/]+\.md", r"[\g<0>](../\g<0>)", line)
