"""`minigrad sample`: a prompt and its continuation, as they come."""
import argparse

from models.checkpoint import CheckpointError, find, load
from models.commands.shared import UsageError
from models.data import Vocabulary
from models.generate import generate
from models.train import load_parameters, model_config
from models.transformer import CausalTransformer


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", metavar="RUN", required=True, help="folder of a run, or a checkpoint file")
    parser.add_argument("--prompt", help="the text to continue (default: the vocabulary's first symbol)")
    parser.add_argument("--tokens", type=int, default=300, help="how many to generate (default: 300)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest (default: 0.8)")
    parser.add_argument("--top-k", type=int, default=None, help="draw from the k likeliest only")
    parser.add_argument("--top-p", type=float, default=None, help="draw from the likeliest that reach p only")
    parser.add_argument("--seed", type=int, default=None, help="for the same text again (default: a new one)")


def run(options: argparse.Namespace) -> int:
    path = find(options.checkpoint)
    checkpoint = load(path)
    model = CausalTransformer(model_config(checkpoint, path))
    load_parameters(model, checkpoint, path)
    vocabulary = Vocabulary(checkpoint.corpus["symbols"])
    try:
        prompt = vocabulary.symbols[0] if "prompt" not in options else options.prompt
        ids = generate(model, vocabulary.encode(prompt), options.tokens, options.temperature, options.top_k,
                       options.top_p, options.seed)
    except ValueError as error:
        raise UsageError(error) from None
    print(prompt, end="")
    try:
        for token in ids:
            print(vocabulary.symbols[token], end="", flush=True)
    except ValueError as error:  # logits that overflow
        raise CheckpointError(f"{path}: {error}; train anew, with a smaller --lr") from None
    finally:
        print()
    return 0
