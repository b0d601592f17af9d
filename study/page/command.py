"""`minigrad study`: attention's backward on an interactive page."""
import argparse
import dataclasses
import functools
import pathlib
import webbrowser
from collections.abc import Callable

from minigrad.tracing.page import is_page, write
from models.commands.shared import UsageError, check_writable
from models.transformer import PLACEMENTS, check_number, check_whole
from study.page import attention, block, inputs, pages, trained
from study.page.attention import DEFAULT
from study.page.stations import STATIONS

PAGE = "study.html"
OF_A_CHECKPOINT = "text", "layer", "head"  # flags that need --checkpoint
SOURCES = "input", "checkpoint", "block", "tiles", "station"  # what chooses a page
VARIANTS = "heads", "key_value_heads", "rotary", "dropout", "cross_entropy"  # of the page's own numbers


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", metavar="FILE.json",
                        help="your own numbers: q, k, v and upstream, or x with w_q, w_k, w_v, w_o; causal, scale, labels")
    parser.add_argument("--checkpoint", metavar="RUN", help="a head of a trained model: a folder of a run, or a checkpoint")
    parser.add_argument("--text", help="with --checkpoint: the text that the model reads")
    parser.add_argument("--layer", type=int, help="with --checkpoint: the layer, counted from 1 (default: 1)")
    parser.add_argument("--head", type=int, help="with --checkpoint: the head, counted from 1 (default: 1)")
    parser.add_argument("--block", metavar="PLACEMENT", nargs="?", const="pre", choices=PLACEMENTS,
                        help=f"a whole block, with norms placed as in {', '.join(PLACEMENTS)} (default: pre)")
    parser.add_argument("--tiles", type=int, metavar="N", help="flash attention's backward, in tiles of N queries and keys")
    parser.add_argument("--heads", type=int, metavar="N", help="several heads, from x (default: one, from q, k and v)")
    parser.add_argument("--key-value-heads", type=int, metavar="N", help="heads of keys and values, which groups share")
    parser.add_argument("--rotary", action="store_true", help="rotate queries and keys by their positions")
    parser.add_argument("--dropout", type=float, metavar="P", help="set weights to 0 with this probability")
    parser.add_argument("--cross-entropy", action="store_true", help="the loss is the cross-entropy of classes, from x")
    parser.add_argument("--station", metavar="N", type=int, choices=range(1, len(STATIONS) + 1),
                        help=f"open the guided path at station N, 1 to {len(STATIONS)}")
    parser.add_argument("--out", metavar="PAGE", default=PAGE, help=f"the file to write (default: {PAGE})")
    parser.add_argument("--force", action="store_true", help="overwrite the file even if it is not such a page")
    parser.add_argument("--no-open", action="store_true", help="write the page without opening a browser")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    path = pathlib.Path(options.out)
    check_place(path, "force" in given)
    check_flags(given)
    try:
        page = page_of(given)
        write(page.trace, path, extras=page.extras, overwrite="force" in given)
    except ValueError as error:
        raise UsageError(error) from None
    print(path)
    if "no_open" not in given and not opened(path):
        print(f"could not open a browser; open {path.absolute().as_uri()} in one")
    return 0


def page_of(given: dict) -> pages.Page:
    """The page that the flags ask for; ValueError if it cannot be made."""
    if "block" in given:
        return pages.page_of_block(variant(given, functools.partial(block.draw, given["block"]), block.block))
    if "checkpoint" in given:
        layer, head = given.get("layer", 1), given.get("head", 1)
        return pages.page_of_head(
            trained.head_of_run(given["checkpoint"], given["text"], layer, head), f"Head {head} of layer {layer}",
            f"As {given['checkpoint']} computes it on {given['text']!r}, in float64. The upstream gradient comes from the "
            "model's own loss, the mean cross-entropy of the next tokens.")
    if "input" in given:
        try:
            return pages.page_of_head(inputs.read(given["input"]))
        except OSError as error:
            raise ValueError(f"cannot read {given['input'] or repr('')} ({error.strerror or error})") from None
    if "tiles" in given:
        check_whole("--tiles", given["tiles"], most=DEFAULT.tokens[0])
        return pages.page_of_tiles(DEFAULT, given["tiles"])
    if {"heads", "key_value_heads", "cross_entropy"} & given.keys():
        return pages.page_of_head(variant(given, attention.heads_of, attention.attention))
    if given.keys() & set(VARIANTS):
        return pages.page_of_head(variant(given, functools.partial(dataclasses.replace, DEFAULT), attention.attention))
    page = pages.page_of_head(DEFAULT)
    return dataclasses.replace(page, extras=page.extras | {"station": given.get("station", 0)})


def variant(given: dict, draw: Callable, loss: Callable) -> attention.Inputs:
    """The numbers that `draw` makes, with the VARIANTS that are given; ValueError for those that do not fit together."""
    heads, fewer = given.get("heads", 1), given.get("key_value_heads")
    check_whole("--heads", heads, most=attention.C)
    if attention.C % heads:
        raise ValueError(f"--heads must divide {attention.C}, the width of the page's numbers, got {heads}")
    if fewer is not None:
        check_whole("--key-value-heads", fewer, most=heads)
        if heads % fewer:
            raise ValueError(f"--key-value-heads must divide --heads, got {fewer} and {heads}")
    check_number("--dropout", given.get("dropout", 0.0), "[0, 1)")
    changes = {"rotary": True} if "rotary" in given else {}
    if "heads" in given or fewer:
        changes |= {"heads": heads, "key_value_heads": fewer}
    numbers = draw(**changes)
    if "rotary" in given and heads == attention.C:
        raise ValueError(f"--rotary rotates pairs of features, and of {heads} heads each has only one; give fewer --heads")
    if "dropout" in given:
        keep = attention.dropout(given["dropout"], heads, numbers.tokens[0])
        numbers = dataclasses.replace(numbers, keep=keep)
    return attention.with_cross_entropy(numbers, loss) if "cross_entropy" in given else numbers


def check_flags(given: dict) -> None:
    """UsageError for flags that exclude or need each other."""
    if len(sources := [name for name in SOURCES if name in given]) > 1:
        raise UsageError(f"--{sources[0]} and --{sources[1]} ask for different pages; give one of them")
    if chosen := [name for name in VARIANTS if name in given and given.keys() & set(SOURCES) - {"block"}]:
        raise UsageError(f"--{chosen[0].replace('_', '-')} is for the page's own numbers, without --input, --checkpoint, "
                         "--tiles or --station")
    if "checkpoint" in given and "text" not in given:
        raise UsageError("--checkpoint needs a text for the model to read; give one with --text")
    if "checkpoint" not in given and (alone := [name for name in OF_A_CHECKPOINT if name in given]):
        raise UsageError(f"--{alone[0]} needs --checkpoint RUN, a trained model; give both")


def check_place(path: pathlib.Path, overwrite: bool) -> None:
    """UsageError if the page cannot be written there, or would overwrite another kind of file."""
    if path.exists() and not path.is_file():
        kind = "folder" if path.is_dir() else "pipe, socket or device"
        raise UsageError(f"{path} is a {kind}; name a file with --out")
    check_writable(path.parent)
    try:
        if path.is_file() and not overwrite and not is_page(path):
            raise UsageError(f"{path} already exists and is not a page of minigrad's; give another name with --out, or "
                             "--force")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); give another name with --out") from None


def opened(path: pathlib.Path) -> bool:
    """Open the page in a browser; False if there is none."""
    try:
        return webbrowser.open(path.absolute().as_uri())
    except (webbrowser.Error, OSError):
        return False
