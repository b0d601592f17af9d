"""The document that `minigrad notes --write` makes: the notes, section by section, next to their counterparts here."""
import collections
import os
import pathlib
import re
from collections.abc import Iterable

from study.notes.claims import Claim
from study.notes.contents import NOTES
from study.notes.report import FAMILIES, Outcome, by_number, count, source_of

ROOT = pathlib.Path(__file__).parents[2]  # of the source tree
OPENING = """\
Five lecture notes on transformers, claim by claim, in their own order. Each row has what the note says, with its \
formula as printed; the counterpart in this project, with a link to the code; and the verdict, with the measurements \
behind it. For a misprint, both the printed formula and the right one are run. Numbers such as 1.2 (0.9 to 1.4) are the \
median and the range over several seeds. A row that trains models ends with the optimizers, rates, steps and seeds it \
used, and its verdict holds for these.

`minigrad notes --write` runs every claim and writes this document; do not edit it. `minigrad notes --row A5` runs one, \
`minigrad notes --note 003` those of a note; with `--write`, the other rows keep their measurements. A row's number links \
to its code. A row uses the letters of its note, for which the \
[guide]({root}/study/guide/backprop_through_attention.md) has others:"""

LETTERS = """\
| | the guide | 000 | 001 | 002 | 003 | 004 |
| --- | --- | --- | --- | --- | --- | --- |
| tokens | X, rows | X, rows | X, rows | X, columns | X, rows | x_i |
| time, width | T, C | T, D | n, d | N, D | N, D | n, d |
| heads, head size | H, D | H, K | h, d/h | not given, K | C or H, D_k and D_v | not given |
| matrices | W_q, W_k, W_v, W_o | U_q, U_k, U_v, U_o | Q, K, V, Y | U_q, U_k | W^(q), ..., W^(o) | W_q, W_k, W_v, W_y |
| queries, keys, values | Q, K, V | U_q x, U_k x, U_v x | XQ, XK, XV | U_q x, U_k x | Q, K, V | q, k, v |
| scores | S | not named | e | not named | logits | w |
| weights | P | A | alpha | A | a | W, alpha |
| output | O | Y | o, output | Y | Y | y, c |"""


def write(outcomes: list[Outcome], path: pathlib.Path, pictures: dict[str, tuple[str, tuple[str, ...]]]) -> None:
    """Write the document. Of the pictures {file name: (caption, rows)}, it shows those in the folder of the same name."""
    folder = path.with_suffix("")
    there = {name: picture for name, picture in pictures.items() if (folder / name).exists()}
    root = pathlib.Path(os.path.relpath(ROOT, path.parent.resolve())).as_posix()
    path.write_text(as_markdown(outcomes, there, folder.name, root), encoding="utf-8")


