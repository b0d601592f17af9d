"""`minigrad look`: where each head of a trained model looks as it reads a text, as a picture and in words."""
import argparse
import pathlib

from models import loading
from models.attention_maps import has_attention
from models.checkpoint import STARTER_FILE
from models.commands.shared import UsageError, check_output, usage_errors
from models.commands.train import last_run_or_starter
from models.pictures import OURS, LabelledMap, draw_maps, where_heads_look
from models.progress import saying

PICTURE = "look.png"  # in the run's folder


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder of a run, a checkpoint file, or a Hugging Face "
                        "folder (default: the run saved last, or the model that comes with minigrad, starter)")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, not the last")
    parser.add_argument("--prompt", help="the text to read, or a task's source (default: a text that the "
                        "model writes, or an example of the task)")
    parser.add_argument("--layer", type=int, help="this layer only, from 1 (default: all)")
    parser.add_argument("--head", type=int, help="this head only, from 1 (default: all)")
    parser.add_argument("--out", metavar="PICTURE", help="file of the picture, .png, .pdf or .svg "
                        f"(default: {PICTURE} in the run's folder, or in the current one for starter)")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    source = loading.source(given["run"] if "run" in given else last_run_or_starter(), best="best" in given)
    codec, folder = source.codec(), source.path if source.path.is_dir() else source.path.parent
    if source.path == STARTER_FILE:
        folder = pathlib.Path()
    path = pathlib.Path(given["out"]) if "out" in given else folder / PICTURE
    check_output(path, "--out", "picture of attention", OURS)
    model = loading.model_in(source)
    if not has_attention(model):
        raise UsageError(f"the model in {source.path} has no attention, so there is nothing to look at; give a run whose "
                         "--model and --layers have some")
    with usage_errors():
        title, maps = codec.look(model, given.get("prompt"))
    maps = chosen(maps, given.get("layer"), given.get("head"))
    with saying("drawing the picture"):
        draw_maps(maps, title, path)
    print("\n".join([*(line for layer in maps for line in where_heads_look(layer)), f"{path} shows it"]))
    return 0


def chosen(maps: list[LabelledMap], layer: int | None, head: int | None) -> list[LabelledMap]:
    """The maps of this layer and head; UsageError if the model lacks them."""
    for name, number, count in (("layer", layer, max(found.layer for found in maps)),
                                ("head", head, max(len(found.weights) for found in maps))):
        if number is not None and not 1 <= number <= count:
            raise UsageError(f"the model has no {name} {number}; choose --{name} from 1 to {count}")
    maps = [found for found in maps if layer in (None, found.layer)]
    return maps if head is None else [found.of_head(head) for found in maps]
