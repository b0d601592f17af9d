"""The names of GPT-2 and Llama in their folders: a table of config.json's fields and one of tensors, used in both ways."""
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import nn
from minigrad import Tensor
from models.checkpoint import CheckpointError
from models.config import TransformerConfig
from nn.position import SCALINGS, parse_scaling

Layout = Callable[[Tensor, TransformerConfig], Tensor]  # a view of our parameter with their tensor's numbers in order


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of model in the Hugging Face format. Fields that are in none of its tables are refused."""

    model_type: str
    architecture: str  # the class in transformers
    prefix: str  # of all tensors except the read-out; some files omit it
    fixed: Mapping[str, Any]  # fields of every TransformerConfig in this family
    fields: list[tuple[str, str, Any]]  # theirs, ours, and their default; several of ours must agree
    activations: Mapping[str, str]  # {theirs: ours}; of several, the last is written
    constants: Mapping[str, Any]  # fields that must have this value if present
    meaningless: frozenset[str]  # fields that do not affect the numbers
    rows: list[tuple[str, str, Layout]]  # their tensor and our parameter; "{}" stands for the number of the block
    buffers: str  # a pattern of tensors that are not parameters, and are not read
    fold: Callable[[dict[str, Any]], dict[str, Any]] = dict  # merge fields of config.json into one of `fields`
    unfold: Callable[[dict[str, Any]], dict[str, Any]] = dict  # and back

    def read_config(self, given: Mapping[str, Any], dtype: str = "float32") -> TransformerConfig:
        """The config that a config.json describes; ValueError with everything that is not supported."""
        given = self.fold({name: value for name, value in given.items() if value is not None})
        known = {theirs for theirs, _, _ in self.fields} | self.constants.keys() | self.meaningless
        problems = [f"{name} is {value!r}, which is not supported" for name, value in given.items() if name not in known]
        problems += [f"{name} is {given[name]!r}, supported is {value!r}" for name, value in self.constants.items()
                     if given.get(name, value) != value]
        values: dict[str, Any] = {**self.fixed, "dtype": dtype}
        said_by: dict[str, str] = {}
        for theirs, ours, default in self.fields:
            value = given.get(theirs, default)
            if value is None:
                continue
            if ours == "activation" and str(value) not in self.activations:
                problems.append(f"{theirs} is {value!r}, supported are {', '.join(self.activations)}")
                continue
            value = self.activations[value] if ours == "activation" else value
            if ours in said_by and values[ours] != value:
                problems.append(f"{theirs} is {value!r}, but {said_by[ours]} is {values[ours]!r}: they must agree")
            values[ours], said_by[ours] = value, theirs
        if problems:
            raise ValueError("; ".join(problems))
        return TransformerConfig(**values)

    def write_config(self, config: TransformerConfig) -> dict[str, Any]:
        """The fields of config.json for a config without `misfits`."""
        activations = {ours: theirs for theirs, ours in self.activations.items()}
        values = vars(config) | {"activation": activations.get(config.activation)}
        fields = {theirs: values[ours] for theirs, ours, _ in self.fields}
        return {"model_type": self.model_type, "architectures": [self.architecture], **self.unfold(fields)}

    def misfits(self, config: TransformerConfig) -> list[str]:
        """The fields of a config that this family cannot express: those that do not survive writing and reading."""
        try:
            back = self.read_config(self.write_config(config), config.dtype)
        except ValueError as error:  # another field needs what is lost
            return [str(error)]
        return [f"{name}={value!r}" for name, value in vars(config).items() if getattr(back, name) != value]

    def views(self, model: nn.Module) -> dict[str, Tensor]:
        """Views of a model's parameters, by the name of the tensor that has the same numbers in the same order."""
        parameters, config = dict(model.named_parameters()), model.config
        rows = [(theirs.format(i), ours.format(i), layout) for theirs, ours, layout in self.rows
                for i in range(config.layers if "{}" in ours else 1)]
        others = parameters.keys() - {ours for _, ours, _ in rows}
        if others:
            raise CheckpointError(f"{self.model_type} has no tensors for {', '.join(sorted(others)):.300}")
        return {theirs: layout(parameters[ours], config) for theirs, ours, layout in rows if ours in parameters}

    def full_name(self, name: str) -> str:
        """A tensor's name with the prefix, unless it is the read-out's."""
        return name if name.startswith((self.prefix, "lm_head.")) else self.prefix + name


