"""`minigrad study`: attention's backward on an interactive page, and the guide to it."""
import argparse
import dataclasses
import pathlib
import tempfile
import webbrowser

from minigrad.tracing.page import is_page, write
from models.commands.shared import UsageError, usage_errors
from models.commands.train import last_run_or_starter
from models.progress import saying
from models.config import NORMS, PLACEMENTS, check_number, check_whole
from study import guide
from study.page import attention, block, inputs, pages, trained
from study.page.attention import DEFAULT
from study.page.stations import STATIONS
from study.places import check_place

PAGE = "study.html"
OF_A_CHECKPOINT = "text", "layer", "head"  # flags that need --checkpoint
UNNAMED = {"numbers", "block", "heads", "key_value_heads", "rotary", "dropout", "cross_entropy"}  # flags: no words
APART = [  # flags that exclude each other, and why
    ("input", "checkpoint", "both give the numbers"),
    ("numbers", "input", "both give the numbers"),
    ("numbers", "checkpoint", "both give the numbers"),
    ("block", "checkpoint", "of a trained model, the page shows heads"),
    ("checkpoint", "key_value_heads", "each head of a model comes with the keys and values that it reads"),
    ("checkpoint", "rotary", "queries and keys have the model's own positions"),
    ("checkpoint", "dropout", "the gradient that arrives is that of the model without dropout"),
    ("checkpoint", "cross_entropy", "the gradient that arrives is that of the model's own cross-entropy"),
]
NO_STATIONS = ("--station: the guided path is for one plain head from q, k and v, with at least two queries and two keys, "
               "for --heads 2, and for --block pre; leave out --station, or the flags that change the head")


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", metavar="FILE.json",
                        help="your own numbers: q, k, v and upstream, or x with w_q, w_k, w_v, w_o; causal, scale, labels; "
                             "with --block: w_in, w_out and gains; w_u and targets for upstream: --cross-entropy")
    parser.add_argument("--numbers", action="store_true",
                        help="the guide's numbers, without words; the loss is a sum of outputs times numbers to edit")
    parser.add_argument("--checkpoint", metavar="RUN", nargs="?", const=None,
                        help="a head of a trained model: a folder of a run, or a checkpoint (without RUN: the run saved "
                             "last, or the model that comes with minigrad, starter)")
    parser.add_argument("--text", help="with --checkpoint: the text that the model reads (default: one that it writes)")
    parser.add_argument("--layer", type=int, help="with --checkpoint: the layer, counted from 1 (default: 1)")
    parser.add_argument("--head", type=int, help="with --checkpoint: the head, counted from 1 (default: 1)")
    parser.add_argument("--block", metavar="PLACEMENT", nargs="?", const="pre", choices=PLACEMENTS,
                        help=f"a whole block, with norms placed as in {', '.join(PLACEMENTS)} (default: pre)")
    parser.add_argument("--norm", choices=NORMS, help=f"with --block: {' or '.join(NORMS)} (default: {NORMS[0]})")
    parser.add_argument("--heads", type=int, metavar="N", help="several heads; with --checkpoint: from --head on")
    parser.add_argument("--key-value-heads", type=int, metavar="N", help="heads of keys and values, which groups share")
    parser.add_argument("--rotary", action="store_true", help="rotate queries and keys by their positions")
    parser.add_argument("--dropout", type=float, metavar="P", help="set weights to 0 with this probability")
    parser.add_argument("--cross-entropy", action="store_true", help="the loss is the cross-entropy of classes")
    parser.add_argument("--station", metavar="N", type=int, choices=range(1, len(STATIONS) + 1),
                        help=f"open the guided path at station N, 1 to {len(STATIONS)}")
    parser.add_argument("--guide", metavar="N", nargs="?", const=None, type=int,
                        help="open the guide, which derives what the page shows, at section N")
    parser.add_argument("--out", metavar="PAGE", help=f"the file to write (default: {PAGE})")
    parser.add_argument("--force", action="store_true", help="overwrite the file even if it is not such a page")
    parser.add_argument("--no-open", action="store_true", help="write the page without opening a browser")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    check_flags(given)
    if given.get("checkpoint", "") is None:
        given["checkpoint"] = last_run_or_starter()
    fragment = ""
    if "guide" in given:
        with usage_errors():
            fragment = guide.fragment(given["guide"])
        path = guide.write(pathlib.Path(tempfile.mkdtemp(prefix="minigrad-")))
    else:
        path = pathlib.Path(given.get("out", PAGE))
        check_place(path, "--out", is_page, "force" in given)
        write_page(given, path)
    address = path.absolute().as_uri() + fragment
    print(path)
    if "no_open" not in given and not opened(address):
        print(f"could not open a browser; open {address} in one")
    return 0


