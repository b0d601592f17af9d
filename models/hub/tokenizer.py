"""tokenizer.json: the tokenizer of a folder, and ours in the same format, so that `tokenizers` gives the same ids."""
import pathlib
from typing import Any

from models.checkpoint import CheckpointError
from models.hub.weights import one_line, read_json, write_json
from models.tokenizers import Tokenizer, tokenizer_of

FILE = "tokenizer.json"
LONGEST = 100_000_000  # bytes


def _json(model: dict[str, Any], pre_tokenizer: dict[str, Any], decoder: str) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": {"type": decoder}, "model": model}


def of_characters(symbols: str) -> dict[str, Any]:
    """Each character is a word; without an unknown word, others are refused, as here."""
    words = {"type": "WordLevel", "vocab": {symbol: i for i, symbol in enumerate(symbols)}, "unk_token": ""}
    apart = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return _json(words, apart, "Fuse")


def write(tokenizer: Tokenizer, folder: pathlib.Path, context: int) -> None:
    """Write tokenizer.json and what tells transformers to take it as it is; CheckpointError if it can't be expressed."""
    state = tokenizer.state()
    if state["kind"] == "characters":
        content = of_characters(state["symbols"])
    elif state["kind"] == "bpe":
        content = state["tokenizer"]
    else:
        raise CheckpointError(f"tokenizers of kind {state['kind']!r} can't be written as {FILE}")
    write_json(folder / FILE, content)
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context, "clean_up_tokenization_spaces": False})


def read(folder: pathlib.Path, ends: tuple[int, ...]) -> Tokenizer | None:
    """The tokenizer of a folder, whose texts end with one of these ids; None if it has none. CheckpointError if it makes no
    sense."""
    path = folder / FILE
    if not path.exists():
        return None
    content = read_json(path, LONGEST)
    try:
        symbols = "".join(content["model"]["vocab"])
        if content == of_characters(symbols):
            return tokenizer_of({"kind": "characters", "symbols": symbols})
    except (TypeError, KeyError, ValueError):
        pass
    try:
        return tokenizer_of({"kind": "bpe", "tokenizer": content, "ends": list(ends)})
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path} is no tokenizer ({one_line(error)})") from None
