"""Sabotages of what the claims of note 004 are about: each has to turn its claim red."""
from models.architectures import ARCHITECTURES
from models.transformer import PLACEMENTS
from sabotage.edit import of_claim, of_claims
from sabotage.note_003 import (
    ATTENTION, HEADS_FROM_THE_LAST, NO_RESIDUAL, NOT_ADDED, ONE_HEAD_FOR_ALL, UNIFORM, VALUES_NOT_PROJECTED,
)

ADDITIVE, RNN = "nn.additive_attention:AdditiveAttention.forward", "nn.recurrent:RNN"
FROM_THE_END = f"{RNN}._run", 'reversed(times) if name.endswith("_reverse") else times', "reversed(times)"
STATE_LOST = f"{RNN}._run", "b_hh if h is None else", "b_hh if True else"
ONE_DIRECTION = f"{RNN}._run", 'reversed(times) if name.endswith("_reverse") else times', "times"
LOOKS_AT_ALL_ALIKE = ADDITIVE, "weights = scores.softmax(-1)", "weights = (0 * scores).softmax(-1)"
KERNEL_LOOKS_AT_ALL_ALIKE = f"{ATTENTION}.forward", "dropout, is_causal, self.factor,", "dropout, is_causal, 0.0,"
CAUSAL_ATTENTION = f"{ATTENTION}.forward", 'self.causal == "mask" and mask is None', "True"
CAUSAL_BLOCK = "models.transformer:Block._attend", "is_causal=self.is_causal", "is_causal=True"
SAME_ORDER = ("models.tasks:translation", "target += [nouns[:, i]] + [4 + adjectives[:, i]] * is_described",
              "target += [4 + adjectives[:, i]] * is_described + [nouns[:, i]]")


def swapped(table: dict, a: str, b: str):
    """What exchanges two entries of a table."""
    return lambda: table.update({a: table[b], b: table[a]})