def kept(path: pathlib.Path, claims: list[Claim]) -> list[Outcome]:
    """The outcomes of claims that are not run again, from the document; ValueError if it lacks one."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    last_cells = dict(re.findall(r'^\| <a id="(\w+)"></a>.* \| (\*\*.+) \|$', text, re.MULTILINE))
    found = []
    for claim in claims:
        verdict, cell = f"**{claim.verdict}**: ", last_cells.get(claim.row.lower(), "").replace("\\|", "|")
        if not cell.startswith(verdict):
            raise ValueError(f"{path} has no finding for {claim.row} with the verdict {claim.verdict!r}; write this row "
                             "too, or all of them, without --row and --note")
        finding, _, trained = cell.removeprefix(verdict).partition("<br>")
        found.append(Outcome(claim, True, finding, 0.0, trained))
    return found


def as_markdown(outcomes: list[Outcome], pictures: dict[str, tuple[str, tuple[str, ...]]], folder: str, root: str) -> str:
    """The document. Pictures are in `folder`; `root` is the relative path of the source tree."""
    by_place = collections.defaultdict(list)
    for outcome in outcomes:
        for place in outcome.claim.places:
            by_place[place].append(outcome)
    parts = ["# The lecture notes, section by section", OPENING.format(root=root), LETTERS, summary(outcomes)]
    for note in NOTES:
        parts += chapter(note, by_place, root)
    if pictures:
        parts += ["## Pictures", "Drawn by `minigrad notes --plot`."]
        parts += [picture(name, caption, rows, folder) for name, (caption, rows) in pictures.items()]
    parts += ["## Index", table(["family", "rows"], index(outcomes))]
    return "\n\n".join(parts) + "\n"


def summary(outcomes: list[Outcome]) -> str:
    """How many claims of each note are true."""
    rows = []
    for note in (*NOTES, "all"):
        verdicts = [outcome.verdict for outcome in outcomes if note in (outcome.claim.note, "all")]
        name = note if note == "all" else f"[Note {note}](#note-{note}): {NOTES[note].title}"
        rows.append([name, str(len(verdicts)), *map(str, count(verdicts).values())])
    return table(["note", "claims", *count([])], rows)


# a note

def chapter(note: str, by_place: dict[tuple[str, str], list[Outcome]], root: str) -> list[str]:
    """A note: its title, a table of its sections, and their claims."""
    content = NOTES[note]
    source = content.source[0].upper() + content.source[1:]
    parts = [anchor(f"note-{note}"), f"## Note {note}: {content.title}", f"{source}."]
    contents = [[heading, remark, ", ".join(name_with_link(outcome.claim, note) for outcome in by_place[note, heading])]
                for heading, remark in content.sections.items()]
    parts.append(table(["section", "", "rows"], contents))
    for heading in content.sections:
        parts += section(heading, by_place[note, heading], note, root)
    return parts + section("", by_place[note, ""], note, root)


def section(heading: str, outcomes: list[Outcome], note: str, root: str) -> list[str]:
    """A heading with its claims, and links to those of other sections and notes that say the same."""
    own = [outcome for outcome in outcomes if outcome.claim.places[0] == (note, heading)]
    others = [outcome for outcome in outcomes if outcome not in own]
    parts = [f"### {heading or 'Without a section'}"] if outcomes else []
    if own:
        parts.append(table(["row", "the note", "here", "verdict"], (cells(outcome, root) for outcome in own)))
    if others:
        links = ", ".join(name_with_link(outcome.claim, note) for outcome in others)
        parts.append(f"Also stated here, covered under: {links}.")
    return parts


def cells(outcome: Outcome, root: str) -> list[str]:
    """A row: its number, what the note says and prints, the counterpart here, the verdict and the finding."""
    claim = outcome.claim
    number = f"{anchor(claim.row.lower())}[{claim.row}]({root}/{source_of(claim)})"
    says = lines(claim.text, code(claim.formula))
    here = lines(code(claim.ours), *(link_to_code(part.strip(), root) for part in claim.code.split(",") if part))
    return [number, says, here, lines(f"**{outcome.verdict}**: {outcome.finding}", outcome.training)]


def name_with_link(claim: Claim, note: str) -> str:
    """As [A5](#a5) zeroing and renormalising."""
    of_note = "" if claim.note == note else f" (note {claim.note})"
    return f"[{claim.row}](#{claim.row.lower()}) {claim.name.replace('_', ' ')}{of_note}"


def link_to_code(place: str, root: str) -> str:
    """Of "nn/attention.py:Attention"."""
    path, _, name = place.partition(":")
    return f"[{path}{': ' * bool(name)}{name}]({root}/{path})"


# the end

def picture(name: str, caption: str, rows: tuple[str, ...], folder: str) -> str:
    stem = pathlib.Path(name).stem
    links = ", ".join(f"[{row}](#{row.lower()})" for row in rows)
    return f"{anchor(f'picture-{stem}')}\n\n### {stem}\n\n{caption} See {links}.\n\n![{stem}]({folder}/{name})"


def index(outcomes: Iterable[Outcome]) -> list[list[str]]:
    """All rows by family and number, and which rows replaced those that were merged."""
    links = {}
    for claim in (outcome.claim for outcome in outcomes):
        links[claim.row] = f"[{claim.row}](#{claim.row.lower()})"
        links |= {row: f"{row} (now [{claim.row}](#{claim.row.lower()}))" for row in claim.formerly}
    return [[f"{letter}: {title}", ", ".join(links[row] for row in sorted(links, key=by_number) if row[0] == letter)]
            for letter, title in FAMILIES.items() if any(row[0] == letter for row in links)]


# Markdown

def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(titles)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def lines(*parts: str) -> str:
    """In one cell."""
    return "<br>".join(part for part in parts if part)


def code(text: str) -> str:
    return f"`{text}`" if text and "`" not in text else text


def anchor(name: str) -> str:
    return f'<a id="{name}"></a>'
