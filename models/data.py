"""Text as token ids: the corpus, with its two splits and what a Trainer needs of it."""
import dataclasses
import hashlib
import itertools
import math
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pydoc_data.topics

import minigrad as mg
import nn
from models.attention_maps import has_attention
from models.distributed import ALONE, Alone
from models.generate import generate
from models.pictures import PICTURE, draw_maps
from models.token_file import Text, dtype_for, tokens_of
from models.tokenizers import KINDS, PICTURE_LENGTH, SAMPLE_LENGTH, TEMPERATURE, Bytes, Tokenizer, Vocabulary
from models.training_config import TrainingConfig

IGNORED = -100  # a target that counts neither for the loss nor for gradients
TRAINING_FRACTION = 0.9  # the first part of a text is for training, the rest for validation
LAST_TOKENS = 1_000_000  # validation tokens that are seen at the end: seconds, or a few minutes for large models

# The default corpus has a fixed vocabulary, newline and printable ASCII, so that models have the same shapes with every
# Python version. Quotes and dashes become their ASCII counterparts, tabs become spaces, letters lose their accents and
# '…' becomes '...' (Unicode's compatibility decomposition); other characters are dropped.
DEFAULT_SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))
ASCII_NEIGHBOURS = str.maketrans("“”‘’‐‑–—\t", "\"\"''---- ")


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A text as token ids, split in two; the hash identifies the text."""

    path: str | list[str] | None  # the text file, or several; None for the default corpus
    tokenizer: Tokenizer
    train: np.ndarray | Any  # (n,), of any integer dtype, perhaps on disk; batches are int64
    validation: np.ndarray | Any  # (m,)
    sha256: str  # of the text in UTF-8
    validation_bytes: int  # of the validation text in UTF-8

    @property
    def defaults(self) -> dict[str, Any]:
        """The fields of a TrainingConfig: those of its recipe."""
        return {}

    @property
    def ignored(self) -> int:
        """A target that does not count."""
        return IGNORED

    @property
    def name(self) -> str:
        """Which text it is."""
        paths = [self.path] if isinstance(self.path, str) else self.path
        return " and ".join(paths or ["the language reference of this Python"])

    @property
    def description(self) -> str:
        """The sizes of its parts, in a line."""
        return (f"{len(self.train):,} training tokens, {len(self.validation):,} validation tokens, "
                f"a vocabulary of {len(self.tokenizer):,} {self.tokenizer.unit}")

    def batch(self, generator: np.random.Generator, size: int, context: int) -> tuple[np.ndarray, np.ndarray]:
        """(inputs, targets), both (B, T), at random positions: each target is the token after its input."""
        starts = generator.integers(len(self.train) - context, size=(size, 1))
        windows = self.train[starts + np.arange(context + 1)].astype(np.int64)
        return windows[:, :-1], windows[:, 1:]

    def evaluate(self, model: nn.Module, training: TrainingConfig, is_last: bool, ranks: Alone = ALONE) -> dict[str, Any]:
        """The mean loss over windows of the validation text, the same each time, and in bits per byte; the last time also
        both over LAST_TOKENS, and the mean loss over some of the training text."""
        context, count = model.config.context, training.eval_windows

        def loss_over(tokens: np.ndarray, limit: int) -> tuple[float, int]:
            at_once = 2 * training.batch_size  # without gradients, twice as many have room, and take less time
            return mean_loss(model, windows(tokens, context, at_once, limit), IGNORED, ranks)

        loss, _ = loss_over(self.validation, count)
        measured = {"val_loss": loss, "bits_per_byte": self.bits_per_byte(loss)}
        if not is_last:
            return measured
        full_loss, seen = loss_over(self.validation, max(count, -(-LAST_TOKENS // context)))
        return measured | {"full_val_loss": full_loss, "full_bits_per_byte": self.bits_per_byte(full_loss),
                           "val_tokens": seen, "train_loss": loss_over(self.train, count)[0]}

    def bits_per_byte(self, loss: float) -> float:
        """Converts nats per token to bits per byte, loss / ln 2 * tokens / bytes, so that tokenizers can be compared.

        Tokens and bytes are those of the whole validation text: a loss on some windows stands for all, and the first token,
        which nothing predicts, counts as much as the mean of the others.
        """
        return loss / math.log(2) * len(self.validation) / self.validation_bytes

    def summary(self, measured: dict[str, Any]) -> str:
        """The last evaluation as text."""
        total, seen = len(self.validation) - 1, measured["val_tokens"]
        part = f"all {total:,} tokens" if seen == total else f"{seen:,} of {total:,} tokens, evenly spread"
        return (f"training loss {measured['train_loss']:.4f}, validation loss {measured['val_loss']:.4f}; over {part}: "
                f"{measured['full_val_loss']:.4f}, {measured['full_bits_per_byte']:.4f} bits per byte")

    def sample(self, model: nn.Module, seed: int) -> str:
        """Text that the model writes."""
        tokenizer = self.tokenizer
        ids = generate(model, tokenizer.start, SAMPLE_LENGTH, TEMPERATURE, seed=seed, vocabulary=len(tokenizer),
                       ends=tokenizer.ends)
        return tokenizer.decode(list(ids))

    def illustrate(self, model: nn.Module, folder: pathlib.Path) -> list[str]:
        """Draw where the model looks as it reads the start of the validation text; the names of the pictures."""
        if not has_attention(model):
            return []
        ids = self.validation[: min(PICTURE_LENGTH, model.config.context)]
        draw_maps(self.tokenizer.maps(model, ids), path=folder / PICTURE)
        return [PICTURE]

    def identity(self) -> dict[str, Any]:
        """What identifies it in a checkpoint."""
        return {"task": None, "path": self.path, "sha256": self.sha256, "tokenizer": self.tokenizer.state()}


def load_corpus(path: str | Sequence[str] | None = None, context: int = 1,
                tokenizer: Tokenizer | str = "characters") -> Corpus:
    """The corpus of a UTF-8 text file, or of several, one after the other, or of Python's language reference when `path` is
    None.

    Files are tokenized once; the tokens stay on disk, in the cache folder. Line ends become "\\n", as with open(). The
    tokenizer is given, or a new one of a kind: "characters" or "bytes". The text is split before tokenization, so that all
    tokenizers are validated on the same text. Both splits must hold a window of `context` tokens and the target after it;
    ValueError and OSError name the file.
    """
    train: Any
    validation: Any
    absolute: Any = None
    if path is None:
        name, content = "pydoc_data.topics", default_text()
        characters, sha256 = len(content), hashlib.sha256(content.encode()).hexdigest()
        boundary = int(TRAINING_FRACTION * characters)
        tokenizer = new_tokenizer(tokenizer, DEFAULT_SYMBOLS) if isinstance(tokenizer, str) else tokenizer
        splits = content[:boundary], content[boundary:]
        train, validation = (tokenizer.encode(split).astype(dtype_for(len(tokenizer))) for split in splits)
        validation_bytes = len(splits[1].encode())
    else:
        paths = [path] if isinstance(path, str) else list(path)
        text = Text.of(paths)
        name, characters, sha256 = " and ".join(paths), text.characters, text.sha256
        absolute = [str(pathlib.Path(path).absolute()) for path in paths]
        absolute = absolute[0] if len(absolute) == 1 else absolute
        tokenizer = new_tokenizer(tokenizer, text.symbols) if isinstance(tokenizer, str) else tokenizer
        train, validation, validation_bytes = tokens_of(text, tokenizer, int(TRAINING_FRACTION * characters))
    if min(len(train), len(validation)) < context + 1:
        raise ValueError(
            f"{name} is too short: its {characters} characters make {len(train)} tokens for training and {len(validation)} "
            f"for validation, and each needs context + 1 = {context + 1}; give a longer text or a smaller context"
        )
    return Corpus(absolute, tokenizer, train, validation, sha256, validation_bytes)


def new_tokenizer(kind: str, symbols: str) -> Tokenizer:
    """A tokenizer of a kind for a text with these symbols; ValueError if the kind is unknown."""
    if kind not in KINDS:
        raise ValueError(f"tokenizer must be {' or '.join(KINDS)}, or a Tokenizer, got {kind!r}")
    return Bytes() if kind == Bytes.kind else Vocabulary.of(symbols)


def default_text() -> str:
    """The Python language reference (about 465,000 characters), sorted by topic, in plain ASCII."""
    topics = pydoc_data.topics.topics
    return in_ascii("\n".join(topics[name] for name in sorted(topics)))


def in_ascii(text: str) -> str:
    """The text in DEFAULT_SYMBOLS: characters become their nearest ASCII ones, or are dropped.

    >>> in_ascii("naïve “café”…")
    'naive "cafe"...'
    """
    known = set(DEFAULT_SYMBOLS)
    return "".join(symbol for symbol in unicodedata.normalize("NFKD", text.translate(ASCII_NEIGHBOURS)) if symbol in known)


def windows(tokens: np.ndarray, context: int, batch_size: int, limit: int | None = None
            ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of adjacent windows of a split, so that every token but the first is a target exactly once.

    The last window is padded with ignored targets. `limit` takes that many windows, evenly spaced over the split.
    """
    count = -(-(len(tokens) - 1) // context)
    every = np.arange(count) if limit is None or limit >= count else np.linspace(0, count - 1, limit).astype(int)
    starts = context * every
    for first in range(0, len(starts), batch_size):
        positions = starts[first:first + batch_size, None] + np.arange(context)
        is_real = positions < len(tokens) - 1
        positions = np.where(is_real, positions, 0)
        inputs, targets = (tokens[positions + shift].astype(np.int64) for shift in (0, 1))
        yield inputs, np.where(is_real, targets, IGNORED)


def mean_loss(model: nn.Module, batches: Iterable[tuple[np.ndarray, ...]], ignored: int, ranks: Alone = ALONE
              ) -> tuple[float, int]:
    """(the mean loss, over how many targets). A batch has the model's arguments; the last are the targets, of which
    `ignored` ones do not count. Ranks share the batches. ValueError if none counts."""
    total, count = 0.0, 0
    for batch in itertools.islice(batches, ranks.rank, None, ranks.size):
        real = int(np.count_nonzero(batch[-1] != ignored))
        if real:  # the mean over none would be NaN
            _, loss = model(*map(mg.tensor, batch))
            total, count = total + real * loss.item(), count + real
    total, count = ranks.sum([total, count]).tolist()
    if not count:
        raise ValueError(f"there is nothing to evaluate: all targets are {ignored}, which does not count; give others")
    return total / count, int(count)
