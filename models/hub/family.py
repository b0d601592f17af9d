"""The names a family of models uses in its folders: a table of config.json's fields and one of tensors, used both ways."""
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from minigrad import Tensor
from models.config import TransformerConfig

DEFAULTS = {field.name: field.default for field in dataclasses.fields(TransformerConfig)}
ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of config.json, with dots if it is nested, and the matching one of a TransformerConfig.

    Several fields may match the same one; they must agree.
    """

    theirs: str
    ours: str
    default: Any = ABSENT  # that of transformers
    choices: Mapping[str, str] | None = None  # {their value: ours}; of several, the first is written
    is_written: bool = True

    def read(self, value: Any) -> Any:
        """Our value; ValueError if there is none."""
        if self.choices is not None:
            if not isinstance(value, str) or value not in self.choices:
                raise ValueError(f"{self.theirs} is {value!r}, supported are {', '.join(self.choices)}")
            return self.choices[value]
        if isinstance(DEFAULTS.get(self.ours), float) and type(value) is int:
            return float(value)
        return value

    def write(self, value: Any) -> Any:
        """Their value; if they have none, the first choice, which `Family.misfits` notices."""
        if self.choices is not None:
            return next((theirs for theirs, ours in self.choices.items() if ours == value), next(iter(self.choices)))
        return value


@dataclasses.dataclass(frozen=True)
class Change:
    """How their tensor becomes our parameter, and back; D is the width of a head."""

    read: Callable[[Tensor, int], Tensor]
    write: Callable[[np.ndarray, int], np.ndarray]


def _transposed_rows(x: Any, m: int, n: int) -> Any:
    """x with each group of m * n rows transposed as an (m, n) matrix of rows."""
    return x.reshape(-1, m, n, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


AS_IS = Change(lambda x, D: x, lambda x, D: x)
TRANSPOSED = Change(lambda x, D: x.T, lambda x, D: x.T)  # GPT-2 computes x @ weight, a Linear x @ weight.T
# Rotary positions rotate pairs of features of a head: theirs i and i + D/2, ours 2i and 2i + 1. Permuting the rows of the
# query and key weights accordingly leaves scores unchanged.
ROTATED = Change(lambda x, D: _transposed_rows(x, 2, D // 2), lambda x, D: _transposed_rows(x, D // 2, 2))


@dataclasses.dataclass(frozen=True)
class Row:
    """Their tensor and our parameter; "{}" stands for the number of the block."""

    theirs: str
    ours: str
    change: Change = AS_IS
    third: int | None = None  # 0, 1 or 2 for the queries, keys or values in a packed parameter

    def part_of(self, parameter: Any, config: TransformerConfig) -> Any:
        """The part of our parameter, or of its array, for this tensor."""
        if self.third is None:
            return parameter
        sizes = [heads * config.head_size for heads in (config.heads, config.key_value_heads, config.key_value_heads)]
        start = sum(sizes[: self.third])
        return parameter[start : start + sizes[self.third]]


def layer(theirs: str, ours: str, change: Change = AS_IS, third: int | None = None) -> tuple[Row, Row]:
    weight, bias = (Row(f"{theirs}.{name}", f"{ours}{name}", change, third) for name in ("weight", "bias"))
    return weight, bias


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of model in the Hugging Face format. Fields that are in none of its tables are refused."""

    model_type: str
    architecture: str  # the class in transformers
    prefix: str  # of all tensors except the read-out; some files omit it
    fixed: Mapping[str, Any]  # fields of every TransformerConfig in this family
    fields: tuple[Field, ...]
    always: Mapping[str, Any]  # fields that must have this value if present; they are written
    if_there: Mapping[str, Any]  # the same, but they are not written
    meaningless: frozenset[str]  # fields that do not affect the numbers
    rows: tuple[Row, ...]
    buffers: str  # a pattern of tensors that are not parameters, and are not read
    # On a flat config.json, {"a.b": value}: merge several fields into the one in `fields`, and back
    fold: Callable[[dict[str, Any]], dict[str, Any]] = dict
    unfold: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def read_config(self, given: Mapping[str, Any], dtype: str = "float32") -> TransformerConfig:
        """The config that a config.json describes; ValueError with everything that is not supported."""
        values, problems = self._values(given, dtype)
        if problems:
            raise ValueError("; ".join(problems))
        return TransformerConfig(**values)

    def _values(self, given: Mapping[str, Any], dtype: str) -> tuple[dict[str, Any], list[str]]:
        flat = self.fold(dict(_flatten(given, self.meaningless)))
        required = {**self.always, **self.if_there}
        problems = [f"{name} is {flat[name]!r}, supported is {value!r}" for name, value in required.items()
                    if flat.get(name) is not None and flat[name] != value]
        values: dict[str, Any] = {**self.fixed, "dtype": dtype}
        said_by: dict[str, Any] = {}
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
                problems.append(f"{field.theirs} is {value!r}, but {said_by[field.ours]} is {values[field.ours]!r}: "
                                "they must agree")
            values[field.ours], said_by[field.ours] = value, field.theirs
        known = {field.theirs for field in self.fields} | required.keys() | self.meaningless
        problems += [f"{name} is {value!r}, which is not supported" for name, value in flat.items()
                     if name not in known and value is not None]
        return values, problems

    def write_config(self, config: TransformerConfig) -> dict[str, Any]:
        """The fields of config.json for a config without `misfits`."""
        flat = {field.theirs: field.write(getattr(config, field.ours)) for field in self.fields if field.is_written}
        written: dict[str, Any] = {"model_type": self.model_type, "architectures": [self.architecture]}
        for name, value in self.unfold({**flat, **self.always}).items():
            *outer, last = name.split(".")
            place = written.setdefault(outer[0], {}) if outer else written
            place[last] = value
        return written

    def misfits(self, config: TransformerConfig) -> list[str]:
        """The fields of a config that this family cannot express: those that do not survive writing and reading."""
        try:
            back = self.read_config(self.write_config(config), config.dtype)
        except ValueError as error:  # another field needs what is lost
            return [str(error)]
        return [f"{name}={getattr(config, name)!r}" for name in DEFAULTS if getattr(back, name) != getattr(config, name)]

    def rows_of(self, layers: int) -> Iterator[Row]:
        """The rows of a model with this many blocks."""
        for is_of_blocks, group in itertools.groupby(self.rows, lambda row: "{}" in row.ours):
            rows = list(group)
            for i in range(layers if is_of_blocks else 1):
                yield from (dataclasses.replace(row, theirs=row.theirs.format(i), ours=row.ours.format(i)) for row in rows)

    def full_name(self, name: str) -> str:
        """A tensor's name with the prefix, unless it is the read-out's."""
        return name if name.startswith((self.prefix, "lm_head.")) else self.prefix + name

    def is_buffer(self, name: str) -> bool:
        return re.fullmatch(self.buffers, name.removeprefix(self.prefix)) is not None


def _flatten(given: Mapping[str, Any], meaningless: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """(name, value) for each field, with a dot in nested names."""
    for name, value in given.items():
        if isinstance(value, dict) and name not in meaningless:
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


# Fields of config.json that do not affect the model's numbers: about its origin, training, other tasks, speed, and
# sampling, which has flags in `minigrad sample`.
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
