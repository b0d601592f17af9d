"""The step of Hugging Face's transformers: GPT-2 with its cache of keys and values."""
from collections.abc import Callable

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def generation(sizes: dict, count: int) -> Callable[[], list]:
    """`count` sampled tokens after the first one; their number."""
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=sizes["vocabulary_size"], n_positions=sizes["context"], n_embd=sizes["width"],
        n_layer=sizes["layers"], n_head=sizes["heads"], activation_function="gelu", bos_token_id=None,
        eos_token_id=None)).eval()
    prompt = torch.zeros(1, 1, dtype=torch.int64)

    def step() -> list:
        tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, top_k=0, use_cache=True,
                                min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        return [tokens.shape[1] - 1]

    return step
