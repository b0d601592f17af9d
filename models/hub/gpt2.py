"""GPT-2 (Radford et al., 2019): learned positions, layer norm before each sublayer, biases everywhere."""
from models.hub.family import MEANINGLESS, TRANSPOSED, Family, Field, Row, layer

GPT2 = Family(
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    fixed=dict(norm="layer_norm", positions="learned", placement="pre", final_norm=True, bias=True),
    fields=(
        Field("vocab_size", "vocabulary_size", 50257),
        Field("n_positions", "context", 1024),
        Field("n_embd", "width", 768),
        Field("n_layer", "layers", 12),
        Field("n_head", "heads", 12),
        Field("n_inner", "hidden_width"),
        Field("activation_function", "activation", "gelu_new", {
            "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu": "gelu",
            "relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "silu": "silu", "swish": "silu"}),
        Field("resid_pdrop", "dropout", 0.1),
        Field("embd_pdrop", "dropout", 0.1),
        Field("attn_pdrop", "dropout", 0.1),
        Field("layer_norm_epsilon", "norm_eps", 1e-5),
        Field("tie_word_embeddings", "tied", True),
    ),
    always={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    if_there={},
    meaningless=MEANINGLESS | {
        "reorder_and_upcast_attn",  # the order of a product and a scale, for sums in float16
        "n_special", "predict_special_tokens",  # of the first versions
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"},
    rows=(
        Row("transformer.wte.weight", "token_embedding.weight"),
        Row("transformer.wpe.weight", "position_embedding.weight"),
        *layer("transformer.h.{}.ln_1", "blocks.{}.ln_1."),
        *layer("transformer.h.{}.attn.c_attn", "blocks.{}.attention.in_proj_", TRANSPOSED),
        *layer("transformer.h.{}.attn.c_proj", "blocks.{}.attention.out_proj.", TRANSPOSED),
        *layer("transformer.h.{}.ln_2", "blocks.{}.ln_2."),
        *layer("transformer.h.{}.mlp.c_fc", "blocks.{}.mlp.expand.", TRANSPOSED),
        *layer("transformer.h.{}.mlp.c_proj", "blocks.{}.mlp.project.", TRANSPOSED),
        *layer("transformer.ln_f", "ln_f."),
        Row("lm_head.weight", "read_out.weight"),
    ),
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",  # the causal mask
)
