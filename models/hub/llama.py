"""Llama (Touvron et al., arXiv:2302.13971 and 2307.09288): rotary positions, RMSNorm, a gated MLP, groups of heads."""
from typing import Any

from models.hub.family import MEANINGLESS, ROTATED, Family, Field, Row, layer
from nn.position import parse_scaling

SCALINGS: dict[str, tuple[str, ...]] = {  # of rotary positions, and their numbers in the order of `nn.position.SCALINGS`
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
NEW, OLD = "rope_parameters", "rope_scaling"  # since version 5 of transformers, and before


def fold_scaling(flat: dict[str, Any]) -> dict[str, Any]:
    """Merge a scaling and its numbers into "rope_type", in the format of TransformerConfig.rotary_scaling."""
    flat = dict(flat)
    for place in (NEW, OLD):
        kinds = [flat.pop(f"{place}.{name}", None) for name in ("rope_type", "type")]
        kind = next((kind for kind in kinds if kind is not None), None)
        if kind is None:
            continue
        if not isinstance(kind, str) or kind not in SCALINGS:
            raise ValueError(f"{place}.rope_type is {kind!r}, supported are {', '.join(SCALINGS)}")
        left_out = {"original_max_position_embeddings": flat.get("max_position_embeddings")}
        numbers = [flat.pop(f"{place}.{name}", left_out.get(name)) for name in SCALINGS[kind]]
        flat[f"{place}.rope_type"] = ":".join(map(str, ["none" if kind == "default" else kind, *numbers]))
    return flat


def unfold_scaling(flat: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `fold_scaling`, in the places where old and new versions of transformers look."""
    flat = dict(flat)
    kind, numbers = parse_scaling(flat[f"{NEW}.rope_type"])
    kind = "default" if kind == "none" else kind
    for place in (NEW, OLD) if numbers else (NEW,):
        flat[f"{place}.rope_type"] = kind
        for name, number in zip(SCALINGS[kind], numbers):
            flat[f"{place}.{name}"] = int(number) if name.endswith("embeddings") and number.is_integer() else number
    return flat


LLAMA = Family(
    model_type="llama",
    architecture="LlamaForCausalLM",
    prefix="model.",
    fixed=dict(norm="rms_norm", positions="rotary", placement="pre", final_norm=True, dropout=0.0),
    fields=(
        Field("vocab_size", "vocabulary_size", 32000),
        Field("max_position_embeddings", "context", 2048),
        Field("hidden_size", "width", 4096),
        Field("num_hidden_layers", "layers", 32),
        Field("num_attention_heads", "heads", 32),
        Field("num_key_value_heads", "key_value_heads"),
        Field("head_dim", "head_size"),
        Field("intermediate_size", "hidden_width", 11008),
        Field("hidden_act", "activation", "silu", {"silu": "swiglu", "swish": "swiglu"}),
        Field("rms_norm_eps", "norm_eps", 1e-6),
        Field("attention_bias", "bias", False),
        Field("mlp_bias", "bias", False),
        Field("tie_word_embeddings", "tied", False),
        Field("rope_theta", "rotary_base"),  # here up to version 4 of transformers
        Field("rope_parameters.rope_theta", "rotary_base"),  # from version 5
        Field("rope_scaling.rope_theta", "rotary_base", is_written=False),
        Field("rope_parameters.rope_type", "rotary_scaling"),
        Field("rope_scaling.rope_type", "rotary_scaling", is_written=False),
    ),
    always={"attention_dropout": 0.0},
    if_there={"rope_parameters.partial_rotary_factor": 1.0, "partial_rotary_factor": 1.0, "rope_interleaved": False},
    meaningless=MEANINGLESS | {"pretraining_tp", "is_llama_config", "max_sequence_length"},
    rows=(
        Row("model.embed_tokens.weight", "token_embedding.weight"),
        *layer("model.layers.{}.input_layernorm", "blocks.{}.ln_1."),
        *layer("model.layers.{}.self_attn.q_proj", "blocks.{}.attention.in_proj_", ROTATED, third=0),
        *layer("model.layers.{}.self_attn.k_proj", "blocks.{}.attention.in_proj_", ROTATED, third=1),
        *layer("model.layers.{}.self_attn.v_proj", "blocks.{}.attention.in_proj_", third=2),
        *layer("model.layers.{}.self_attn.o_proj", "blocks.{}.attention.out_proj."),
        *layer("model.layers.{}.post_attention_layernorm", "blocks.{}.ln_2."),
        *layer("model.layers.{}.mlp.gate_proj", "blocks.{}.mlp.gate."),
        *layer("model.layers.{}.mlp.up_proj", "blocks.{}.mlp.expand."),
        *layer("model.layers.{}.mlp.down_proj", "blocks.{}.mlp.project."),
        *layer("model.norm", "ln_f."),
        Row("lm_head.weight", "read_out.weight"),
    ),
    buffers=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",  # the wavelengths, which rope_theta gives
    fold=fold_scaling,
    unfold=unfold_scaling,
)
