"""`minigrad sample`: a prompt and its continuation, streamed, or a model's answer to the source of a task."""
import argparse

from models import loading
from models.checkpoint import CheckpointError
from models.commands.shared import usage_errors
from models.commands.train import last_run_or_starter
from models.tokenizers import SAMPLE_LENGTH, TEMPERATURE

SAMPLING = "tokens", "temperature", "top_k", "top_p", "seed"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", metavar="RUN", help="folder of a run, a checkpoint file, or a Hugging Face "
                        "folder (default: the run saved last, or the model that comes with minigrad, starter)")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, not the last")
    parser.add_argument("--prompt", help="the text to continue (default: the first symbol), or a task's source")
    parser.add_argument("--tokens", type=int, help=f"how many to generate (default: {SAMPLE_LENGTH})")
    parser.add_argument("--temperature", type=float, help=f"0 always takes the likeliest (default: {TEMPERATURE})")
    parser.add_argument("--top-k", type=int, help="draw only from the k likeliest")
    parser.add_argument("--top-p", type=float, help="draw only from the likeliest that together reach probability p")
    parser.add_argument("--seed", type=int, help="to get the same text again (default: a new text each time)")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    source = loading.source(given["checkpoint"] if "checkpoint" in given else last_run_or_starter(), best="best" in given)
    codec = source.codec()
    model = loading.model_in(source)
    with usage_errors():
        pieces = codec.respond(model, given.get("prompt"), **{name: given[name] for name in SAMPLING if name in given})
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
    except ValueError as error:  # logits that overflow
        raise CheckpointError(f"{source.path}: {error}; train again, with a smaller --lr") from None
    finally:
        print()
    return 0
