"""`minigrad prepare`: large texts as a folder of tokens, which `minigrad train --text` maps into memory."""
import argparse
import os
import pathlib
from typing import Any

from models.commands.shared import UsageError, cores, show_progress
from models.commands.train import named_tokenizer
from models.prepare import SHARD_TOKENS, Request, prepare
from models.shards import SPLITS, Index, ShardError, check_content
from models.text_files import TextFile
from models.tokenizers.byte_pairs import DEFAULT_SIZE

MOST_WORKERS = 1000


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="a text in UTF-8, or .jsonl with a document a line; both "
                        "also as .gz")
    parser.add_argument("--to", metavar="DIR", required=True, help="folder of the tokens: a new one, or one that the same "
                        "command began, which then goes on")
    parser.add_argument("--tokenizer", metavar="KIND", help="characters, bytes, bpe (learnt from the text), or that of a "
                        "run, or in a file or folder of others (default: characters)")
    parser.add_argument("--vocabulary-size", type=int, help=f"how many tokens bpe learns (default: {DEFAULT_SIZE})")
    parser.add_argument("--field", help="of each line of .jsonl, which holds the document (default: text)")
    parser.add_argument("--validation", type=float, metavar="FRACTION",
                        help="the last part of each file, which is for validation (default: 0.1)")
    parser.add_argument("--shard-tokens", type=int, metavar="N", help=f"tokens in a file of DIR (default: {SHARD_TOKENS})")
    parser.add_argument("--workers", type=int, help="processes (default: one for each core)")
    parser.add_argument("--check", action="store_true", help="only read all of DIR, and compare it with what was written")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    if not given["to"]:
        raise UsageError("--to is empty; name a folder")
    folder = pathlib.Path(given["to"])
    if "check" in given:
        return check(given, folder)
    try:
        fields = {name: given[name] for name in ("vocabulary_size", "validation", "shard_tokens") if name in given}
        request = Request(sources(given), named_tokenizer(given), **fields)
        with show_progress() as show:
            index = prepare(request, folder, workers(given), show)
    except ValueError as error:
        raise UsageError(error) from None
    except OSError as error:
        raise ShardError(f"{error.filename or folder}: {error.strerror or error}; what has been written to {folder} is "
                         "whole: when that is mended, the same command goes on") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; what has been written to {folder} is whole: the same command goes on") from None
    report(index, folder)
    return 0


def sources(given: dict[str, Any]) -> tuple[TextFile, ...]:
    """What is to be read; UsageError if there is nothing, or a file cannot be read."""
    if "files" not in given:
        raise UsageError("there is no FILE to prepare; give at least one")
    found = []
    for path in given["files"]:
        try:
            found.append(TextFile.of(path, given.get("field", "text")))
        except OSError as error:
            raise UsageError(f"cannot read {path or repr(path)} ({error.strerror}); give files with text") from None
    return tuple(found)


def workers(given: dict[str, Any]) -> int:
    """How many processes; UsageError if there cannot be so many."""
    count = given.get("workers", cores())
    if not 1 <= count <= MOST_WORKERS:
        raise UsageError(f"--workers must be from 1 to {MOST_WORKERS}, got {count}")
    return count


def check(given: dict[str, Any], folder: pathlib.Path) -> int:
    """Read all that was written; ShardError if it is not what it was."""
    others = given.keys() - {"to", "check", "threads"}
    if others:
        raise UsageError("--check reads what is in --to, and takes no files and no other flags; leave them out")
    try:
        index = Index.read(folder)
    except ValueError as error:
        raise UsageError(error) from None
    with show_progress() as show:
        check_content(index, folder, show)
    report(index, folder)
    return 0


def report(index: Index, folder: pathlib.Path) -> None:
    """Say what is in the folder."""
    counts = " and ".join(f"{index.tokens(split):,} tokens of {index.bytes(split):,} bytes to {verb}"
                          for split, verb in zip(SPLITS, ("train on", "validate")))
    files = sum(map(len, index.shards.values()))
    state = f"go on with: minigrad train --text {folder}" if index.is_whole else "unfinished: prepare goes on from there"
    print(f"{folder}{os.sep} holds {counts}, {index.dtype}, in {files} shards; {state}")
