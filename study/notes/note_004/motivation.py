"""Note 004, "Motivation": recurrent networks."""
import dataclasses

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.encoder_decoder import PAD, STOP
from models.task import FIRST, Task, inputs_and_targets
from models.tasks import ENGLISH, SENTIMENT, TASKS, TOY
from models.transformer import TransformerConfig
from models.translate import greedy
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    Spread, check_gradients, choices, fit, influence, over_seeds, read_out_loss, require_causal, require_equal, trained,
)
from study.notes.note_004.shared import ATTENTION, RNN, SEQ2SEQ, randn

claim = claims_of("004")


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
        self.rnn = nn.RNN(width, width, num_layers=num_layers, batch_first=True, bidirectional=bidirectional)
        self.out = nn.Linear(width * (1 + bidirectional), outputs)

    def forward(self, tokens):
        return self.out(self.rnn(self.embedding(tokens))[0])


def fibonacci(generator: np.random.Generator, count: int, length: int = 8, modulus: int = 5) -> np.ndarray:
    """Each number is the sum of the two before it, modulo 5."""
    numbers = list(generator.integers(modulus, size=(2, count)))
    while len(numbers) < length:
        numbers.append((numbers[-1] + numbers[-2]) % modulus)
    return np.stack(numbers, axis=1)


@claim("G4", "Motivation", formula="next symbol/token prediction, sequence classification",
       ours="nn.RNN(D, D, num_layers=2), then nn.Linear", code=RNN)
def recurrent_networks_put_out_symbols():
    """Recurrent networks of several layers predict the next symbol of a sequence, and classify sequences, from what they
    have seen so far."""
    mg.manual_seed(0)
    layer = nn.RNN(3, 4, num_layers=2, batch_first=True).double()
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    below = recurrent_states(x.array[0], parameters, "_l0")
    states, last = layer(x)
    found = max(require_equal(states[0], recurrent_states(below, parameters, "_l1")), require_equal(last[0, 0], below[-1]))
    _, state = layer(x[:, :3])
    require_equal(layer(x[:, 3:], state)[0], states[:, 3:])  # it goes on from what it has seen
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


@claim("G32", "Motivation", "true if a word is written for each word read, or training is short",
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


@claim("L27", "Motivation", formula="Attempt 1: model tokens as entire sentences, not words",
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


@claim("G5", "Motivation", formula="Attempt 2: bidirectional RNNs", ours="nn.RNN(D, D, bidirectional=True)", code=RNN,
       also=("001: Transformer Encoder",))
def reading_in_both_directions():
    """Read the sequence forwards and backwards: two sets of hidden states, which are concatenated."""
    mg.manual_seed(0)
    layer, swapped = (nn.RNN(3, 4, batch_first=True, bidirectional=True).double() for _ in range(2))
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


@claim("G33", "Motivation", "true if training is short",
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


@claim("G6", "Motivation", "true if training is short, or sequences longer than in training",
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


@claim("G7", "Motivation", formula="Attempt 4: take all intermediate encoder states",
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


@claim("G9", "Motivation", formula="sequence classification; neural machine translation (7 words to 6)",
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
