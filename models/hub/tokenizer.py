"""tokenizer.json: reading a folder's tokenizer, and writing ours so that the library `tokenizers` gives the same ids."""
import contextlib
import os
import pathlib
from typing import Any

from models.checkpoint import CheckpointError
from models.extras import one_line
from models.hub.weights import read_json, write_json
from models.tokenizers import Bytes, Tokenizer, TokenizerJson, Vocabulary
from models.tokenizers.tokenizer_json import BYTE_OF, VOCABULARY, WHOLE

CONFIG, GENERATION = "config.json", "generation_config.json"
LONGEST = 100_000_000  # bytes


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    """The content of a tokenizer.json that gives the same ids."""
    if isinstance(tokenizer, TokenizerJson):
        return tokenizer.described
    if isinstance(tokenizer, Vocabulary):  # each character is a word; without an unknown word, others are refused, as here
        model = {"type": "WordLevel", "vocab": {symbol: i for i, symbol in enumerate(tokenizer.symbols)}, "unk_token": ""}
        before = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
        decoder: dict[str, Any] = {"type": "Fuse"}
    else:  # bytes are byte pairs without merges
        model = {"type": "BPE", "vocab": BYTE_OF, "merges": []}
        before = decoder = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": before, "post_processor": None, "decoder": decoder, "model": model}


def write(tokenizer: Tokenizer, folder: pathlib.Path, context: int) -> None:
    """Write tokenizer.json, and a config that makes transformers use it as is."""
    content = described(tokenizer)
    special = {token["id"]: token["content"] for token in content["added_tokens"]}
    ids = {"bos_token": tokenizer.before_prompt, "eos_token": tokenizer.ends}
    write_json(folder / WHOLE, content)
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context, "clean_up_tokenization_spaces": False,
        **{name: special[found[0]] for name, found in ids.items() if found and found[0] in special}})


def read(folder: str | os.PathLike[str]) -> Tokenizer | None:
    """The tokenizer of a folder, with the ids that end a text; None if there is none. CheckpointError if it is invalid,
    MissingExtra if the library is not installed."""
    folder = pathlib.Path(folder)
    if not any((folder / name).exists() for name in (WHOLE, VOCABULARY)):  # the latter is GPT-2's
        return None
    try:
        content = read_json(folder / WHOLE, LONGEST) if (folder / WHOLE).exists() else {}
        tokenizer = _ours(content) or TokenizerJson.read(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the tokenizer in {folder} is invalid ({one_line(error)})") from None
    if isinstance(tokenizer, TokenizerJson):
        files = [read_json(folder / name) for name in (GENERATION, CONFIG) if (folder / name).exists()]
        said: Any = next((file["eos_token_id"] for file in files if file.get("eos_token_id") is not None), [])
        ids = said if isinstance(said, list) else [said]
        tokenizer.ends = tuple(i for i in ids if type(i) is int and 0 <= i < len(tokenizer))
    return tokenizer


def _ours(content: dict[str, Any]) -> Tokenizer | None:
    """The Vocabulary or Bytes from which `write` made this."""
    with contextlib.suppress(TypeError, KeyError, ValueError):
        symbols = "".join(content["model"]["vocab"])
        return next((ours for ours in (Vocabulary(symbols), Bytes()) if content == described(ours)), None)
    return None
