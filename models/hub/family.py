"""What a family of models is called in its folders: a table of config.json's fields and one of tensors, read both ways."""
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from models.transformer import TransformerConfig, canonical

CONSTRUCTED = {"hidden": "hidden_width", "groups": "key_value_heads", "head_width": "head_size"}  # property: its field
DEFAULTS = {field.name: field.default for field in dataclasses.fields(TransformerConfig)}
ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of config.json, with dots if it is in another one, and what says the same of a TransformerConfig.

    Several fields may say the same; they must agree.
    """

    theirs: str
    ours: str  # a field, or a property in CONSTRUCTED
    default: Any = ABSENT  # what transformers takes where config.json doesn't say
    choices: Mapping[str, str] | None = None  # our value of each of theirs; of several, the first is written
    is_written: bool = True

    def read(self, value: Any) -> Any:
        """Our value; ValueError if there is none."""
        if self.choices is not None:
            if not isinstance(value, str) or value not in self.choices:
                raise ValueError(f"{self.theirs} is {value!r}, known are {', '.join(self.choices)}")
            return self.choices[value]
        if isinstance(DEFAULTS.get(self.ours), float) and type(value) is int:
            return float(value)
        return value

    def write(self, value: Any) -> Any:
        """Their value; the first that they know if they have none, which `Family.misfits` notices."""
        if self.choices is not None:
            return next((theirs for theirs, ours in self.choices.items() if ours == value), next(iter(self.choices)))
        return value


@dataclasses.dataclass(frozen=True)
class Change:
    """How a tensor of theirs becomes a parameter of ours, and back; D is the width of a head."""

    read: Callable[[np.ndarray, int], np.ndarray]
    write: Callable[[np.ndarray, int], np.ndarray]


def _halves_to_pairs(x: np.ndarray, D: int) -> np.ndarray:
    return x.reshape(-1, 2, D // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def _pairs_to_halves(x: np.ndarray, D: int) -> np.ndarray:
    return x.reshape(-1, D // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


AS_IS = Change(lambda x, D: x, lambda x, D: x)
TRANSPOSED = Change(lambda x, D: x.T, lambda x, D: x.T)  # GPT-2 computes x @ weight, a Linear x @ weight.T
# Rotary positions turn two features of a head as one: there i and i + D/2, here the neighbours 2i and 2i + 1. Scores stay
# the same if the rows of queries and keys, which make these features, are put in the other order.
ROTATED = Change(_halves_to_pairs, _pairs_to_halves)


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor, and the parameter that holds the same; "{}" stands for the number of the block."""

    theirs: str
    ours: str
    change: Change = AS_IS
    third: int | None = None  # of a packed parameter, the part that holds it

    def part_of(self, parameter: Any) -> Any:
        """What holds the tensor of our parameter, or of its array."""
        if self.third is None:
            return parameter
        size = len(parameter) // 3
        return parameter[self.third * size : (self.third + 1) * size]


def projection(theirs: str, third: int, ours: str, change: Change = AS_IS) -> tuple[Row, ...]:
    """The rows of what makes queries, keys or values: a third of a packed projection, or a layer of its own."""
    packed = (Row(f"{theirs}.{name}", f"blocks.{{}}.attention.in_proj_{name}", change, third)
              for name in ("weight", "bias"))
    return *packed, *layer(theirs, f"blocks.{{}}.attention.{ours}", change)


