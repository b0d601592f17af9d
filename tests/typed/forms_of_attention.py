"""Layers and their variants, by what they count and return."""
import minigrad as mg
import nn
from minigrad import Tensor

attention = nn.MultiHeadAttention(8, 2, key_value_heads=1, window=3, positions="rotary")
with mg.count_flops() as count:
    y, weights = attention(mg.randn(1, 5, 8), need_weights=True, is_causal=True)
multiplications: int = count.total

layer = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
tokens = mg.randn(3, 5, 8)
out, maps = layer(tokens, tokens, tokens)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), num_layers=2, norm=nn.LayerNorm(8))
padding = mg.zeros(3, 5, dtype=mg.bool)
encoded: Tensor = encoder(tokens, src_key_padding_mask=padding)
states, last = nn.RNN(8, 4, batch_first=True)(encoded)
print(multiplications, y.shape, weights.shape, out.shape, maps.shape, states.shape, last.shape, layer)
