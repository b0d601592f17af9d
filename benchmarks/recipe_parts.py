"""Parts of recipes that no config has: functions that put them into a model before training."""
import nn
import nn.functional as F
from minigrad import Tensor
from models import CausalTransformer
from models.transformer import MLP

OUTPUTS = "attention.out_proj.weight", "mlp.project.weight"  # they write to the residual stream


class SquaredReLUMLP(MLP):
    """project(relu(expand(x))^2) (So et al., arXiv:2109.08668), of a config whose activation is relu."""

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.expand(x).square())


class NormedAttention(nn.MultiHeadAttention):
    """Self-attention whose queries and keys have a root mean square of 1 in each head (Henry et al., arXiv:2010.04245)."""

    def forward(self, query: Tensor, is_causal: bool = False, **masks: None) -> Tensor:
        q, k, v = self.project(query, query, query)
        q, k = (F.rms_norm(x, x.shape[-1:]) for x in (q, k))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, rotation=self._rotation(query))
        return self.out_proj(out.transpose(1, 2).reshape(query.shape))


def square_relu(model: CausalTransformer) -> None:
    for block in model.blocks:
        block.mlp = with_weights_of(block.mlp, SquaredReLUMLP(model.config))


def norm_queries_and_keys(model: CausalTransformer) -> None:
    config = model.config
    for block in model.blocks:
        block.attention = with_weights_of(block.attention, NormedAttention(
            config.width, config.heads, bias=config.bias, positions=config.positions))


def begin_at_zero(model: CausalTransformer) -> None:
    """Each block adds nothing at first (Zhang et al., arXiv:1901.09321)."""
    for name, parameter in model.named_parameters():
        if name.endswith(OUTPUTS):
            nn.init.zeros_(parameter)


def with_weights_of(layer: nn.Module, other: nn.Module) -> nn.Module:
    other.load_state_dict(layer.state_dict())
    return other