def as_it_is(x: Tensor, config: TransformerConfig) -> Tensor:
    return x


def layer(theirs: str, ours: str, layout: Layout = as_it_is) -> list[tuple[str, str, Layout]]:
    return [(f"{theirs}.{name}", f"{ours}{name}", layout) for name in ("weight", "bias")]


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


def transposed(x: Tensor, config: TransformerConfig) -> Tensor:
    """GPT-2 computes x @ weight, a Linear x @ weight.T."""
    return x.mT if x.ndim == 2 else x


GPT2 = Family(  # Radford et al., 2019: learned positions, layer norm before each sublayer, biases everywhere
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    fixed=dict(norm="layer_norm", positions="learned", placement="pre", final_norm=True, bias=True),
    fields=[
        ("vocab_size", "vocabulary_size", 50257), ("n_positions", "context", 1024), ("n_embd", "width", 768),
        ("n_layer", "layers", 12), ("n_head", "heads", 12), ("n_inner", "hidden_width", None),
        ("activation_function", "activation", "gelu_new"), ("layer_norm_epsilon", "norm_eps", 1e-5),
        ("resid_pdrop", "dropout", 0.1), ("embd_pdrop", "dropout", 0.1), ("attn_pdrop", "dropout", 0.1),
        ("tie_word_embeddings", "tied", True),
    ],
    activations={"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_new": "gelu_tanh", "swish": "silu",
                 **{name: name for name in ("gelu", "relu", "tanh", "sigmoid", "silu")}},
    constants={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    meaningless=MEANINGLESS | {
        "reorder_and_upcast_attn",  # the order of a product and a scale, for sums in float16
        "n_special", "predict_special_tokens",  # of the first versions
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"},
    rows=[
        ("transformer.wte.weight", "token_embedding.weight", as_it_is),
        ("transformer.wpe.weight", "position_embedding.weight", as_it_is),
        *layer("transformer.h.{}.ln_1", "blocks.{}.ln_1."),
        *layer("transformer.h.{}.attn.c_attn", "blocks.{}.attention.in_proj_", transposed),
        *layer("transformer.h.{}.attn.c_proj", "blocks.{}.attention.out_proj.", transposed),
        *layer("transformer.h.{}.ln_2", "blocks.{}.ln_2."),
        *layer("transformer.h.{}.mlp.c_fc", "blocks.{}.mlp.expand.", transposed),
        *layer("transformer.h.{}.mlp.c_proj", "blocks.{}.mlp.project.", transposed),
        *layer("transformer.ln_f", "ln_f."),
        ("lm_head.weight", "read_out.weight", as_it_is),
    ],
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",  # the causal mask
)


def fold_rotary(given: dict[str, Any]) -> dict[str, Any]:
    """Rotary positions as "rope_theta" and "rope_scaling", in the format of TransformerConfig.rotary_scaling. There they
    were before version 5 of transformers, which has all in "rope_parameters"."""
    rotary: dict[str, Any] = {}
    places = {"rope_theta": given.pop("rope_theta", None)}, given.pop("rope_parameters", {}), given.pop("rope_scaling", {})
    for name, value in (item for place in places for item in place.items() if item[1] is not None):
        name = "rope_type" if name == "type" else name
        if rotary.setdefault(name, value) != value:
            raise ValueError(f"{name} is {rotary[name]!r}, and in another place {value!r}: they must agree")
    kind = rotary.pop("rope_type", "default")
    kind = "none" if kind == "default" else kind
    if str(kind) not in SCALINGS:
        raise ValueError(f"rope_type is {kind!r}, supported are default, linear, llama3")
    defaults = {"original_max_position_embeddings": given.get("max_position_embeddings")}
    numbers = [rotary.pop(name, defaults.get(name)) for name in SCALINGS[kind]]
    return given | rotary | {"rope_scaling": ":".join(map(str, [kind, *numbers]))}


def unfold_rotary(fields: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `fold_rotary`, in the places that all versions of transformers know."""
    kind, numbers = parse_scaling(fields.pop("rope_scaling"))
    named = {name: int(number) if name.endswith("embeddings") and number.is_integer() else number
             for name, number in zip(SCALINGS[kind], numbers)}
    return fields if kind == "none" else {**fields, "rope_scaling": {"rope_type": kind, **named}}


def third(i: int, is_rotated: bool) -> Layout:
    """The queries, keys or values of packed projections. Rotary positions rotate pairs of features of a head: ours 2i and
    2i + 1, theirs i and i + D/2. Permuting the rows of queries and keys accordingly leaves scores unchanged."""
    def layout(x: Tensor, config: TransformerConfig) -> Tensor:
        D, G = config.head_size, config.key_value_heads
        x = x.split([config.heads * D, G * D, G * D])[i]
        return x.reshape(-1, D // 2, 2, *x.shape[1:]).transpose(1, 2) if is_rotated else x

    return layout


LLAMA = Family(  # Touvron et al., arXiv:2302.13971 and 2307.09288: rotary positions, RMSNorm, a gated MLP, groups of heads
    model_type="llama",
    architecture="LlamaForCausalLM",
    prefix="model.",
    fixed=dict(norm="rms_norm", positions="rotary", placement="pre", final_norm=True, dropout=0.0),
    fields=[
        ("vocab_size", "vocabulary_size", 32000), ("max_position_embeddings", "context", 2048),
        ("hidden_size", "width", 4096), ("num_hidden_layers", "layers", 32), ("num_attention_heads", "heads", 32),
        ("num_key_value_heads", "key_value_heads", None), ("head_dim", "head_size", None),
        ("intermediate_size", "hidden_width", 11008), ("hidden_act", "activation", "silu"),
        ("rms_norm_eps", "norm_eps", 1e-6), ("rope_theta", "rotary_base", None), ("rope_scaling", "rotary_scaling", None),
        ("attention_bias", "bias", False), ("mlp_bias", "bias", False), ("tie_word_embeddings", "tied", False),
    ],
    activations={"swish": "swiglu", "silu": "swiglu"},
    constants={"attention_dropout": 0.0, "partial_rotary_factor": 1.0, "rope_interleaved": False},
    meaningless=MEANINGLESS | {"pretraining_tp", "is_llama_config", "max_sequence_length"},
    rows=[
        ("model.embed_tokens.weight", "token_embedding.weight", as_it_is),
        *layer("model.layers.{}.input_layernorm", "blocks.{}.ln_1."),
        *layer("model.layers.{}.self_attn.q_proj", "blocks.{}.attention.in_proj_", third(0, is_rotated=True)),
        *layer("model.layers.{}.self_attn.k_proj", "blocks.{}.attention.in_proj_", third(1, is_rotated=True)),
        *layer("model.layers.{}.self_attn.v_proj", "blocks.{}.attention.in_proj_", third(2, is_rotated=False)),
        *layer("model.layers.{}.self_attn.o_proj", "blocks.{}.attention.out_proj."),
        *layer("model.layers.{}.post_attention_layernorm", "blocks.{}.ln_2."),
        *layer("model.layers.{}.mlp.gate_proj", "blocks.{}.mlp.gate."),
        *layer("model.layers.{}.mlp.up_proj", "blocks.{}.mlp.expand."),
        *layer("model.layers.{}.mlp.down_proj", "blocks.{}.mlp.project."),
        *layer("model.norm", "ln_f."),
        ("lm_head.weight", "read_out.weight", as_it_is),
    ],
    buffers=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",  # the wavelengths, which rope_theta gives
    fold=fold_rotary,
    unfold=unfold_rotary,
)
FAMILIES = {family.model_type: family for family in (GPT2, LLAMA)}