SABOTAGES = [
    *of_claims("004", {
        "G4": {
            "the first state is ignored": ("nn.recurrent:RNN.forward", "None if h_0 is None else h_0[len(last)]", "None"),
            "a recurrent network forgets": STATE_LOST,
            "it reads from the end": FROM_THE_END,
        },
        "G32": {
            "a recurrent network reads from the end": FROM_THE_END,
            "additive attention looks at all alike": LOOKS_AT_ALL_ALIKE,
        },
        "L27": {
            "all letters are one": ("models.tasks:random_letters", "(count, length))", "(count, 1)).repeat(length, axis=1)"),
        },
        "G5": {
            "both directions are one": ONE_DIRECTION,
            "states stand in the order of reading": (f"{RNN}.forward", "states[::-1] if direction else states", "states"),
        },
        "G33": {
            "a recurrent network forgets": STATE_LOST,
            "attention looks at all alike": KERNEL_LOOKS_AT_ALL_ALIKE,
        },
        "G6": {
            "a recurrent network forgets": STATE_LOST,
        },
        "G7": {
            "additive attention looks at all alike": LOOKS_AT_ALL_ALIKE,
            "the map is of the first step": ("models.recurrent:RecurrentSeq2Seq.decode", "self.attention(out, states, padding)",
                                             "self.attention(0 * out, states, padding)"),
        },
        "G9": {
            "the encoder's blocks are skipped": ("models.encoder_decoder:Encoder.forward", "for block in self.blocks:",
                                                 "for block in []:"),
            "words keep their order": SAME_ORDER,
            "not has no effect": ("models.tasks:sentiment", "is_good ^ is_negated", "is_good"),
            "the encoder sees padding": ("models.encoder_decoder:EncoderDecoder.encode", "source == PAD", "source != source"),
            "the decoder sees padding": ("models.translate:greedy", "source == PAD", "source != source"),
        },
        "A46": {
            "attention is causal": CAUSAL_ATTENTION,
            "a recurrent network forgets": STATE_LOST,
        },
        "E36": {
            "columns sum to 1": ("nn.functional.attention:attention_weights", "return scores.softmax(-1)",
                                 "return scores.softmax(-2)"),
        },
        "A22": {
            "a block is causal": CAUSAL_BLOCK,
            "positions are not added": NOT_ADDED,
        },
        "A47": {
            "weights are uniform": UNIFORM,
            "word vectors are not learned": ("nn.embedding:Embedding.forward", "self.weight,", "self.weight.detach(),"),
        },
        "A9": {
            "the factor for d_model is 1": (f"{ATTENTION}._factor", "1 / math.sqrt(self.width)", "1.0"),
            "values are not projected": VALUES_NOT_PROJECTED,
        },
        "A14": {
            "the factor for d_model is that for d_k": (f"{ATTENTION}._factor", "1 / math.sqrt(self.width)",
                                                       "1 / math.sqrt(self.key_size)"),
            "the factor for d_k is that for d_model": (f"{ATTENTION}._factor", "1 / math.sqrt(self.key_size)",
                                                       "1 / math.sqrt(self.width)"),
            "heads from the last to the first": HEADS_FROM_THE_LAST,
        },
        "E9": {
            "all heads are the first": ONE_HEAD_FOR_ALL,
            "heads from the last to the first": HEADS_FROM_THE_LAST,
        },
        "A21": {
            "a number as scale is ignored": (f"{ATTENTION}._factor", "else float(scale)", "else 1.0"),
            "the best key alone is seen": (f"{ATTENTION}._factor", "else float(scale)", "else 1000.0"),
        },
        "A19": {
            "padding is seen": (ADDITIVE, "scores.masked_fill(key_padding_mask[:, None], -math.inf)", "scores"),
            "no tanh": (ADDITIVE, "together.tanh()", "together"),
            "weights do not sum to 1": (ADDITIVE, "weights = scores.softmax(-1)", "weights = scores"),
        },
        "E10": {
            "the state is subtracted": (ADDITIVE, "self.state(s)[:, :, None] +", "-self.state(s)[:, :, None] +"),
        },
        "E37": {
            "weights do not sum to 1": (ADDITIVE, "weights = scores.softmax(-1)", "weights = scores"),
        },
        "R6": {
            "no residual connection": NO_RESIDUAL,
            "no norm after": ("models.transformer:Block._add", "norm(out) if sublayer.norm_after else out", "out"),
        },
        "C5": {
            "no residual connection": NO_RESIDUAL,
            "no norm after": ("models.transformer:Block._add", "norm(out) if sublayer.norm_after else out", "out"),
        },
        "A23": {
            "a block is causal": CAUSAL_BLOCK,
            "positions are not added": NOT_ADDED,
        },
        "E38": {
            "positions are not added": NOT_ADDED,
            "learned positions are one": ("nn.position:PositionEncoding.table", "self.weight[start : start + T]",
                                          "self.weight[:1].expand(T, self.position_width)"),
        },
        "P6": {
            "one-hot positions are all ones": ("nn.position:one_hot", "np.eye(start + T, D)[start:]", "np.ones((T, D))"),
        },
        "P7": {
            "integers start with 1": ("nn.position:integer", "np.arange(start, start + T, dtype=float)",
                                      "np.arange(start + 1, start + T + 1, dtype=float)"),
            "integers are bounded": ("nn.position:integer", "np.arange(start, start + T, dtype=float)",
                                     "(np.arange(start, start + T, dtype=float) % 8)"),
        },
        "P5": {
            "sines are cosines": ("nn.position:sine_only", "np.sin(", "np.cos("),
            "frequencies start with 1": ("nn.position:sine_only", "np.arange(1, D + 1)", "np.arange(D)"),
        },
        "E11": {
            "positions start with 0 anywhere": ("nn.position:sine_only", "np.arange(start, start + T)", "np.arange(T)"),
            "frequencies start with 1": ("nn.position:sine_only", "np.arange(1, D + 1)", "np.arange(D)"),
        },
    }),
    of_claim("004", "C5", "post and pre are exchanged", swapped(PLACEMENTS, "post", "pre")),
    of_claim("004", "R6", "MLPs have a residual connection", swapped(PLACEMENTS, "post", "post_attention_only")),
    of_claim("004", "G6", "the last state attends", swapped(ARCHITECTURES["sequence"], "rnn", "rnn-attention")),
    of_claim("004", "G7", "attention is left out", swapped(ARCHITECTURES["sequence"], "rnn", "rnn-attention")),
    of_claim("004", "G32", "attention is left out", swapped(ARCHITECTURES["sequence"], "rnn", "rnn-attention")),
]