def layer(theirs: str, ours: str, change: Change = AS_IS) -> tuple[Row, Row]:
    """The rows of a layer's weight and bias."""
    return tuple(Row(f"{theirs}.{name}", f"{ours}.{name}", change) for name in ("weight", "bias"))


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of model in the Hugging Face format. What isn't in `fields`, `always` or `meaningless` is refused."""

    model_type: str
    architecture: str  # the class in transformers
    prefix: str  # of all tensors but the read-out's; some files leave it out
    fixed: Mapping[str, Any]  # what a TransformerConfig is in this family
    fields: tuple[Field, ...]
    always: Mapping[str, Any]  # fields that must have this value, if they are there; they are written
    if_there: Mapping[str, Any]  # the same, but they aren't written
    meaningless: frozenset[str]  # fields that change no number here
    rows: tuple[Row, ...]
    buffers: str  # a pattern of tensors that are no parameters: computed anew, not read
    # Of a config.json without nesting, {"a.b": value}: several fields as the one that `fields` has, and back.
    fold: Callable[[dict[str, Any]], dict[str, Any]] = dict
    unfold: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def read_config(self, given: Mapping[str, Any], dtype: str = "float32") -> TransformerConfig:
        """The config that a config.json describes; ValueError with all that it says and isn't known here."""
        values, problems = self._values(given, dtype)
        if problems:
            raise ValueError("; ".join(problems))
        return canonical(TransformerConfig(**{CONSTRUCTED.get(name, name): value for name, value in values.items()}))

    def _values(self, given: Mapping[str, Any], dtype: str) -> tuple[dict[str, Any], list[str]]:
        flat = self.fold(dict(_flatten(given, self.meaningless)))
        required = {**self.always, **self.if_there}
        problems = [f"{name} is {flat[name]!r}, known is {value!r}" for name, value in required.items()
                    if flat.get(name) is not None and flat[name] != value]
        values, said_by = {**self.fixed, "dtype": dtype}, {}
        for field in self.fields:
            value = flat.get(field.theirs, field.default)
            if value is ABSENT or value is None:
                continue
            try:
                value = field.read(value)
            except (ValueError, OverflowError) as error:
                problems.append(str(error))
                continue
            if field.ours in values and values[field.ours] != value:
                problems.append(f"{field.theirs} is {value!r}, and {said_by[field.ours]} is {values[field.ours]!r}: "
                                "known are models in which they agree")
            values[field.ours], said_by[field.ours] = value, field.theirs
        known = {field.theirs for field in self.fields} | required.keys() | self.meaningless
        problems += [f"{name} is {value!r}, which isn't known here" for name, value in flat.items()
                     if name not in known and value is not None]
        return values, problems

    def write_config(self, config: TransformerConfig) -> dict[str, Any]:
        """config.json's fields for a config without `misfits`."""
        flat = {field.theirs: field.write(getattr(config, field.ours)) for field in self.fields if field.is_written}
        written: dict[str, Any] = {"model_type": self.model_type, "architectures": [self.architecture]}
        for name, value in self.unfold({**flat, **self.always}).items():
            *outer, last = name.split(".")
            place = written.setdefault(outer[0], {}) if outer else written
            place[last] = value
        return written

    def misfits(self, config: TransformerConfig) -> list[str]:
        """The fields of a config that this family can't express: they don't come back."""
        try:
            back = self.read_config(self.write_config(config), config.dtype)
        except ValueError as error:  # of what is lost, another field needs something
            return [str(error)]
        config = canonical(config)
        return [f"{name}={getattr(config, name)!r}" for name in DEFAULTS if getattr(back, name) != getattr(config, name)]

    def rows_of(self, layers: int) -> Iterator[Row]:
        """The rows of a model with so many blocks."""
        for is_of_blocks, rows in itertools.groupby(self.rows, lambda row: "{}" in row.ours):
            rows = list(rows)
            for i in range(layers if is_of_blocks else 1):
                yield from (dataclasses.replace(row, theirs=row.theirs.format(i), ours=row.ours.format(i)) for row in rows)

    def full_name(self, name: str) -> str:
        """A tensor's name with the prefix, if it may have one."""
        return name if name.startswith((self.prefix, "lm_head.")) else self.prefix + name

    def is_buffer(self, name: str) -> bool:
        """Is this tensor of no use?"""
        return re.fullmatch(self.buffers, name.removeprefix(self.prefix)) is not None


def _flatten(given: Mapping[str, Any], meaningless: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """(name, value), with a dot where one field is in another."""
    for name, value in given.items():
        if isinstance(value, dict) and name not in meaningless:
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


# What config.json says of other things than the numbers that come out: its origin, training, other tasks, speed, and the
# choice of tokens, which are flags of `minigrad sample`.
MEANINGLESS = frozenset("""
    _name_or_path _num_labels architectures bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward
    cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id gradient_checkpointing id2label initializer_range is_decoder is_encoder_decoder label2id
    length_penalty max_length min_length model_type n_ctx no_repeat_ngram_size num_beam_groups num_beams num_labels
    num_return_sequences output_attentions output_hidden_states output_past output_scores pad_token_id prefix
    problem_type remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
    torch_dtype torchscript transformers.js_config transformers_version typical_p unsloth_fixed unsloth_version
    use_bfloat16 use_cache
""".split())
