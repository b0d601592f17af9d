"""Sabotages of the commands: of what they share, and of `minigrad notes`."""
from sabotage.edit import edits

MAIN = "tests/cli/test_main.py",
COMMANDS = "tests/models/test_commands.py", "-k", "not real_process"
LOOK = "tests/models/test_look.py",
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
    *edits(LOOK, "models.commands.look", {
        "look: over any file": ("check_place", "path.exists() and not is_ours(path)", "False"),
        "look: not over its own": ("check_place", "and not is_ours(path)", ""),
        "look: any kind of file": ("check_place", 'path.suffix != ".png"', "False"),
        "look: places are not tried": ("check_place", "check_writable(path.parent)", "pass"),
        "look: always the last": ("run", '"best" in given', "False"),
        "look: --out ignored": ("run", '"out" in given', "False"),
        "look: --prompt ignored": ("run", 'given.get("prompt")', "None"),
        "look: any layer and head": ("chosen", "not 1 <= number <= count", "False"),
        "look: --layer ignored": ("chosen", "layer in (None, found.layer)", "True"),
        "look: --head ignored": ("chosen", "maps if head is None else", "maps if True else"),
    }),
    *edits(NOTES, "models.commands.shared", {
        "commands: what fails a check is bad usage": ("run", "f\"error: {error}\", 1", "f\"error: {error}\", 2"),
    }),
    *edits(NOTES, "study.notes.command", {
        "notes: a table of rows": ("run", "report.in_full if \"row\" in given", "report.in_full if False"),
        "notes: a summary of rows": ("run", "if \"row\" not in given:\n        print(report.summary", "if True:\n        print(report.summary"),
        "notes: refuted claims are fine": ("run", "if refuted:", "if False:"),
        "notes: all pictures of any row": ("run", "{\"row\", \"plot\"} <= given.keys()", "False"),
        "notes: pictures of a table are of its rows": ("run", "{\"row\", \"plot\"} <= given.keys()", "\"plot\" in given"),
        "notes: the document of some rows": ("check_places", "if \"row\" in given and", "if False and"),
        "notes: a folder as document": ("check_places", "if \"write\" in given and", "if False and"),
        "notes: folders are not tried": ("check_places", "if flag in given:", "if False:"),
    }),
    *edits(NOTES, "study.notes.plots", {
        "notes: pictures of other rows": ("about", "set(rows) & set(its_rows)", "set(its_rows)"),
        "notes: no picture is no error": ("about", "if not names:", "if False:"),
    }),
    *edits(NOTES, "study.notes.report", {
        "notes: what holds is refuted": ("check", "holds, measured = True, claim", "holds, measured = False, claim"),
        "notes: a crash holds": ("check", "holds, measured = False, f\"{type", "holds, measured = True, f\"{type"),
        "notes: unknown rows are left out": ("select", "if unknown:", "if False:"),
        "notes: rows by their letters": ("place", "int(row[1:])", "row[1:]"),
        "notes: long cells are cut off": ("lines_of", "textwrap.wrap(cell, width) or [\"\"]", "[cell[:width]]"),
    }),
]