def write_page(given: dict, path: pathlib.Path) -> None:
    """Write the page that the flags ask for; UsageError if it cannot be made."""
    with usage_errors():
        with saying("working out the page"):
            page = page_of(given)
        write(page.trace, path, extras=page.extras, backwards=page.backwards, overwrite="force" in given)


def page_of(given: dict) -> pages.Page:
    """The page that the flags ask for; ValueError if it cannot be made."""
    if "checkpoint" in given and "text" not in given:
        given = given | {"text": trained.own_text(given["checkpoint"])}
    numbers, titled = numbers_of(given), story(given) if "checkpoint" in given else ()
    if "block" in given:
        page = pages.page_of_block(numbers)
    else:
        page = pages.page_of_head(numbers, *titled)
    if "station" not in given:
        return page
    if not (found := page.extras["stations"]):
        raise ValueError(NO_STATIONS)
    if given["station"] > (count := sum(one.get("name") != "why" for one in found)):
        raise ValueError(f"--station {given['station']}: this page has {count} station{'' if count == 1 else 's'}")
    return dataclasses.replace(page, extras=page.extras | {"station": given["station"]})


def numbers_of(given: dict) -> attention.Inputs:
    """The numbers of the page: from their source, with what the flags change; ValueError if they do not fit together."""
    heads, groups = given.get("heads", 1), given.get("key_value_heads")
    check_whole("--heads", heads, most=pages.MOST_NUMBERS)
    if groups is not None:
        check_whole("--key-value-heads", groups, most=heads)
        if heads % groups:
            raise ValueError(f"--key-value-heads must divide --heads, got {groups} and {heads}")
    check_number("--dropout", given.get("dropout", 0.0), "[0, 1)")
    changes = {name: given[name] for name in ("heads", "key_value_heads", "rotary", "norm") if name in given}
    numbers = source(given, changes)
    queries, keys = numbers.tokens
    if numbers.rotary and numbers.size % 2:
        raise ValueError(f"--rotary rotates pairs of features, and each head has {numbers.size}; give an even number")
    if numbers.rotary and queries != keys:
        raise ValueError(f"--rotary needs as many queries as keys, got {queries} and {keys}")
    if "dropout" in given:
        numbers = dataclasses.replace(numbers, keep=attention.dropout(given["dropout"], heads, queries, keys))
    if "cross_entropy" in given or numbers.targets:
        numbers = attention.with_cross_entropy(numbers, block.block if "block" in given else attention.attention)
    return numbers


def source(given: dict, changes: dict) -> attention.Inputs:
    """The numbers of a file, of a checkpoint, or the page's own."""
    if "checkpoint" in given:
        return trained.head_of_run(given["checkpoint"], given["text"], *place(given))
    if "input" in given:
        try:
            return inputs.read(given["input"], given.get("block"), "cross_entropy" in given, **changes)
        except OSError as error:
            raise ValueError(f"cannot read {given['input'] or repr('')} ({error.strerror or error})") from None
    if not UNNAMED & given.keys():
        return attention.next_words()
    if "block" not in given and not {"heads", "key_value_heads", "cross_entropy"} & given.keys():
        return dataclasses.replace(DEFAULT, **changes) if changes else DEFAULT
    if attention.C % (heads := given.get("heads", 1)):
        raise ValueError(f"--heads must divide {attention.C}, the width of the page's numbers, got {heads}")
    return block.draw(given["block"], **changes) if "block" in given else attention.heads_of(**changes)


def place(given: dict) -> tuple[int, int, int]:
    """The layer of a checkpoint, its first head that is shown, and how many."""
    return given.get("layer", 1), given.get("head", 1), given.get("heads", 1)


def story(given: dict) -> tuple[str, str]:
    """The title and the introduction of a checkpoint's page."""
    layer, head, count = place(given)
    which = f"Head {head}" if count == 1 else f"Heads {head} to {head + count - 1}"
    return f"{which} of layer {layer}", (
        f"As {given['checkpoint']} computes it on {given['text']!r}, in float64. The upstream gradient comes from the "
        "model's own loss, the mean cross-entropy of the next tokens.")


def check_flags(given: dict) -> None:
    """UsageError for flags that exclude or need each other."""
    if "guide" in given and (others := given.keys() - {"guide", "no_open", "threads"}):
        raise UsageError(f"--guide opens the guide alone; leave out --{min(others).replace('_', '-')}")
    for one, other, why in APART:
        if one in given and other in given:
            raise UsageError(f"--{one} and --{other.replace('_', '-')} exclude each other: {why}")
    if "norm" in given and not any(name.startswith("gain") for name in block.names(given.get("block", "none"))):
        raise UsageError("--norm needs --block PLACEMENT, a block that has norms, such as pre or post")
    if "checkpoint" not in given and (alone := [name for name in OF_A_CHECKPOINT if name in given]):
        raise UsageError(f"--{alone[0]} needs --checkpoint RUN, a trained model; give both")


def opened(address: str) -> bool:
    """Open the page in a browser; False if there is none."""
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False
