"""Before transformers: recurrent networks that read a sequence into a state and write another sequence from it."""
import minigrad as mg
import nn
from minigrad import Tensor
from models.encoder_decoder import PAD, Seq2Seq
from models.config import TransformerConfig, refuse
from typing import Any


class RecurrentSeq2Seq(Seq2Seq):
    """A recurrent encoder and a recurrent decoder.

    With `attends=False` the decoder starts from the encoder's last state, and knows nothing else of the source (Sutskever
    et al., arXiv:1409.3215). Otherwise it attends to all of the encoder's states at each step, by additive attention
    (Bahdanau et al., arXiv:1409.0473), and the encoder is bidirectional.

        s_t = tanh(W [input_t, c_{t-1}] + U s_{t-1} + b),   c_t = attention of s_t to the encoder's states,
        logits_t = W_o [s_t, c_t]

    >>> model = RecurrentSeq2Seq(TransformerConfig(vocabulary_size=13, width=16), attends=True)
    >>> model(mg.full((2, 5), 3, dtype=mg.int64), mg.full((2, 4), 3, dtype=mg.int64))[0].shape
    (2, 4, 13)
    """

    def __init__(self, config: TransformerConfig, attends: bool):
        super().__init__()
        refuse(config, "a recurrent network", "norm", "norm_eps", "key_value_heads", "head_size", "hidden_width", "tied",
               "rotary_base", "rotary_scaling")
        self.config = config
        self.attends = attends
        C = config.width
        self.source_embedding: nn.Embedding = nn.Embedding(config.vocabulary_size, C)
        self.target_embedding: nn.Embedding = nn.Embedding(config.vocabulary_size, C)
        self.encoder: nn.RNN = nn.RNN(C, C, batch_first=True, bidirectional=attends)
        self.decoder: nn.RNN = nn.RNN(3 * C if attends else C, C, batch_first=True)
        if attends:
            self.first_state: nn.Linear = nn.Linear(2 * C, C, activation="tanh")
            self.attention: nn.AdditiveAttention = nn.AdditiveAttention(C, 2 * C, hidden=C)
        self.out: nn.Linear = nn.Linear(3 * C if attends else C, config.vocabulary_size)
        self.to(config.dtype)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """(all states, the decoder's first state (1, B, C))"""
        states, last = self.encoder(self.source_embedding(source), padding=source == PAD)
        if not self.attends:
            return states, last
        return states, self.first_state(mg.cat([last[0], last[1]], dim=-1))[None]

    def decode(self, memory: Any, padding: Tensor, inputs: Tensor) -> Tensor:
        states, s = memory
        x = self.target_embedding(inputs)
        if not self.attends:
            return self.out(self.decoder(x, s)[0])
        c, _ = self.attention(s[0][:, None], states, padding)
        outputs = []
        for t in range(inputs.shape[1]):
            out, s = self.decoder(mg.cat([x[:, t : t + 1], c], dim=-1), s)
            c, _ = self.attention(out, states, padding)
            outputs.append(mg.cat([out, c], dim=-1))
        return self.out(mg.cat(outputs, dim=1))
