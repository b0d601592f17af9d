"""`minigrad prepare`: tokenize large texts into a folder that `minigrad train --text` maps into memory."""
import argparse
import os
import pathlib
from typing import Any

from models.commands.shared import UsageError, show_progress, usage_errors
from models.commands.train import named_tokenizer
from models.distributed import own_cores
from models.extras import quoted
from models.prepare import SHARD_TOKENS, Request, prepare
from models.shards import SPLITS, Index, ShardError, check_content
from models.text_files import TextFile
from models.tokenizers.byte_pairs import DEFAULT_SIZE

MOST_WORKERS = 1000


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="a text in UTF-8, or .jsonl with one document per line; "
                        "either may be compressed as .gz")
    parser.add_argument("--to", metavar="DIR", required=True, help="folder of the tokens: a new one, or one to resume with "
                        "the same command")
    parser.add_argument("--tokenizer", metavar="KIND", help="characters, bytes, bpe (learnt from the text), or a run, file "
                        "or folder with a tokenizer (default: characters)")
    parser.add_argument("--vocabulary-size", type=int, help=f"how many tokens bpe learns (default: {DEFAULT_SIZE})")
    parser.add_argument("--field", help="the field of each .jsonl line with the document (default: text)")
    parser.add_argument("--validation", type=float, metavar="FRACTION",
                        help="how much of each file's end is for validation (default: 0.1)")
    parser.add_argument("--shard-tokens", type=int, metavar="N", help=f"tokens per file in DIR (default: {SHARD_TOKENS})")
    parser.add_argument("--workers", type=int, help="processes (default: one per core)")
    parser.add_argument("--check", action="store_true", help="only compare DIR with what was written")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    if not given["to"]:
        raise UsageError("--to is empty; name a folder")
    folder = pathlib.Path(given["to"])
    report(checked(given, folder) if "check" in given else prepared(given, folder), folder)
    return 0


def prepared(given: dict[str, Any], folder: pathlib.Path) -> Index:
    """Tokenize the files, or what is left of them; the index of the folder."""
    fields = {name: given[name] for name in ("vocabulary_size", "validation", "shard_tokens") if name in given}
    try:
        with usage_errors(), show_progress() as show:
            return prepare(Request(sources(given), named_tokenizer(given), **fields), folder, workers(given), show)
    except OSError as error:
        raise ShardError(f"{error.filename or folder}: {error.strerror or error}; what has been written to {folder} is "
                         "intact: once this is fixed, resume with the same command") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; what has been written to {folder} is intact: resume with the same command"
                                ) from None


def sources(given: dict[str, Any]) -> tuple[TextFile, ...]:
    """The files to read; UsageError if there are none, or one cannot be read."""
    if "files" not in given:
        raise UsageError("no FILE to prepare; give at least one")
    found = []
    for path in given["files"]:
        try:
            found.append(TextFile.of(path, given.get("field", "text")))
        except OSError as error:
            raise UsageError(f"cannot read {path or repr(path)} ({error.strerror}); give files with text") from None
    return tuple(found)


def workers(given: dict[str, Any]) -> int:
    """How many processes; UsageError if that is out of range."""
    count = given.get("workers", len(own_cores()))
    if not 1 <= count <= MOST_WORKERS:
        raise UsageError(f"--workers must be from 1 to {MOST_WORKERS}, got {count}")
    return count


def checked(given: dict[str, Any], folder: pathlib.Path) -> Index:
    """The index of the folder, compared with its shards; ShardError if they differ."""
    others = given.keys() - {"to", "check", "threads"}
    if others:
        raise UsageError("--check reads what is in --to, and takes no files and no other flags; leave them out")
    with usage_errors():
        index = Index.read(folder)
    with show_progress() as show:
        check_content(index, folder, show)
    return index


def report(index: Index, folder: pathlib.Path) -> None:
    counts = " and ".join(f"{index.tokens(split):,} tokens of {index.bytes(split):,} bytes for {purpose}"
                          for split, purpose in zip(SPLITS, ("training", "validation")))
    files = sum(map(len, index.shards.values()))
    state = f"next: minigrad train --text {quoted(folder)}" if index.is_whole else "unfinished: the same command resumes it"
    print(f"{folder}{os.sep} holds {counts}, {index.dtype}, in {files} shards; {state}")
