"""Markdown as one HTML page that works offline: as much of Markdown as the guide and the exercises' statements use."""
import base64
import html
import pathlib
import re

TEMPLATE = pathlib.Path(__file__).with_suffix(".html")
BLOCK = re.compile(r"""
    ^```\w*\n(?P<code>[\s\S]*?)^```$
    | ^(?P<heading>\#{1,6}\ .*)$
    | (?P<table>(?:^\|.*\n?)+)
    | (?P<ul>(?:^-\ .*\n?(?:^\ +\S.*\n?)*)+)
    | (?P<ol>(?:^\d+\.\ .*\n?(?:^\ +\S.*\n?)*)+)
    | (?P<indented>(?:^\ {4}.*\n?)+)
    | (?P<paragraph>(?:^(?!```)\S.*\n?)+)
""", re.MULTILINE | re.VERBOSE)
INLINE = re.compile(r"""
    `(?P<code>[^`]+)`
    | !\[(?P<alt>[^\]]*)\]\((?P<picture>[^)]+)\)
    | \[(?P<words>[^\]]*)\]\((?P<link>[^)]+)\)
    | \*\*(?P<strong>\S(?:[\s\S]*?\S)??)\*\*
    | (?<!\w)\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*(?!\w)
""", re.VERBOSE)


def page(text: str, folder: pathlib.Path) -> str:
    """A page of its own: it holds its pictures, and links from this folder lead to the files that are there."""
    title, = re.findall("^# (.*)", text, re.MULTILINE)
    parts = {"title": html.escape(title), "body": body(text, folder)}
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], TEMPLATE.read_text(encoding="utf-8"))


def body(text: str, folder: pathlib.Path) -> str:
    return "\n".join(block(found.lastgroup, found[found.lastgroup], folder) for found in BLOCK.finditer(text))


def block(kind: str, text: str, folder: pathlib.Path) -> str:
    match kind:
        case "code":
            return f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>'
        case "indented":
            return block("code", re.sub("^    ", "", text, flags=re.MULTILINE), folder)
        case "heading":
            marks, _, words = text.partition(" ")
            return f'<h{len(marks)} id="{anchor(words)}">{inline(words, folder)}</h{len(marks)}>'
        case "table":
            head, _, *rows = ([inline(cell, folder) for cell in row.strip("|").split("|")] for row in text.splitlines())
            lines = ["".join(f'<th scope="col">{cell}</th>' for cell in head)]
            lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
            return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
        case "ul" | "ol":
            items = re.split(r"^(?:-|\d+\.) ", text, flags=re.MULTILINE)[1:]
            return f"<{kind}>{''.join(f'<li>{inline(item, folder)}</li>' for item in items)}</{kind}>"
    return f"<p>{inline(text, folder)}</p>"


def inline(text: str, folder: pathlib.Path) -> str:
    """Code, pictures, links and emphasis in a text; all else is escaped."""
    def tagged(found: re.Match) -> str:
        match found.lastgroup, found[found.lastgroup]:
            case "code", code:
                return f"<code>{code}</code>"
            case "picture", file:
                data = base64.b64encode((folder / file).read_bytes()).decode()
                return f'<img alt="{found["alt"]}" src="data:image/png;base64,{data}">'
            case "link", target:
                words, address = INLINE.sub(tagged, found["words"]), address_of(target, folder)
                return f'<a href="{address}">{words}</a>' if address else words
            case tag, words:
                return f"<{tag}>{INLINE.sub(tagged, words)}</{tag}>"

    return INLINE.sub(tagged, html.escape(text.strip()))


def address_of(target: str, folder: pathlib.Path) -> str:
    """A link's address; of a file, "" if it is not there."""
    if re.match(r"#|\w+:", target):
        return target
    file, mark, place = target.partition("#")
    path = (folder / file).resolve()
    return path.as_uri() + mark + place if path.is_file() else ""


def anchor(heading: str) -> str:
    """The name of its place, as code hosts have it.

    >>> anchor("12. Loss: what's left?")
    '12-loss-whats-left'
    """
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
