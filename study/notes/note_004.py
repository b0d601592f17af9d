"""Note 004: a lecture that comes to transformers from recurrent networks."""
import dataclasses

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.encoder_decoder import PAD, STOP
from models.task import FIRST, Task, inputs_and_targets
from models.tasks import ENGLISH, SENTIMENT, TASKS, TOY
from models.transformer import Block, TransformerConfig
from models.translate import greedy
from nn.position import sine_only
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    EXACT, Spread, check_gradients, choices, fit, influence, largest, matrices, normal, normalised, over_seeds,
    read_out_loss, refusal, require_causal, require_equal, shift_map, softmax, trained,
)
from study.notes.note_003 import PreviousToken, after_training

ATTENTION, POSITIONS, RNN = "nn/attention.py:Attention", "nn/position.py:PositionEncoding", "nn/recurrent.py:RNN"
BLOCK, SEQ2SEQ = "models/transformer.py:Block", "models/recurrent.py:RecurrentSeq2Seq"


def randn(*shape: int, seed: int = 0) -> Tensor:
    """In float64."""
    return mg.tensor(normal(seed, *shape))


def in_two_places(values) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


# ---- Motivation: recurrent networks ----


def recurrent_states(x: np.ndarray, parameters: dict[str, np.ndarray], name: str) -> np.ndarray:
    """(T, inputs) -> (T, hidden), one unit after the other."""
    w_ih, w_hh, b_ih, b_hh = (parameters[part + name] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    states, before = np.zeros((len(x), len(b_ih))), np.zeros(len(b_ih))
    for t in range(len(x)):
        for unit in range(len(b_ih)):
            states[t, unit] = np.tanh(w_ih[unit] @ x[t] + b_ih[unit] + w_hh[unit] @ before + b_hh[unit])
        before = states[t]
    return states


class Reader(nn.Module):
    """A recurrent network that puts out logits (B, T, outputs), for each token that it reads."""

    def __init__(self, symbols: int, outputs: int, width: int = 24, num_layers: int = 1, bidirectional: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.rnn = nn.RNN(width, width, num_layers=num_layers, bidirectional=bidirectional)
        self.out = nn.Linear(width * (1 + bidirectional), outputs)

    def forward(self, tokens):
        return self.out(self.rnn(self.embedding(tokens))[0])


def fibonacci(generator: np.random.Generator, count: int, length: int = 8, modulus: int = 5) -> np.ndarray:
    """Each number is the sum of the two before it, modulo 5."""
    numbers = list(generator.integers(modulus, size=(2, count)))
    while len(numbers) < length:
        numbers.append((numbers[-1] + numbers[-2]) % modulus)
    return np.stack(numbers, axis=1)


@claim("G4", note="004", section="Motivation", formula="next symbol/token prediction, sequence classification",
       ours="nn.RNN(D, D, num_layers=2), then nn.Linear", code=RNN)
def recurrent_networks_put_out_symbols():
    """Recurrent networks of several layers predict the next symbol of a sequence, and classify sequences, from what they
    have seen so far."""
    mg.manual_seed(0)
    layer = nn.RNN(3, 4, num_layers=2).double()
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    below = recurrent_states(x.array[0], parameters, "_l0")
    states, last = layer(x)
    found = max(require_equal(states[0], recurrent_states(below, parameters, "_l1")), require_equal(last[0, 0], below[-1]))
    check_gradients(layer, x)
    require_causal(influence(lambda x: layer(x)[0], x))

    steps, sentiment = 400, TASKS["sentiment"]

    def next_symbols_right(seed):
        model, generator = Reader(5, 5, num_layers=2), np.random.default_rng(seed)
        fit(lambda x: read_out_loss(model(x[:, :-1]), x[:, 1:]), model.parameters(), lambda: (fibonacci(generator, 32),),
            steps, lr=1e-2)
        tested = fibonacci(np.random.default_rng(99), 500)
        return (choices(model, tested[:, :-1]) == tested[:, 1:])[:, 1:].mean()  # the second number cannot be known

    def classes_right(seed):
        model, generator = Reader(sentiment.vocabulary_size, 2, num_layers=2), np.random.default_rng(seed)
        fit(lambda x, y: F.cross_entropy(model(x)[:, -1], y), model.parameters(),
            lambda: sentiment.make(generator, 32, int(generator.integers(4, 9))), steps, lr=1e-2)
        words, classes = sentiment.make(np.random.default_rng(99), 500, 8)
        return (choices(model, words)[:, -1] == classes).mean()

    following, judged = over_seeds(next_symbols_right), over_seeds(classes_right)
    require(min(following.median, judged.median) > 0.95, f"next symbols {following:.0%}, classes {judged:.0%}")
    return (f"two layers are within {found:.0g} of a loop over units, and no state knows the future; after {steps} steps "
            f"they are right in {following:.0%} of the next symbols of sums of the two symbols before, and in {judged:.0%} "
            "of judgements with and without not")


@claim("G32", note="004", section="Motivation",
       verdict="true if a word is written for each word read, or training is short",
       formula="How do you like the weather today? / Wie finden sie das Wetter heute?",
       ours='make_model(TASKS["translation"], "rnn" or "rnn-attention", config)',
       code=f"{SEQ2SEQ}, models/tasks.py:translation")
def recurrent_networks_and_misalignment():
    """Recurrent networks are not amenable to misalignment, another number and order of words in the other language, since
    they put out symbols one after the other, from what they have seen so far."""
    task, steps = TASKS["translation"], 200
    source, target = task.make(np.random.default_rng(99), 500, 3)
    require((source.shape[1], target.shape[1]) == (7, 6), f"{source.shape[1]} words, {target.shape[1]} words")

    def whole_sentences_right(wanted):
        """Of a network that writes a word for each that it reads."""
        def of(seed):
            model, generator = Reader(task.vocabulary_size, task.vocabulary_size, width=48), np.random.default_rng(seed)
            fit(lambda x, y: read_out_loss(model(x), y), model.parameters(),
                lambda: (batch := task.make(generator, 32, 3))[:1] + (wanted(*batch),), 2 * steps, lr=1e-2)
            return (choices(model, source) == wanted(source, target)).all(axis=1).mean()

        return over_seeds(of)

    def of_encoder_and_decoder(name):
        return over_seeds(lambda seed: task.accuracy(trained(
            task, name, TransformerConfig(width=48), steps=steps, batch_size=32, lr=5e-3, seed=seed), 500, length=3))

    aligned = whole_sentences_right(lambda source, target: source)
    misaligned = whole_sentences_right(lambda source, target: np.pad(target, ((0, 0), (0, 1)), constant_values=PAD))
    rnn, attends = of_encoder_and_decoder("rnn"), of_encoder_and_decoder("rnn-attention")
    require(aligned.median > 0.95 and misaligned.median < 0.15, f"aligned {aligned:.0%}, misaligned {misaligned:.0%}")
    require(rnn.median < 0.1 and attends.median > 0.95, f"of the last state {rnn:.0%}, with attention {attends:.0%}")
    return (f"writing a word for each word read, whole sentences are right in {aligned:.0%} if words keep their order, and "
            f"in {misaligned:.0%} if nouns come before adjectives, so that two nouns of four must be guessed (1/16), after "
            f"{2 * steps} steps. With an encoder, and a decoder from its last state, {rnn:.0%} are right after {steps}, "
            f"and {attends:.0%} if the decoder attends to all states; the last state alone suffices after 40,000 steps "
            "(100%, of one run that is not repeated here)")


@claim("L27", note="004", section="Motivation", formula="Attempt 1: model tokens as entire sentences, not words",
       ours="nn.Embedding(10**length, D)", code="nn/embedding.py:Embedding")
def sentences_as_tokens_are_too_many():
    """Tokens could be whole sentences; that is not feasible, as the number of possible sentences soon becomes extremely
    large."""
    task, lengths, count = TASKS["copy"], (2, 4, 6, 8), 100_000
    known = []
    for length in lengths:
        seen, new = (task.make(np.random.default_rng(seed), n, length)[0] for seed, n in ((0, count), (1, 1000)))
        numbers = [(sentences - FIRST) @ 10 ** np.arange(length) for sentences in (seen, new)]
        known.append(float(np.isin(numbers[1], numbers[0]).mean()))
    embedding, bias = nn.Embedding(100, 8), len(task.symbols)
    require(bias == 10 and embedding.weight.shape == (10**2, 8), "sentences of 2 of 10 letters are not 100 tokens")
    require(known[0] == 1 and known[-1] < 0.01, f"known: {known}")
    return (f"of new sentences of {', '.join(map(str, lengths))} letters, {', '.join(f'{part:.0%}' for part in known)} are "
            f"among {count:,} read before; there are 10^8 of 8 letters, each a token with a vector of its own")


@claim("G5", note="004", section="Motivation", formula="Attempt 2: bidirectional RNNs", code=RNN,
       ours="nn.RNN(D, D, bidirectional=True)", also=("001: Transformer Encoder",))
def reading_in_both_directions():
    """Read the sequence forwards and backwards: two sets of hidden states, which are concatenated."""
    mg.manual_seed(0)
    layer, swapped = (nn.RNN(3, 4, bidirectional=True).double() for _ in range(2))
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    forward = recurrent_states(x.array[0], parameters, "_l0")
    backward = recurrent_states(x.array[0, ::-1], parameters, "_l0_reverse")[::-1]
    found = require_equal(layer(x)[0][0], np.hstack([forward, backward]))

    for name, parameter in swapped.named_parameters():
        twin = name.removesuffix("_reverse") if name.endswith("_reverse") else name + "_reverse"
        parameter.data = parameters[twin]
    mirrored = swapped(mg.tensor(x.array[:, ::-1]))[0].array[:, ::-1]
    halves = require_equal(layer(x)[0], np.concatenate([mirrored[..., 4:], mirrored[..., :4]], axis=-1))
    require(influence(lambda x: layer(x)[0], x).all(), "some states do not depend on all inputs")
    check_gradients(layer, x)
    return (f"the states are those of two loops, side by side, within {found:.0g}; of a sequence read backwards by a layer "
            f"with its directions exchanged, the halves are exchanged, within {halves:.0g}")


class Attender(nn.Module):
    """Logits (B, T, outputs) from one layer of attention."""

    def __init__(self, symbols: int, outputs: int, size: int, width: int = 24):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(symbols, width), nn.PositionEncoding("learned", width, size=size)
        self.attention, self.out = nn.Attention(width), nn.Linear(width, outputs)

    def forward(self, tokens):
        return self.out(self.attention(self.positions(self.embedding(tokens))))


@claim("G33", note="004", section="Motivation", verdict="true if training is short",
       formula="This is fine, but still does not capture very long range dependencies.",
       ours="nn.RNN(D, D, bidirectional=True), nn.Attention(D)", code=f"{RNN}, {ATTENTION}")
def both_directions_miss_long_ranges():
    """Recurrent networks that read in both directions still do not capture very long range dependencies."""
    letters, short, far = 4, 500, 16

    def right(length, steps, attends=False):
        """Of the first token, asked at the end, and the last, asked at the beginning; those between are noise."""
        tested = np.random.default_rng(99).integers(letters, size=(500, length))

        def of(seed):
            model = Attender(letters, letters, length) if attends else Reader(letters, letters, bidirectional=True)
            generator = np.random.default_rng(seed)
            fit(lambda x: read_out_loss(model(x)[:, 0 :: length - 1], x[:, [length - 1, 0]]), model.parameters(),
                lambda: (generator.integers(letters, size=(16, length)),), steps, lr=5e-3)
            return (choices(model, tested)[:, [0, -1]] == tested[:, [-1, 0]]).mean()

        return over_seeds(of)

    near, missed, attention = right(4, short), right(far, short), right(far, short, attends=True)
    require(min(near.median, attention.median) > 0.98, f"near {near:.0%}, with attention {attention:.0%}")
    later = right(far, 3 * short)
    require(missed.median < 0.7 and later.median > missed.median + 0.1, f"far {missed:.0%}, later {later:.0%}")
    return (f"asked at one end for the token at the other (chance 25%), after {short} steps they are right in {near:.0%} "
            f"with 4 tokens and in {missed:.0%} with {far}, where attention is in {attention:.0%}; more steps "
            f"help, {later:.0%} after {3 * short}")


LENGTHS = 3, 5, 8, 10  # of letters to be written backwards; those of training end with 8


def reversers(name: str, steps: int) -> list[nn.Module]:
    """Models of five seeds that have learnt to write letters backwards."""
    return [trained(TASKS["reverse"], name, TransformerConfig(width=48), steps=steps, batch_size=32, lr=5e-3, seed=seed)
            for seed in range(5)]


def reversed_right(models: list[nn.Module]) -> list[Spread]:
    """The fraction of sequences without a mistake, for LENGTHS."""
    return [over_seeds(lambda seed, length=length: TASKS["reverse"].accuracy(models[seed], 200, length=length))
            for length in LENGTHS]


def in_percent(fractions: list[Spread]) -> str:
    return "; ".join(f"{fraction:.0%}" for fraction in fractions)


@claim("G6", note="004", section="Motivation", verdict="true if training is short, or sequences longer than in training",
       formula="Attempt 3: low ability of final state to capture overall context",
       ours='make_model(task, "rnn", config)', code=SEQ2SEQ)
def the_last_state_takes_long_to_learn():
    """An encoder's last state is all that the decoder gets; it captures the overall context badly."""
    few, many = 300, 2500
    short, long = (reversed_right(reversers("rnn", steps)) for steps in (few, many))
    require(short[2].median < 0.1 and short[0].median > 0.4, f"after {few} steps right: {in_percent(short)}")
    require(long[2].median > 0.6, f"after {many} steps right: {in_percent(long)}")
    require(long[3].median < 0.4, f"longer than in training, right: {in_percent(long)}")
    return (f"of words of {', '.join(map(str, LENGTHS))} letters, {in_percent(short)} are written backwards without a "
            f"mistake after {few} steps, and {in_percent(long)} after {many}: up to 8, as in training, the last state "
            "learns to hold them, in many times the steps that attention needs (row G7); 10 it does not hold")


@claim("G7", note="004", section="Motivation", formula="Attempt 4: take all intermediate encoder states",
       ours='make_model(task, "rnn-attention", config), model.attention_map(source, inputs)', code=SEQ2SEQ,
       also=("003: Attention", "004: Self-Attention"))
def all_states_and_attention():
    """Keep all states of the encoder, and let the decoder weigh them; the weights show which parts influenced which."""
    steps, length = 400, 8
    models = reversers("rnn-attention", steps)
    right = reversed_right(models)
    source, target = TASKS["reverse"].make(np.random.default_rng(1), 100, length)
    inputs, _ = inputs_and_targets(target)

    def on_the_diagonal(seed):
        where = models[seed].attention_map(mg.tensor(source), mg.tensor(inputs)).argmax(axis=2)[:, :length]
        return (where == np.arange(length)[::-1]).mean()

    diagonal = over_seeds(on_the_diagonal)
    require(min(spread.median for spread in right[:3]) > 0.9, f"right: {in_percent(right)}")
    require(diagonal.median > 0.9, f"on the anti-diagonal: {diagonal:.0%}")
    return (f"of words of {', '.join(map(str, LENGTHS))} letters, {in_percent(right)} are written backwards without a "
            f"mistake after {steps} steps; {diagonal:.0%} of steps look most at the letter they write, the anti-diagonal")


SMALL = TransformerConfig(context=16, layers=1, heads=2, width=48)
DICTIONARY = dict(zip(ENGLISH[1:], (*TOY[4:8], *TOY[:4], *TOY[9:])))  # of adjectives, nouns and verbs


def translated(words: list[str]) -> list[str]:
    """By rule: the article goes, the noun comes before its adjective, and did before the verb."""
    first, second = words[1:3], words[5:]
    return [*(DICTIONARY[word] for word in first[::-1]), TOY[8], DICTIONARY[words[3]],
            *(DICTIONARY[word] for word in second[::-1])]


def words_of(task: Task, ids: np.ndarray) -> list[str]:
    return [task.symbols[i - FIRST] for i in ids if i >= FIRST]


@claim("G9", note="004", section="Motivation", formula="sequence classification; neural machine translation (7 words to 6)",
       ours='make_model(sentiment, "encoder", config), make_model(translation, "encoder-decoder", config)',
       code="models/encoder_decoder.py:Classifier, models/encoder_decoder.py:EncoderDecoder",
       also=("000: Preliminaries", "001: Putting them both together"))
def classification_and_translation():
    """Sequences are classified, and translated to a language with another order and number of words."""
    sentiment, translation, steps = TASKS["sentiment"], TASKS["translation"], 300
    sentences, answers = translation.make(np.random.default_rng(99), 300, 3)
    for source, target in zip(sentences[:50], answers):
        english, toy = words_of(translation, source), words_of(translation, target)
        require((len(english), toy) == (7, translated(english)), f"{' '.join(english)} is not {' '.join(toy)}")
    opinions = {f"film was {no}{word} it": (word in SENTIMENT[1:5]) != bool(no) for no in ("", "not ")
                for word in SENTIMENT[1:9]}

    def judged(seed):
        config = dataclasses.replace(SMALL, positions="relative")
        judge = trained(sentiment, "encoder", config, steps=steps, lr=3e-3, seed=seed)
        answers = (sentiment.answer(judge, sentiment.encode(text)[None], 1)[0] for text in opinions)
        return np.mean([answer == good for answer, good in zip(answers, opinions.values())])

    shorter, _ = translation.make(np.random.default_rng(98), 300, 1)
    padded = np.vstack([sentences, np.pad(shorter, ((0, 0), (0, 2)), constant_values=PAD)])

    def right(seed):
        model = trained(translation, "encoder-decoder", SMALL, steps=steps, lr=3e-3, seed=seed)
        reach = influence(lambda x: model.encoder.double()(x), randn(1, 7, SMALL.width))
        require(reach.all(), "in the encoder, some words do not depend on all others")
        together, alone = (greedy(model.float(), source, 8) for source in (padded, shorter))
        for of_all, its_own in zip(together[len(sentences):], alone):
            require(words_of(translation, of_all) == words_of(translation, its_own), "padding changes a translation")
        return np.mean([words_of(translation, until_stop(ids)) == translated(words_of(translation, source))
                        for ids, source in zip(together, sentences)])

    opinion, sentence = over_seeds(judged), over_seeds(right)
    require(min(opinion.median, sentence.median) > 0.95, f"right: {opinion:.0%} and {sentence:.0%}")
    return (f"after {steps} steps each, an encoder judges {opinion:.0%} of {len(opinions)} sentences rightly, half of them "
            f"with not, and an encoder-decoder translates {sentence:.0%} of those of 7 words to the 6 of a rule; shorter "
            "ones in the same batch, padded, it translates as by themselves")


def until_stop(ids: np.ndarray) -> np.ndarray:
    return ids[: list(ids).index(STOP)] if STOP in ids else ids


# ---- Self-Attention ----


@claim("A46", note="004", section="Self-Attention", ours="nn.Attention(D), nn.RNN(D, D)", code=f"{ATTENTION}, {RNN}",
       formula="In self-attention, we are not limited to tokens/symbols only seen in the past.")
def attention_is_not_limited_to_the_past():
    """Recurrent networks map what they have seen thus far to an output; self-attention maps sets to sets, in which all
    points interact."""
    mg.manual_seed(0)
    x = randn(1, 6, 4)
    rnn, attention = nn.RNN(4, 4).double(), nn.Attention(4).double()
    reach = influence(attention, x)
    require(bool(reach.all()), "some outputs of attention do not depend on all inputs")
    require_causal(influence(lambda x: rnn(x)[0], x))
    return (f"of 36 derivatives of 6 outputs for 6 inputs, all of attention's are there, the least {reach.min():.3f}; of a "
            "recurrent network's the 15 of the future are exactly 0")


@claim("E36", note="004", verdict=FALSE, section="Self-Attention", formula="W_ij = exp w_ij / sum_j exp w_ij",
       ours='nn.Attention(D, query_key="none", scale="none"), weights.softmax(-1)', code=ATTENTION)
def one_index_for_two_keys():
    """The weight of j for i is exp w_ij over the sum over j of exp w_ij, which normalises rows."""
    mg.manual_seed(0)
    x = randn(5, 4)
    layer = nn.Attention(4, query_key="none", value=False, output_projection="none", scale="none").double()
    e = np.exp(x.array @ x.array.T)
    _, weights = layer(x, need_weights=True)
    meant = require_equal(weights[0], e / np.array([[sum(e[i, k] for k in range(5))] for i in range(5)]))
    bound = np.array([sum(e[i, j] / e[i, j] for j in range(5)) for i in range(5)])  # with the sum's j above, too
    require(largest(bound, 5.0) < EXACT, f"sums {bound}")
    return (f"with an index of its own below, sum_k exp w_ik, rows sum to 1, and the layer agrees within {meant:.0g}; as "
            "printed, j is the sum's own and names no key: with the sum around the whole fraction, each row gives 5")


@claim("A22", note="004", section="Self-Attention", verdict="true if there are neither positions nor a causal mask",
       formula="if I permute the order of x, the output of y is exactly the same, but permuted",
       ours='TransformerConfig(positions="none"), Block(config, is_causal=False)', code=f"{ATTENTION}, {BLOCK}",
       also=("000: Positional Encodings", "003: Positional encoding", "004: Transformers: Wrapup"))
def permuted_tokens_give_permuted_features():
    """Self-attention is permutation-equivariant: tokens in another order give the same outputs in that order."""
    order = np.random.default_rng(0).permutation(7)
    x = randn(1, 7, 8)

    def violation(is_causal, kind):
        mg.manual_seed(0)
        block = Block(TransformerConfig(width=8, heads=2), is_causal).double()
        positions = nn.PositionEncoding(kind, 8)
        return largest(block(positions(x[:, order])), block(positions(x))[:, order])

    plain, positioned, causal = violation(False, "none"), violation(False, "sinusoidal"), violation(True, "none")
    require(plain < EXACT, f"a block is not equivariant: {plain:.0g}")
    require(min(positioned, causal) > 0.01, f"with positions {positioned:.0g}, causal {causal:.0g}")
    return (f"a block's outputs are permuted as its inputs are, within {plain:.0g}; not with positions (off by "
            f"{positioned:.2f}), nor with a causal mask ({causal:.2f})")


@claim("A47", note="004", section="Self-Attention", verdict="true if the vectors are learned", formula="w_ij = x_i^T x_j",
       ours='nn.Attention(D, query_key="none", value=False, output_projection="none", scale="none")', code=ATTENTION)
def dot_products_group_similar_words():
    """The dot product is a mechanism that groups similar words, such as the nouns of a sentence, automatically."""
    task, width, steps = TASKS["translation"], 16, 400
    plain = nn.Attention(width, query_key="none", value=False, output_projection="none", scale="none")
    sentences, _ = task.make(np.random.default_rng(99), 300, 3)
    same_kind = np.zeros((7, 7), dtype=bool)  # the adjectives stand at 1 and 5, the nouns at 2 and 6
    same_kind[[1, 5, 2, 6], [5, 1, 6, 2]] = True
    other_kind = ~same_kind & ~np.eye(7, dtype=bool) & ~np.isin(np.arange(7), (0, 4))[:, None]

    def ratio(embedding):
        """How much more weight a noun or adjective gives the other one than a word of another kind."""
        with mg.no_grad():
            weights = plain(embedding(mg.tensor(sentences)), need_weights=True)[1].array[:, 0]
        differ = (sentences[:, 1] != sentences[:, 5]) & (sentences[:, 2] != sentences[:, 6])
        return np.median(weights[differ][:, same_kind]) / np.median(weights[differ][:, other_kind])

    def learned(seed):
        embedding, out = nn.Embedding(task.vocabulary_size, width), nn.Linear(width, task.vocabulary_size)
        generator = np.random.default_rng(seed)

        def loss(x):
            """Of guessing each word from the two beside it, whose vectors are added."""
            e = embedding(x)
            return read_out_loss(out(e[:, :-2] + e[:, 2:]), x[:, 1:-1])

        fit(loss, [*embedding.parameters(), *out.parameters()], lambda: task.make(generator, 32, 3)[:1], steps, lr=1e-2)
        return ratio(embedding)

    random = over_seeds(lambda seed: ratio(nn.Embedding(task.vocabulary_size, width)))
    after = over_seeds(learned)
    require(after.median > 3 and 0.3 < random.median < 3, f"after training {after:.2g}, random {random:.2g}")
    return (f"in sentences of 7 words, a noun gives the other noun, an adjective the other adjective, {after:.2g} times "
            f"the weight of a word of another kind, if vectors were learned in {steps} steps of guessing words from those "
            f"beside them; with random vectors {random:.2g} times")


def attention_of_note(x: np.ndarray, layer: nn.Attention) -> np.ndarray:
    """The note's formulas with its indices, head after head: what W_y is multiplied with, (T, heads * size)."""
    n, d, size = len(x), layer.width, layer.key_size
    heads = []
    for r in range(layer.heads):
        rows = slice(r * size, (r + 1) * size)
        W_q, W_k, W_v = (projection.weight.array[rows] for projection in (layer.query, layer.key, layer.value))
        y = np.zeros((n, size))
        for i in range(n):
            w = np.array([(W_q @ x[i]) @ (W_k @ x[j]) / np.sqrt(d) for j in range(n)])
            W = softmax(w)
            for j in range(n):
                y[i] += W[j] * (W_v @ x[j])
        heads.append(y)
    return np.concatenate(heads, axis=1)


@claim("A9", note="004", section="Self-Attention", code=ATTENTION,
       formula="q_i = W_q x_i, k_i = W_k x_i, v_i = W_v x_i, w_ij = q_i^T k_j / sqrt(d), y_i = sum_j W_ij v_j",
       ours='nn.Attention(d, scale="d_model", output_projection="none")')
def one_head_in_column_vectors():
    """Queries, keys and values are W_q x_i, W_k x_i and W_v x_i; values are weighed with the softmax of q . k over the
    root of d."""
    mg.manual_seed(0)
    layer = nn.Attention(6, scale="d_model", output_projection="none").double()
    x = randn(5, 6)
    found = require_equal(layer(x), attention_of_note(x.array, layer))
    Q, K, V = (x.array @ matrix for matrix in matrices(layer))
    in_rows = require_equal(layer(x), softmax(Q @ K.T / np.sqrt(6)) @ V)
    check_gradients(layer, x)
    return (f"the layer is the formula with its indices within {found:.0g}; tokens as rows take the transposed matrices, "
            f"softmax(Q Kᵀ / sqrt(d)) V, and are within {in_rows:.0g}")


def heads_of_note(each: int) -> nn.Attention:
    """Three heads of so many features, from tokens of 6."""
    mg.manual_seed(0)
    return nn.Attention(6, heads=3, key_size=each, value_size=each, scale="d_model").double()


@claim("A14", note="004", section="Self-Attention", code=ATTENTION,
       verdict="true if heads are as wide as tokens; else sqrt(d) is too much",
       formula="w^r_ij = <q^r_i, k^r_j> / sqrt(d), y_i = W_y concat[y^1_i, y^2_i, ...]",
       ours='nn.Attention(d, heads=h, key_size=d, value_size=d), or nn.Attention(d, heads=h, scale="d_model")')
def heads_whose_size_is_not_given():
    """Each head has three projections of its own, products are divided by the root of d for numerical reasons, and the
    outputs, concatenated, go through one linear layer W_y."""
    x, wide, narrow = randn(5, 6), heads_of_note(6), heads_of_note(2)
    found = 0.0
    for layer in (wide, narrow):
        found = max(found, require_equal(layer(x), attention_of_note(x.array, layer) @ layer.out.weight.array.T))
        check_gradients(layer, x)
    W_y = wide.out.weight.shape
    require(W_y == (6, 18), f"W_y is {W_y}")

    def by_the_root_of_d_k(layer):
        """How far the layer is from one whose scores are divided by sqrt(d_k)."""
        other = nn.Attention(6, heads=3, key_size=layer.key_size, value_size=layer.value_size, scale="d_k").double()
        other.load_state_dict(layer.state_dict())
        return largest(layer(x), other(x)), layer.factor / other.factor

    (same, of_wide), (differs, of_narrow) = by_the_root_of_d_k(wide), by_the_root_of_d_k(narrow)
    require(same == 0 and of_wide == 1, f"heads of width d differ by {same:.0g}")
    require(differs > 1e-4 and abs(of_narrow - 3**-0.5) < EXACT, f"heads of width d / h differ by {differs:.0g}")
    return (f"both readings are the formula within {found:.0g}: matrices of d x d for each of three heads, for which "
            f"sqrt(d) is sqrt(d_k), as in other notes, and W_y 6 x 18; or of d/h x d, for which scores are "
            f"{1 / of_narrow:.2f} times smaller than with sqrt(d_k), and outputs differ by {differs:.0g}")


@claim("E9", note="004", verdict=FALSE, section="Self-Attention", formula="y^r_i = sum_j W^r_ij v_j", code=ATTENTION,
       ours="nn.Attention(d, heads=h): the values of head r are v^r_j")
def values_without_their_head():
    """Head r weighs v_j, a value without the index of a head."""
    x, literal, found = randn(5, 6), {}, 0.0
    for each in (6, 2):
        layer = heads_of_note(each)
        _, weights = layer(x, need_weights=True)
        W, W_y, v = weights.array, layer.out.weight.array, x.array @ layer.value.weight.array.T
        v = v.reshape(5, 3, each)
        own = np.concatenate([W[r] @ v[:, r] for r in range(3)], axis=1) @ W_y.T
        found = max(found, require_equal(layer(x), own))
        literal[each] = largest(layer(x), np.concatenate([W[r] @ v[:, 0] for r in range(3)], axis=1) @ W_y.T)
    require(min(literal.values()) > 0.01, f"one value for all heads differs by {literal}")
    narrow = heads_of_note(2)
    too_wide = refusal(lambda: narrow.out(mg.tensor(np.concatenate([x.array] * 3, axis=1))))
    return (f"v^r_j is defined a line above, and with it both readings of a head's size are the layer's output within "
            f"{found:.0g}; with one v_j for all heads it differs by {literal[6]:.2f} if heads are d wide, and by "
            f"{literal[2]:.2f} if they are d/h wide, where a v_j of width d would not fit W_y: {too_wide}")


@claim("A21", note="004", section="Self-Attention", code=ATTENTION,
       formula="every key in the database is matched to the query to some extent",
       ours='nn.Attention(n, query_key="none", value_size=D, output_projection="none", scale=100.0)',
       also=("003: Self-attention",))
def a_soft_dictionary():
    """Attention looks a query up among keys and returns values, but softly: each key matches to some extent."""
    n, size = 6, 3
    generator = np.random.default_rng(0)
    asked = generator.integers(0, n, 8)
    queries = mg.tensor(np.eye(n)[asked] + 0.3 * generator.random((8, n)))  # the right key is ahead by 0.7 or more
    keys, table = mg.tensor(np.eye(n)), generator.normal(size=(n, size))
    errors = []
    for scale in (1.0, 10.0, 100.0):
        layer = nn.Attention(n, query_key="none", value_size=size, output_projection="none", scale=scale).double()
        layer.value.weight.data = table.T.copy()
        found, weights = layer(queries, keys, need_weights=True)
        errors.append(largest(found, table[asked]))
        require(scale > 1 or weights.array.min() > 0.01, f"a key has weight {weights.array.min():.0g}")
    require(errors[0] > 0.1 and errors[-1] < EXACT, f"errors {errors}")
    return (f"what comes out is {errors[0]:.2f}, {errors[1]:.0g} and {errors[2]:.0g} from the value looked up, for scores "
            "times 1, 10 and 100: the softer, the more of the other values is in it")


@claim("A19", note="004", section="Self-Attention", formula="alpha_ij = W_1 tanh(W_2 [h_i, s_j]), followed by a softmax",
       ours="nn.AdditiveAttention(state_width, context_width, hidden)", code="nn/additive_attention.py:AdditiveAttention",
       also=("003: Attention",))
def alignment_by_a_small_network():
    """Early translators scored how a decoder state and an encoder state match with one hidden layer of tanh on both;
    the softmax of the scores weighs the encoder states."""
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(3, 4, hidden=5).double()
    nn.init.zeros_(layer.state.bias)  # the note has none
    s, h = randn(1, 2, 3), randn(1, 6, 4, seed=1)
    W_1, W_2 = layer.score.weight.array[0], np.hstack([layer.context.weight.array, layer.state.weight.array])
    c, weights = layer(s, h)
    found = 0.0
    for t in range(2):
        scores = np.array([W_1 @ np.tanh(W_2 @ np.concatenate([h.array[0, j], s.array[0, t]])) for j in range(6)])
        alpha = softmax(scores)
        found = max(found, require_equal(weights[0, t], alpha), require_equal(c[0, t], alpha @ h.array[0]))
    check_gradients(layer, s, h)
    return f"W_2 [h, s] is W_h h + W_s s, which is how the layer computes it: both agree within {found:.0g}"


def scores_of(layer: nn.AdditiveAttention, of_row: np.ndarray, of_column: np.ndarray) -> np.ndarray:
    """W_1 tanh(W_2 [h, s]) for each (row, column), of W_2's two parts."""
    return np.tanh(of_row[:, None] + of_column[None]) @ layer.score.weight.array[0]


def alignment(steps: int, states: int = 6):
    """(layer, s, h, W_s s, W_h h)"""
    mg.manual_seed(0)
    layer, s, h = nn.AdditiveAttention(3, 3, hidden=5).double(), randn(1, steps, 3), randn(1, states, 3, seed=1)
    of_s = s.array[0] @ layer.state.weight.array.T + layer.state.bias.array
    return layer, s, h, of_s, h.array[0] @ layer.context.weight.array.T


@claim("E10", note="004", verdict=FALSE, section="Self-Attention", code="nn/additive_attention.py:AdditiveAttention",
       formula="c_i = sum_j alpha_ij h_j, alpha_ij from [h_i, s_j]", ours="nn.AdditiveAttention: alpha_ij from [h_j, s_i]")
def alignment_with_swapped_indices():
    """c_i is the sum over j of alpha_ij h_j, with alpha_ij from [h_i, s_j]."""
    layer, s, h, of_s, of_h = alignment(steps=2)
    found = require_equal(layer(s, h)[0][0], softmax(scores_of(layer, of_s, of_h)) @ h.array[0])
    literal = softmax(scores_of(layer, of_h, of_s))
    require(literal.shape == (6, 2), f"literal weights have shape {literal.shape}")  # which do not multiply 6 states
    layer, s, h, of_s, of_h = alignment(steps=6)
    wrong = largest(layer(s, h)[0][0], softmax(scores_of(layer, of_h, of_s)) @ h.array[0])
    require(wrong > 0.01, f"as printed it differs by {wrong:.0g} only")
    return (f"with [h_j, s_i] it is the layer's output within {found:.0g}; as printed, 2 decoder and 6 encoder states "
            f"give weights of 6 x 2, which do not multiply 6 states, and with 6 of both it differs by {wrong:.2f}")


@claim("E37", note="004", verdict=FALSE, section="Self-Attention", code="nn/additive_attention.py:AdditiveAttention",
       formula="c_i = sum_j alpha_ij h_j, alpha_ij = W_1 tanh(...), followed by a softmax",
       ours="nn.AdditiveAttention(...)(s, h) -> c, weights")
def one_letter_for_scores_and_weights():
    """alpha are the alignment weights of the states, and alpha is what the network gives, before the softmax."""
    layer, s, h, of_s, of_h = alignment(steps=2)
    scores = scores_of(layer, of_s, of_h)
    c, weights = layer(s, h)
    found = require_equal(c[0], softmax(scores) @ h.array[0])
    sums, off = scores.sum(axis=1), largest(c[0], scores @ h.array[0])
    require(largest(weights.sum(-1), 1.0) < EXACT and off > 0.1, f"scores as weights differ by {off:.0g}")
    return (f"with the softmax between the two it is the layer's output within {found:.0g}; one alpha for both, without "
            f"it, has rows that sum to {in_two_places(sums)}, and is off by {off:.2f}")


# ---- Transformers ----


@claim("R6", note="004", section="Transformers", code=BLOCK, ours='TransformerConfig(placement="post_attention_only")',
       formula="self-attention + residual connection, Layer Normalization, standard MLPs, another Layer Normalization")
def the_block_in_words():
    """A block is self-attention with a residual connection, a layer norm, standard MLPs, and another layer norm."""
    mg.manual_seed(0)
    block = Block(TransformerConfig(width=4, heads=2, placement="post_attention_only"), is_causal=False).double()
    x = randn(1, 3, 4)
    y = mg.tensor(normalised(x.array + block.attention(x).array))
    found = require_equal(block(x), normalised(block.mlp(y).array))
    check_gradients(block, x)

    sizes = {}
    for placement in ("post_attention_only", "post"):
        without_mlp = Block(TransformerConfig(width=4, heads=2, placement=placement), is_causal=False).double()
        nn.init.zeros_(without_mlp.mlp.project.weight)
        nn.init.zeros_(without_mlp.mlp.project.bias)
        sizes[placement] = float(without_mlp(x).abs().max().item())
    require(sizes["post_attention_only"] == 0 < sizes["post"], f"largest outputs {sizes}")
    return (f"the block is the words within {found:.0g}; as no residual connection around the MLPs is mentioned, MLPs that "
            f"give out zeros leave nothing of their input, where with that connection {sizes['post']:.2f} is left")


def growth_of_gradients(placement: str, depth: int = 24, seeds: int = 20) -> Spread:
    """How much longer |Jᵀ u| is for `depth` blocks than for one: u is random, and so are all weights, of variance
    1 / inputs."""
    config = TransformerConfig(width=32, heads=1, bias=False, placement=placement)

    def growth(seed):
        blocks = [Block(config, is_causal=False).double() for _ in range(depth)]
        for parameter in (parameter for block in blocks for parameter in block.parameters() if parameter.ndim == 2):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        x, u = randn(1, 16, 32, seed=seed), randn(1, 16, 32, seed=1000 + seed)
        of_one, of_all = (mg.vjp(nn.Sequential(*blocks[:n]), x, u)[1].norm().item() for n in (1, depth))
        return of_all / of_one

    return over_seeds(growth, seeds)


def gradient_of_the_first_token(length: int) -> Spread:
    """The length of the last output's gradient for the first of so many tokens."""
    def gradient(seed):
        layer = nn.Attention(32, causal="mask").double()
        upstream = np.zeros((1, length, 32))
        upstream[0, -1] = normal(1000 + seed, 32)
        _, dx = mg.vjp(layer, randn(1, length, 32, seed=seed), mg.tensor(upstream))
        return dx[0, 0].norm().item()

    return over_seeds(gradient, 20)


@claim("C5", note="004", verdict=FALSE, section="Transformers", code="models/transformer.py:PLACEMENTS",
       formula="no recurrent units. Therefore, gradients do not vanish/explode (by construction)",
       ours='TransformerConfig(placement="post_attention_only", "none", "residual", "post" or "pre")')
def without_recurrence_gradients_may_vanish_or_explode():
    """A transformer has no recurrent units; therefore gradients do not vanish or explode, by construction."""
    placements = {"no residual connection": "none", "residual connections without norms": "residual",
                  "the note's block": "post_attention_only", "post-norm": "post", "pre-norm": "pre"}
    growth = {name: growth_of_gradients(placement) for name, placement in placements.items()}
    nothing, residual, note, post, pre = growth.values()
    require(max(nothing.values) < 1e-5, f"without residual connections {nothing:.2g}")
    require(min(residual.values) > 1e4, f"without norms {residual:.2g}")
    require(0.1 < note.median < 1.5 and 0.2 < post.median < 1.5, f"the note's block {note:.2g}, post-norm {post:.2g}")
    require(2 < pre.median < 12, f"pre-norm {pre:.2g}")

    lengths = (8, 32, 128)
    of_first = [gradient_of_the_first_token(length).median for length in lengths]
    slope = np.polyfit(np.log(lengths), np.log(of_first), 1)[0]
    require(-1.3 < slope < -0.7, f"along the sequence: {of_first}")
    return ("the conclusion does not follow: with 24 random blocks instead of one, the gradient is "
            + "; ".join(f"{spread:.1g} times as long with {name}" for name, spread in growth.items())
            + f". Along a sequence it falls slowly: attention's for the first of {', '.join(map(str, lengths))} tokens is "
            f"{', '.join(f'{length:.2g}' for length in of_first)} long, as 1 / T, since T weights share 1")


# ---- Transformers: Wrapup ----


@claim("A23", note="004", section="Transformers: Wrapup", formula='"Jack gave water to Jill" and "Jill gave water to Jack"',
       ours='nn.PositionEncoding("none" or "sinusoidal", D)', code=f"{POSITIONS}, {BLOCK}")
def jack_and_jill_are_confused():
    """Jack gave water to Jill, Jill gave water to Jack: without positions both sentences have the same features."""
    words = ["Jack", "gave", "water", "to", "Jill"]
    mg.manual_seed(0)
    embedding, block = nn.Embedding(5, 8).double(), Block(TransformerConfig(width=8, heads=2), is_causal=False).double()

    def features(sentence, kind):
        ids = mg.tensor(np.array([[words.index(word) for word in sentence.split()]]))
        x = nn.PositionEncoding(kind, 8)(embedding(ids))
        return dict(zip(sentence.split(), block(x).array[0]))

    differences = {}
    for kind in ("none", "sinusoidal"):
        a, b = features("Jack gave water to Jill", kind), features("Jill gave water to Jack", kind)
        differences[kind] = max(largest(a[word], b[word]) for word in words)
    require(differences["none"] < EXACT, f"without positions they differ by {differences['none']:.0g}")
    require(differences["sinusoidal"] > 0.1, f"with positions they differ by {differences['sinusoidal']:.0g} only")
    plain, positioned = differences.values()
    return (f"each word has the same features in both sentences, within {plain:.0g}; with positions they differ by "
            f"{positioned:.2f}")


@claim("E38", note="004", verdict="false of this note, of 001, or of both", section="Transformers: Wrapup",
       formula="learned ... or just fixed. The latter is typically used; 001: learned: most systems use this today",
       ours='nn.PositionEncoding("learned", D, size=N), nn.PositionEncoding("sinusoidal", D)', code=POSITIONS,
       also=("001: Learned absolute position representations",))
def both_kinds_of_positions_are_the_usual_ones():
    """Vectors of positions are learned or fixed, and the fixed ones are typically used."""
    length, steps = 8, 400

    def loss(kind, size=None):
        return over_seeds(lambda seed: after_training(PreviousToken(8, 16, kind, size=size), seed, length, steps)[1])

    learned, fixed = loss("learned", length), loss("sinusoidal")
    require(max(learned.median, fixed.median) < 0.02, f"learned {learned:.3f}, fixed {fixed:.3f}")
    return ("the two notes say the opposite of each other, and what most systems use is not to be measured here; either "
            f"kind will do: finding the token before is learnt in {steps} steps to a loss of {learned:.4f} with learned "
            f"positions and {fixed:.4f} with fixed ones")


@claim("P6", note="004", section="Transformers: Wrapup", code="nn/position.py:one_hot",
       formula="One-hot encoding the position is possible (although quickly becomes cumbersome)",
       ours='nn.PositionEncoding("one_hot", D, combine="concatenate", position_width=N)')
def one_hot_positions_are_cumbersome():
    """Positions can be one-hot vectors, but that becomes cumbersome quickly."""
    counts, T, width = [], 10, 4
    for size in (10, 100, 1000):
        mg.manual_seed(0)
        one_hot = nn.PositionEncoding("one_hot", width, combine="concatenate", position_width=size)
        layer = nn.Linear(one_hot.out_width, width, bias=False).double()
        counts.append(layer.weight.numel() - width * width)
    require(counts == [40, 400, 4000], f"parameters for positions: {counts}")

    learned = nn.PositionEncoding("learned", width, size=size).double()
    learned.weight.data = layer.weight.array[:, width:].T.copy()
    x, upstream = randn(2, T, width), randn(2, T, width, seed=1)
    by_one_hot, by_table = layer(one_hot(x)), learned(x @ layer.weight.detach()[:, :width].T)
    found = require_equal(by_one_hot, by_table)
    by_one_hot.backward(upstream)
    by_table.backward(upstream)
    gradients = require_equal(layer.weight.grad.array[:, width:].T, learned.weight.grad)
    return (f"the layer after them has {', '.join(map(str, counts))} parameters for 10, 100 and 1000 positions; these are "
            f"no other than a table of learned positions: outputs differ by {found:.0g}, gradients by {gradients:.0g}")


class TokenAndHalf(nn.Module):
    """Two kinds of answers for the two halves of a sequence: the note's block on tokens with positions beside them."""

    def __init__(self, symbols: int, positions: str, factor: float = 1.0, width: int = 16):
        super().__init__()
        features = {"none": 0, "integer": 1, "sinusoidal": 8}[positions]
        self.embedding = nn.Embedding(symbols, width - features)
        self.positions = nn.PositionEncoding(positions, width - features, None, "concatenate", features or None)
        self.factor = np.ones(width, np.float32)
        self.factor[width - features :] = factor
        self.block = Block(TransformerConfig(width=width, heads=2, placement="post_attention_only"), is_causal=False)
        self.out = nn.Linear(width, symbols)

    def forward(self, tokens):
        return self.out(self.block(self.positions(self.embedding(tokens)) * mg.tensor(self.factor)))


@claim("P7", note="004", section="Transformers: Wrapup", code="nn/position.py:integer",
       formula="an integer feature encoding the position is fine too, although we may run into scale/dynamic range issues",
       ours='nn.PositionEncoding("integer", D, combine="concatenate", position_width=1)')
def integer_positions_have_a_scale_problem():
    """An integer feature for the position is fine, but may have problems of scale, as its value becomes very large in long
    sequences."""
    width, T = 16, 1001
    encoding = nn.PositionEncoding("integer", width, combine="concatenate", position_width=1)
    a, b = (encoding(randn(T, width, seed=seed)).array for seed in (1, 2))
    require_equal(a[:, width], np.arange(T))
    likeness = (normalised(a) * normalised(b)).sum(1) / (width + 1)  # of two texts
    require(abs(likeness[0]) < 0.7 and likeness[-1] > 0.99, f"cosines {likeness[[0, -1]]}")

    symbols, short, long, steps = 8, 8, 512, 200

    def loss(positions, length, steps=steps, factor=1.0):
        """Of writing each token of the first half again, and for each of the second half the next in the alphabet."""
        later = np.arange(length) >= length // 2

        def of(seed):
            model, generator = TokenAndHalf(symbols, positions, factor), np.random.default_rng(seed)
            shape = 512 // length, length
            return fit(lambda x, y: read_out_loss(model(x), y), model.parameters(),
                       lambda: (x := generator.integers(symbols, size=shape), (x + later) % symbols), steps, lr=1e-2)

        return over_seeds(of)

    fine, large, later = loss("integer", short), loss("integer", long), loss("integer", long, 2 * steps)
    none, divided, sinusoids = loss("none", long), loss("integer", long, factor=1 / long), loss("sinusoidal", long)
    require(0.6 < none.median < 0.8, f"without positions {none:.2f}")
    require(max(fine.median, sinusoids.median) < 0.02 and divided.median < 0.2, f"short {fine:.3f}, divided {divided:.3f}")
    require(large.median > none.median, f"the integer {large:.2f}, without positions {none:.2f}")
    return (f"after a layer norm, two texts with an integer beside {width} features have the cosine {likeness[0]:.2f} at "
            f"position 0 and {likeness[-1]:.4f} at 1000. After {steps} steps of a task in which the halves of a sequence "
            f"must be told apart, the loss is {fine:.3f} with {short} tokens; with {long} it is {large:.2f} ({later:.2f} "
            f"after {2 * steps} steps), where it is {none:.2f} without positions. It is the scale: the integer over "
            f"{long} gives {divided:.3f}, and sinusoids {sinusoids:.3f}")


def toeplitz_error(table: np.ndarray) -> float:
    """How much p_t . p_s varies where t - s is the same."""
    products = table @ table.T
    return max(float(np.ptp(np.diag(products, k))) for k in range(10))


@claim("P5", note="004", section="Transformers: Wrapup", code="nn/position.py:sine_only",
       formula="p_t = [sin(omega_1 t); sin(omega_2 t); ... sin(omega_d) t], omega_k = 1 / 10000^(k/d)",
       ours='nn.PositionEncoding("sine_only", D)')
def sines_only():
    """Sines of frequencies 10000^(-k/d) are always bounded, and can be had for any t and d."""
    table, pairs = (nn.PositionEncoding(kind, 8).table(50).array for kind in ("sine_only", "sinusoidal"))
    written_out = [[np.sin(t * 1 / 10000 ** (k / 8)) for k in range(1, 9)] for t in range(50)]
    require_equal(table, written_out)
    bound = max(float(np.abs(sine_only(20, d, start=start)).max()) for d in (1, 7, 64) for start in (0, 10**6))
    require(bound <= 1, f"the largest is {bound}")
    maps, grams = ([f(x) for x in (table, pairs)] for f in (lambda x: shift_map(x, 3)[1], toeplitz_error))
    require(maps[0] > 0.1 and grams[0] > 0.1 and maps[1] < 1e-9 > grams[1], f"shifts {maps}, products {grams}")
    return (f"they are, the largest is {bound:.3f}; but without cosines no linear map shifts positions by 3 (off by "
            f"{maps[0]:.2f}, with cosines {maps[1]:.0g}), and products at equal distances vary by {grams[0]:.1f} "
            f"({grams[1]:.0g})")


@claim("E11", note="004", verdict=FALSE, section="Transformers: Wrapup", formula="sin(omega_d) t",
       ours='nn.PositionEncoding("sine_only", D): sin(omega_d t)', code="nn/position.py:sine_only")
def the_last_sine_as_printed():
    """The last feature of a position is sin(omega_d) t, and the values are always bounded."""
    width, omega = 8, 1 / 10000
    t = np.array([0, 100, 10_000, 100_000])
    ours = np.array([nn.PositionEncoding("sine_only", width).table(1, start).array[0, -1] for start in t])
    meant, literal = np.sin(omega * t), np.sin(omega) * t
    require_equal(ours, meant)
    require(largest(meant) <= 1, f"sin(omega_d t) reaches {largest(meant)}")
    require(abs(literal[-1] - 10) < 0.01, f"as printed it is {literal[-1]} at {t[-1]}")
    return (f"at t = 100, 10,000 and 100,000 it is {in_two_places(literal[1:])} as printed, without bound; sin(omega_d t) "
            f"is {in_two_places(meant[1:])}")
