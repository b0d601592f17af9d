"""tokenizer.json: reading a folder's tokenizer, and writing ours so that the library `tokenizers` gives the same ids."""
import contextlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

from models.checkpoint import CheckpointError
from models.extras import one_line
from models.hub.weights import read_json, write_json
from models.tokenizers import Bytes, Tokenizer, TokenizerJson, Vocabulary
from models.tokenizers.tokenizer_json import BYTE_OF, MERGES, VOCABULARY, WHOLE

CONFIG, GENERATION = "config.json", "generation_config.json"
LONGEST = 100_000_000  # bytes


def _described(model: dict[str, Any], pre_tokenizer: dict[str, Any], decoder: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder, "model": model}


def _of_characters(tokenizer: Vocabulary) -> dict[str, Any]:
    """Each character is a word; without an unknown word, other characters are refused, as here."""
    words = {"type": "WordLevel", "vocab": {symbol: i for i, symbol in enumerate(tokenizer.symbols)}, "unk_token": ""}
    apart = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return _described(words, apart, {"type": "Fuse"})


def _of_bytes(tokenizer: Bytes) -> dict[str, Any]:
    """Byte pairs without merges."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return _described({"type": "BPE", "vocab": BYTE_OF, "merges": []}, level, level)


DESCRIBED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "characters": _of_characters, "bytes": _of_bytes, "bpe": lambda tokenizer: tokenizer.state()["tokenizer"],
}


def write(tokenizer: Tokenizer, folder: pathlib.Path, context: int) -> None:
    """Write tokenizer.json, and a config that makes transformers use it as is."""
    content = DESCRIBED[tokenizer.kind](tokenizer)
    write_json(folder / WHOLE, content)
    special = {token["id"]: token["content"] for token in content["added_tokens"]}
    named = {name: special[ids[0]] for name, ids in (("bos_token", tokenizer.before_prompt), ("eos_token", tokenizer.ends))
             if ids and ids[0] in special}
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context, "clean_up_tokenization_spaces": False,
        **named})


def read(folder: str | os.PathLike[str]) -> Tokenizer | None:
    """The tokenizer of a folder, with the ids that end a text; None if there is none. CheckpointError if it is invalid,
    MissingExtra if the library is not installed."""
    folder = pathlib.Path(folder)
    path = folder / WHOLE
    try:
        if path.exists():
            described = read_json(path, LONGEST)
            return _ours(described) or _with_ends(TokenizerJson(described), folder)
        if (folder / VOCABULARY).exists() and (folder / MERGES).exists():  # GPT-2's own files
            return _with_ends(TokenizerJson.read(folder), folder)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(f"the tokenizer in {folder} is invalid ({one_line(error)})") from None
    return None


def _with_ends(tokenizer: TokenizerJson, folder: pathlib.Path) -> TokenizerJson:
    """The tokenizer, with `ends` from "eos_token_id", a number or a list, as far as these are its tokens."""
    for name in (GENERATION, CONFIG):
        said = read_json(folder / name).get("eos_token_id") if (folder / name).exists() else None
        if said is not None:
            ids = said if isinstance(said, list) else [said]
            tokenizer.ends = tuple(i for i in ids if type(i) is int and 0 <= i < len(tokenizer))
            break
    return tokenizer


def _ours(content: dict[str, Any]) -> Tokenizer | None:
    """The Vocabulary or Bytes from which `write` made this."""
    with contextlib.suppress(TypeError, KeyError, ValueError):
        symbols = "".join(content["model"]["vocab"])
        for tokenizer in (Vocabulary(symbols), Bytes()):
            if content == DESCRIBED[tokenizer.kind](tokenizer):
                return tokenizer
    return None
