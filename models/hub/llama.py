"""Llama (Touvron et al., arXiv:2302.13971 and 2307.09288): rotary positions, RMSNorm, a gated MLP, groups of heads."""
from models.hub.family import MEANINGLESS, ROTATED, Family, Field, Row, layer

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
        Field("num_key_value_heads", "groups"),
        Field("head_dim", "head_width"),
        Field("intermediate_size", "hidden", 11008),
        Field("hidden_act", "activation", "silu", {"silu": "swiglu", "swish": "swiglu"}),
        Field("rms_norm_eps", "norm_eps", 1e-6),
        Field("attention_bias", "bias", False),
        Field("mlp_bias", "bias", False),
        Field("tie_word_embeddings", "tied", False),
        Field("rope_theta", "rotary_base"),  # here up to version 4 of transformers
        Field("rope_parameters.rope_theta", "rotary_base"),  # from version 5
        Field("rope_scaling.rope_theta", "rotary_base", is_written=False),
    ),
    always={"rope_parameters.rope_type": "default", "attention_dropout": 0.0},
    if_there={"rope_parameters.type": "default", "rope_scaling.rope_type": "default", "rope_scaling.type": "default",
              "rope_parameters.partial_rotary_factor": 1.0, "partial_rotary_factor": 1.0, "rope_interleaved": False},
    meaningless=MEANINGLESS | {"pretraining_tp", "is_llama_config"},
    rows=(
        Row("model.embed_tokens.weight", "token_embedding.weight"),
        *layer("model.layers.{}.input_layernorm", "blocks.{}.ln_1"),
        *layer("model.layers.{}.self_attn.q_proj", "blocks.{}.attention.query", ROTATED),
        *layer("model.layers.{}.self_attn.k_proj", "blocks.{}.attention.key", ROTATED),
        *layer("model.layers.{}.self_attn.v_proj", "blocks.{}.attention.value"),
        *layer("model.layers.{}.self_attn.o_proj", "blocks.{}.attention.out"),
        *layer("model.layers.{}.post_attention_layernorm", "blocks.{}.ln_2"),
        *layer("model.layers.{}.mlp.gate_proj", "blocks.{}.mlp.gate"),
        *layer("model.layers.{}.mlp.up_proj", "blocks.{}.mlp.expand"),
        *layer("model.layers.{}.mlp.down_proj", "blocks.{}.mlp.project"),
        *layer("model.norm", "ln_f"),
        Row("lm_head.weight", "read_out.weight"),
    ),
    buffers=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",  # the wavelengths, which rope_theta gives
)
