"""Completion with Tab, by argcomplete: after `eval "$(register-python-argcomplete minigrad)"`, a shell calls the command
with the line so far in the environment. Names of commands need no import; flags are those of a command's parser, which
models.commands.shared makes.
"""
import argparse
import os
from collections.abc import Iterable


def command_to_complete(commands: Iterable[str]) -> str:
    """The command in the line; while it is being typed, print the names that fit, and exit."""
    import argcomplete  # an extra

    before_cursor = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    _, *words = before_cursor.split(" ")
    if len(words) < 2:
        parser = argparse.ArgumentParser()
        parser.add_argument("command", choices=commands)
        parser.add_argument("--version", action="store_true")
        argcomplete.autocomplete(parser)
    os.environ["_ARGCOMPLETE"] = "2"  # so many words are the program's name: its parser knows the rest
    return words[0]
