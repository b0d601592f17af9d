"""Published config.json files are read as configs with the published number of parameters."""
import pytest

from models.config import TransformerConfig
from models.hub.families import FAMILIES

LLAMA = dict(norm="rms_norm", activation="swiglu", positions="rotary", bias=False)
PUBLISHED = {  # config.json, the config, and the number of parameters that is published with it
    "GPT-2": ({
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
        "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
        "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
        "summary_use_proj": True, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": 50257,
    }, TransformerConfig(vocabulary_size=50257, context=1024, layers=12, heads=12, width=768, dropout=0.1,
                         activation="gelu_tanh"), 124_439_808),
    "TinyLlama 1.1B": ({
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.31.0.dev0", "use_cache": True, "vocab_size": 32000,
    }, TransformerConfig(vocabulary_size=32000, context=2048, layers=22, heads=32, key_value_heads=4, width=2048,
                         hidden_width=5632, tied=False, **LLAMA), 1_100_048_384),
    "SmolLM2 135M": ({
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
        "intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": True,
        "vocab_size": 49152,
    }, TransformerConfig(vocabulary_size=49152, context=8192, layers=30, heads=9, key_value_heads=3, width=576,
                         hidden_width=1536, rotary_base=100_000.0, **LLAMA), 134_515_008),
    "Llama 3.2 1B": ({
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000,
        "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": True, "vocab_size": 128256,
    }, TransformerConfig(vocabulary_size=128256, context=131072, layers=16, heads=32, key_value_heads=8, width=2048,
                         rotary_base=500_000.0, rotary_scaling="llama3:32.0:1.0:4.0:8192.0", **LLAMA), 1_235_814_400),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs(name):
    given, config, count = PUBLISHED[name]
    family = FAMILIES[given["model_type"]]
    assert family.read_config(given) == config and config.parameter_count() == count
    assert family.misfits(config) == [] and family.read_config(family.write_config(config)) == config


@pytest.mark.parametrize("scaling, numbers", [
    ("none", None), ("linear:3.0", {"rope_type": "linear", "factor": 3.0}),
    ("llama3:32.0:1.0:4.0:8192.0", {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 8192}),
])
def test_rotary_positions_are_written_for_every_version_of_transformers(scaling, numbers):
    """As before version 5."""
    config = TransformerConfig(rotary_scaling=scaling, rotary_base=500.0, tied=False, **LLAMA)
    family = FAMILIES["llama"]
    written = family.write_config(config)
    assert (written["rope_theta"], written.get("rope_scaling")) == (500.0, numbers) and "rope_type" not in written
    assert family.read_config(written) == config
    if "original_max_position_embeddings" in (numbers or {}):  # by default the context
        del written["rope_scaling"]["original_max_position_embeddings"]
        assert family.read_config(written).rotary_scaling == f"llama3:32:1:4:{config.context}"
