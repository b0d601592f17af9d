"""Sabotages of the commands: of what they share, and of `minigrad notes`."""
from sabotage.edit import edits

MAIN = "tests/cli/test_main.py",
COMMANDS = "tests/models/test_commands.py", "-k", "not real_process"
NOTES = "tests/study/test_notes.py",

SABOTAGES = [
    *edits(MAIN, "cli.__main__", {
        "minigrad: --help without the first command": ("help_text", "in COMMANDS.items()", "in [*COMMANDS.items()][1:]"),
        "minigrad: unknown commands are no error": ("refuse", "`minigrad --help`\", 2", "`minigrad --help`\", 0"),
        "minigrad: similar commands are not named": ("refuse", "if similar else", "if False else"),
        "minigrad: other commands are not named": ("refuse", "if similar else", "if True else"),
        "minigrad: a missing command has a name": ("refuse", "if name else", "if True else"),
    }),
    *edits(COMMANDS, "cli.__main__", {
        "minigrad: interrupted without saying what is saved": ("main", "str(reason) or ", ""),
        "minigrad: interrupted with success": ("main", "\"interrupted\", 130", "\"interrupted\", 0"),
    }),
    *edits(MAIN, "models.commands.shared", {
        "Parser: unknown flags are accepted": ("Parser.parse_args", "if unknown:", "if False:"),
        "Parser: similar flags are not named": ("Parser.parse_args", "if similar else", "if False else"),
        "Parser: help of another command": ("Parser.error", "self.prog", "self.prog.split()[0]"),
        "commands: --threads ignored": ("set_threads", "if \"threads\" in options", "if False"),
        "commands: bad usage is a failure": ("run", "f\"error: {error}\", 2", "f\"error: {error}\", 1"),
    }),
    *edits(COMMANDS, "models.commands.shared", {
        "Parser: values belong to the flag's name": ("Parser.parse_args", ".split(\"=\")[0]", ""),
        "commands: flags of all configs everywhere": ("add_fields", "field.name not in names", "False"),
        "commands: no --no-bias": ("add_fields", "if kind is bool", "if False"),
        "commands: folders are not tried": ("check_writable", "folder.mkdir(parents=True, exist_ok=True)", "return"),
    }),
    *edits(NOTES, "models.commands.shared", {
        "commands: what fails a check is bad usage": ("run", "f\"error: {error}\", 1", "f\"error: {error}\", 2"),
    }),
    *edits(NOTES, "study.notes.command", {
        "notes: a table of rows": ("run", "if \"row\" in given else", "if False else"),
        "notes: refuted claims are fine": ("run", "if refuted:", "if False:"),
        "notes: all pictures of any row": ("chosen_pictures", "if given.keys() & {\"row\", \"note\"}", "if False"),
        "notes: pictures unasked": ("chosen_pictures", "if \"plot\" not in given:", "if False:"),
        "notes: sections are not named": ("show_table", "if heading != (heading := report.heading(claim)):", "if False:"),
        "notes: no summary": ("show_table", "print(report.summary(outcomes))", "pass"),
        "notes: the document of some rows": ("check_document", "if flag in given:", "if False:"),
        "notes: a folder as document": ("check_document", "if pathlib.Path(given[\"write\"]).is_dir():", "if False:"),
        "notes: the document's folder is not tried": ("check_document", "check_writable(", "print("),
        "notes: the pictures' folder is not tried": ("run", "check_writable(", "print("),
    }),
    *edits(NOTES, "study.notes.plots", {
        "notes: pictures of other rows": ("about", "{*rows} & {*its_rows}", "{*its_rows}"),
        "notes: no picture is no error": ("about", "if not names:", "if False:"),
        "notes: pictures that are not there": ("where", "if missing:", "if False:"),
    }),
    *edits(NOTES, "study.notes.report", {
        "notes: what holds is refuted": ("check", "holds, learnt = True, claim", "holds, learnt = False, claim"),
        "notes: a crash holds": ("check", "holds, learnt = False, f\"{type", "holds, learnt = True, f\"{type"),
        "notes: rows of any name": ("row_of", "row in claim.formerly", "True"),
        "notes: merged rows are unknown": ("row_of", "or row in claim.formerly", ""),
        "notes: all notes": ("select", "claim.note in notes and", ""),
        "notes: unknown notes are left out": ("select", "note not in NOTES", "False"),
        "notes: notes by their last digit": ("select", "note.zfill(3) for note", "note for note"),
        "notes: sections in any order": ("place", "headings.index(claim.section) if claim.section else len(headings)", "0"),
        "notes: rows by their letters": ("by_number", "int(row[1:])", "row[1:]"),
        "notes: long cells are cut off": ("lines_of", "textwrap.wrap(cell, width) or [\"\"]", "[cell[:width]]"),
        "notes: what is said elsewhere is not named": ("pointers", "in dict(claim.places)", "in ()"),
        "notes: empty lines of a row": ("in_full", "if text]", "]"),
    }),
    *edits(NOTES, "study.notes.document", {
        "document: verdicts of all notes": ("summary", "if note in (outcome.claim.note, \"all\")", ""),
        "document: no pointers to other notes": ("section", "if others:", "if False:"),
        "document: pointers as rows": ("section", "if outcome.claim.places[0] == (note, heading)]", "]"),
        "document: rows without a section": ("chapter", "+ section(\"\", by_place[note, \"\"], note, root)", ""),
        "document: links from another folder": ("write", "path.parent.resolve()", "path.parent.resolve().parent"),
        "document: pictures that are not there": ("write", "if (folder / name).exists()", ""),
        "document: merged rows are not in the index": ("index", "for row in claim.formerly", "for row in ()"),
        "document: cells end early": ("table", ".replace(\"|\", \"\\\\|\")", ""),
    }),
]
