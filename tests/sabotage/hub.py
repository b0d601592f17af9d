"""Sabotages of what reads and writes the models of others."""
import dataclasses
import functools

from models.hub.family import AS_IS
from models.hub.folder import FAMILIES
from sabotage.base import Sabotage
from sabotage.edit import edits, explained

OTHERS = "tests/models/test_published_configs.py", "tests/models/test_hub.py"
HOSTILE = "tests/models/test_hostile_folders.py",


def _table(family: str, part: str, change) -> None:
    """Change each entry of a family's `fields` or `rows`."""
    family = FAMILIES[family]
    object.__setattr__(family, part, tuple(map(change, getattr(family, part))))


def as_is(family: str, ours: str) -> Sabotage:
    """A tensor is taken as it is."""
    return Sabotage(f"{family}: {ours} as it is", OTHERS, functools.partial(
        _table, family, "rows", lambda row: dataclasses.replace(row, change=AS_IS) if row.ours == ours else row))


def other_default(family: str, theirs: str, value) -> Sabotage:
    """A field has another default, or none is read."""
    return Sabotage(f"{family}: {theirs} is {value} by default", OTHERS, functools.partial(
        _table, family, "fields", lambda field: dataclasses.replace(field, theirs="x", default=value)
        if field.theirs == theirs else field))


