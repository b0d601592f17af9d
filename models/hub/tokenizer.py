"""tokenizer.json: reading a folder's tokenizer, and writing ours so that the library `tokenizers` gives the same ids."""
import contextlib
import os
import pathlib
from typing import Any

from models.checkpoint import CheckpointError
from models.extras import one_line
from models.hub.weights import read_json, write_json
from models.tokenizers import Bytes, Tokenizer, TokenizerJson, Vocabulary
from models.tokenizers.tokenizer_json import WHOLE

CONFIG, GENERATION = "config.json", "generation_config.json"


def write(tokenizer: Tokenizer, folder: pathlib.Path, context: int) -> None:
    """Write tokenizer.json, and a config that makes transformers use it as is."""
    content = tokenizer.described
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
    if not (folder / WHOLE).exists():
        return None
    try:
        tokenizer = _ours(read_json(folder / WHOLE)) or TokenizerJson.read(folder)
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
        return next((ours for ours in (Vocabulary(symbols), Bytes()) if content == ours.described), None)
    return None