SABOTAGES = explained({
    "hub: headers not checked": "no file is known whose names the library and Python read in two ways",
}, [
    *(as_is("gpt2", f"blocks.{{}}.{name}") for name in (
        "attention.in_proj_weight", "attention.out_proj.weight", "mlp.expand.weight", "mlp.project.weight")),
    *(as_is("llama", f"blocks.{{}}.attention.{name}") for name in (
        "query.weight", "query.bias", "key.weight", "key.bias", "in_proj_weight", "in_proj_bias")),
    *(other_default("gpt2", *row) for row in (
        ("layer_norm_epsilon", 1e-5), ("activation_function", "gelu_new"), ("n_inner", None), ("tie_word_embeddings", True))),
    *(other_default("llama", *row) for row in (
        ("rms_norm_eps", 1e-6), ("rope_parameters.rope_theta", None), ("rope_theta", None), ("rope_scaling.rope_theta", None),
        ("head_dim", None), ("rope_parameters.rope_type", None), ("rope_scaling.rope_type", None))),
    *edits(OTHERS, "models.hub.family", {
        "hub: rows not rotated back": ("_pairs_to_halves", "D // 2, 2, *x.shape[1:]", "2, D // 2, *x.shape[1:]"),
        "hub: what is written is not unfolded": ("Family.write_config", "self.unfold({**flat, **self.always})",
                                                 "{**flat, **self.always}"),
        "hub: all thirds are the first": ("Row.part_of", "parameter[self.third * size : (self.third + 1) * size]",
                                          "parameter[:size]"),
        "hub: fields that aren't written are": ("Family.write_config", "if field.is_written", "if True"),
    }),
    *edits(OTHERS, "models.transformer", {
        "hub: not canonical": ("canonical", "None if config.groups == config.heads else config.groups", "config.groups"),
    }),
    *edits(OTHERS, "models.hub.llama", {
        "hub: scalings of before version 5 not read": ("fold_scaling", "for place in (NEW, OLD):", "for place in (NEW,):"),
        "hub: kind of scaling of before": ("fold_scaling", '("rope_type", "type")', '("rope_type",)'),
        "hub: numbers as floats": ("unfold_scaling", "int(number) if name.endswith", "number if name.endswith"),
    }),
    *edits(OTHERS, "models.hub.weights", {
        "hub: bfloat16 in the lower half": ("Stored.read", "bits <<= 16", "bits <<= 0"),
        "hub: bfloat16 cut off": ("as_stored", "bits + 0x7FFF + (bits >> 16 & 1)", "bits"),
        "hub: bfloat16 halves go up": ("as_stored", "0x7FFF + (bits >> 16 & 1)", "0x8000"),
        "hub: no offset": ("Stored.read", "offset=self.offset", "offset=8"),
        "hub: no layout named": ("_write_file", '{"format": "pt"}', "{}"),
        "hub: never a new shard": ("write", "filled + size > shard_size", "False"),
        "hub: shards of a tensor each": ("write", "filled + size > shard_size", "True"),
        "hub: total size": ("write", "filled + size, total + size", "filled + size, size"),
    }),
    *edits(OTHERS, "models.hub.folder", {
        "hub: float64 read as float32": ("read", 'stored.dtype == "F64"', "False"),
        "hub: positions not cut": ("Folder.load_into", "array[: len(held)] if", "array if"),
        "hub: buffers are tensors": ("_tensors", "not family.is_buffer(name)", "True"),
        "hub: no prefix added": ("_tensors", "family.full_name(name): stored", "name: stored"),
        "hub: a second read-out refused": ("Folder._is_the_embedding", "name != READ_OUT", "True"),
        "hub: ends not written": ("write", "list(tokenizer.ends)", "[]"),
        "hub: no beginning": ("write", "before[0] if before else None", "None"),
        "hub: dtype not said": ("write", '"dtype": dtype, **ids', "**ids"),
    }),
    *edits(OTHERS, "models.hub.tokenizer", {
        "hub: characters come back as pairs": ("_ours", "(Vocabulary(symbols), Bytes())", "(Bytes(),)"),
        "hub: bytes come back as pairs": ("_ours", "(Vocabulary(symbols), Bytes())", "(Vocabulary(symbols),)"),
        "hub: GPT-2's own files not read": ("read", "(folder / MERGES).exists()", "False"),
        "hub: special tokens not named": ("write", "if ids and ids[0] in special", "if False"),
        "hub: ends of config.json only": ("_with_ends", "(GENERATION, CONFIG)", "(CONFIG,)"),
        "hub: ends of generation_config.json only": ("_with_ends", "(GENERATION, CONFIG)", "(GENERATION,)"),
        "hub: a list of ends": ("_with_ends", "said if isinstance(said, list) else [said]", "[said]"),
        "hub: ends that are no tokens": ("_with_ends", "if type(i) is int and 0 <= i < len(tokenizer)", "if True"),
        "hub: ends of GPT-2's own files": ("read", "_with_ends(BytePairs.read(folder), folder)", "BytePairs.read(folder)"),
        "hub: lines are no characters": ("_of_characters", r"[\s\S]", "."),
    }),
    *edits(OTHERS, "models.tokenizers.byte_pairs", {
        "BytePairs: ends not kept": ("BytePairs.state", "list(self.ends)", "[]"),
        "BytePairs: ends lost": ("BytePairs.of_state", ', ends)', ")"),
    }),
    *edits(OTHERS, "models.tokenizers.base", {"respond: no end": ("Tokenizer.respond", "ends=self.ends, ", "")}),
    *edits(HOSTILE, "models.hub.family", {
        "hub: fields that must be so": ("Family._values", "flat[name] != value]", "False]"),
        "hub: fields that disagree": ("Family._values", "values[field.ours] != value", "False"),
        "hub: unknown fields": ("Family._values", "if name not in known and", "if False and"),
        "hub: unknown choices": ("Field.read", "value not in self.choices", "False"),
        "hub: what cannot be expressed": ("Family.misfits", "if getattr(back, name) != getattr(config, name)", "if False"),
    }),
    *edits(HOSTILE, "models.hub.weights", {
        "hub: any name of a shard": ("_find_in_shards", "not _is_file_name(name)", "False"),
        "hub: folders in names": ("_is_file_name", '"/\\\\:\\0"', '"\\0"'),
        "hub: shards that are missing": ("_find_in_shards", "if missing:", "if False:"),
        "hub: a tensor in two shards": ("_find_in_shards", "if twice:", "if False:"),
        "hub: shards hold other tensors": ("_find_in_shards", "if wrong or places.keys() - tensors.keys()", "if False"),
        "hub: shards that are changed": ("_find_in_shards", "tensors[name].path.name != file", "False"),
        "hub: a pickle": ("find", "if pickles:", "if False:"),
        "hub: long headers": ("read_header", "length > min(LONGEST_HEADER, path.stat().st_size)", "False"),
        "hub: headers not checked": ("read_header", "header.keys() != set(names)", "False"),
        "hub: names twice": ("_each_once", "len(found) != len(pairs)", "False"),
        "hub: long files": ("read_json", "path.stat().st_size > longest", "False"),
        "hub: pipes": ("read_json", "if not path.is_file():", "if False:"),
        "hub: JSON that is no object": ("read_json", "not isinstance(content, dict)", "False"),
        "hub: numbers too large for the dtype": ("as_stored", "not is_finite.all()", "False"),
    }),
    *edits(HOSTILE, "models.hub.folder", {
        "hub: unknown architecture": ("read", "if family is None:", "if False:"),
        "hub: absurd sizes": ("read", "config.parameter_count() > 2 * max(count, 1)", "False"),
        "hub: another tokenizer": ("read", "not tokenizer.fits(config.vocabulary_size)", "False"),
        "hub: tensors twice": ("_tensors", "len(full) != len(found)", "False"),
        "hub: NaN": ("Folder._finite", "not np.isfinite(array).all()", "False"),
        "hub: missing tensors": ("Folder._check_names", '("missing: ", missing)', '("missing: ", [])'),
        "hub: extra tensors": ("Folder._check_names", '("not expected: ", extra)', '("not expected: ", [])'),
        "hub: misshapen tensors": ("Folder._check_names", '("", misshapen)', '("", [])'),
        "hub: integers": ("Folder._check_names", '", integers)', '", [])'),
        "hub: a read-out that isn't tied": ("Folder._is_the_embedding", "not np.array_equal(mine.read(), other.read())", "False"),
        "hub: another config": ("Folder._check_config", "differences(self.config, model.config)", "[]"),
        "hub: a longer context": ("Folder._check_config", "model.config.context > self.config.context", "False"),
        "hub: writes over": ("check_free", "folder.exists() and", "False and"),
        "hub: writes over a link": ("check_free", "folder.is_symlink() or", ""),
        "hub: leaves half a folder": ("replacing_nothing", "shutil.rmtree(temporary, ignore_errors=True)", "pass"),
    }),
    *edits(HOSTILE, "models.commands.export", {
        "export: a task": ("run", "if source.task:", "if False:"),
        "export: no size": ("shard_size", "int(found[1]) == 0", "False"),
    }),
    *edits(HOSTILE, "models.loading", {
        "Source: no tokenizer": ("Source.speaker", "self.task is None and self.tokenizer is None", "False"),
        "respond: no tokenizer": ("respond", 'if getattr(model, "tokenizer", None) is None:', "if False:"),
    }),
])
