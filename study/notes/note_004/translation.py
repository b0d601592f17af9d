"""Note 004, "Motivation": encoders and decoders, and what attention adds."""
import dataclasses
import itertools

import numpy as np

import minigrad as mg
import nn
from models.architectures import make_model
from models.encoder_decoder import PAD, STOP
from models.task import FIRST, Task, inputs_and_targets
from models.tasks import ENGLISH, SENTIMENT, TASKS, TOY
from models.transformer import TransformerConfig
from models.translate import greedy
from study.notes.claims import claims_of, require
from study.notes.helpers import Spread, influence, longest_chain, over_seeds
from study.notes.note_004.shared import SEQ2SEQ, randn
from study.notes.training import of_one_length, trained

claim = claims_of("004")


REVERSE = dataclasses.replace(TASKS["reverse"], lengths=(1, 4))
LENGTHS = 2, 3, 4, 5  # of words to write backwards; in training, up to 4 letters


def reversers(name: str, steps: int) -> list[nn.Module]:
    """Models of five seeds that have learned to write letters backwards."""
    return [trained(REVERSE, name, TransformerConfig(width=48), steps=steps, batch_size=32, lr=5e-3, seed=seed)
            for seed in range(5)]


def reversed_right(models: list[nn.Module]) -> list[Spread]:
    """The fraction of words without a mistake, for LENGTHS."""
    return [over_seeds(lambda seed, length=length: REVERSE.accuracy(models[seed], 200, length=length))
            for length in LENGTHS]


def in_percent(fractions: list[Spread]) -> str:
    return "; ".join(f"{fraction:.0%}" for fraction in fractions)


@claim("G6", "Motivation", "true if training is short, or sequences longer than in training",
       formula="Attempt 3: low ability of final state to capture overall context",
       ours='make_model(task, "rnn", config)', code=SEQ2SEQ)
def the_last_state_takes_long_to_learn():
    """The decoder gets only the encoder's last state, which captures the overall context poorly."""
    few, many = 150, 800
    short, long = (reversed_right(reversers("rnn", steps)) for steps in (few, many))
    require(short[2].median < 0.1 and short[0].median > 0.4, f"after {few} steps right: {in_percent(short)}")
    require(long[2].median > 0.6, f"after {many} steps right: {in_percent(long)}")
    require(long[3].median < 0.4, f"longer than in training, right: {in_percent(long)}")
    return (f"of words of {', '.join(map(str, LENGTHS))} letters, {in_percent(short)} are written backwards without a "
            f"mistake after {few} steps, and {in_percent(long)} after {many}: the last state learns to hold up to 4 "
            "letters, as in training, but takes several times the steps that attention needs (row G7); it does not hold 5")


@claim("G7", "Motivation", formula="Attempt 4: take all intermediate encoder states",
       ours='make_model(task, "rnn-attention", config), model.attention_map(source, inputs)', code=SEQ2SEQ,
       also=("003: Attention", "004: Self-Attention"))
def all_states_and_attention():
    """Keep all states of the encoder, and let the decoder weight them; the weights show which parts influenced which."""
    steps, length = 200, 4
    models = reversers("rnn-attention", steps)
    right = reversed_right(models)
    source, target = REVERSE.make(np.random.default_rng(1), 100, length)
    inputs, _ = inputs_and_targets(target)

    def on_the_diagonal(seed):
        where = models[seed].attention_map(mg.tensor(source), mg.tensor(inputs)).argmax(axis=2)[:, :length]
        return (where == np.arange(length)[::-1]).mean()

    diagonal = over_seeds(on_the_diagonal)
    require(min(spread.median for spread in right[:3]) > 0.9, f"right: {in_percent(right)}")
    require(diagonal.median > 0.9, f"on the anti-diagonal: {diagonal:.0%}")
    return (f"of words of {', '.join(map(str, LENGTHS))} letters, {in_percent(right)} are written backwards without a "
            f"mistake after {steps} steps; {diagonal:.0%} of output steps attend most to the letter that they write: the "
            "anti-diagonal")


SMALL = TransformerConfig(context=16, layers=1, heads=2, width=48)
DICTIONARY = dict(zip(ENGLISH[1:], (*TOY[4:8], *TOY[:4], *TOY[9:])))  # of adjectives, nouns and verbs


def translated(words: list[str]) -> list[str]:
    """By rule: articles are dropped, nouns come before adjectives, and "did" before the verb."""
    first, second = words[1:3], words[5:]
    return [*(DICTIONARY[word] for word in first[::-1]), TOY[8], DICTIONARY[words[3]],
            *(DICTIONARY[word] for word in second[::-1])]


def words_of(task: Task, ids: np.ndarray) -> list[str]:
    """Up to STOP."""
    return [task.symbols[i - FIRST] for i in itertools.takewhile(lambda i: i != STOP, ids) if i >= FIRST]


@claim("G25", "Self-Attention", "true if training is short and its rate small; real translation is not measured",
       formula='"Attention is all you need" ... showed that self-attention is enough',
       ours='make_model(translation, "encoder-decoder" or "rnn-attention", config)',
       code=f"models/encoder_decoder.py:EncoderDecoder, {SEQ2SEQ}", also=("003: Attention",))
def attention_is_enough_without_recurrence():
    """Self-attention is enough, without recurrence. In note 003's words, eliminating the recurrence improves performance
    significantly."""
    task, lengths, chains, right = of_one_length("translation", 3), (2, 4, 8), [], []
    for name in ("encoder-decoder", "rnn-attention"):
        right += [over_seeds(lambda seed, name=name, steps=steps, lr=lr: task.accuracy(trained(
            task, name, SMALL, steps=steps, batch_size=32, lr=lr, warmup_steps=20, seed=seed), 300))
            for steps, lr in ((60, 2e-3), (160, 2e-3), (100, 6e-3))]
        model = make_model(task, name, SMALL, seed=0)
        chains.append([longest_chain(model(*(mg.tensor([[FIRST] * length]) for _ in range(2)))[0]) for length in lengths])
    early, late, fast, early_recurrent, late_recurrent, fast_recurrent = right
    require(early.median > early_recurrent.median + 0.5, f"{early:.0%} and {early_recurrent:.0%} after 60 steps")
    require(min(spread.median for spread in (late, fast, late_recurrent, fast_recurrent)) > 0.95, f"right: {right}")
    require(len(set(chains[0])) == 1 and chains[1][2] - chains[1][1] > 4, f"operations in a row: {chains}")
    in_attention, in_recurrent = (", ".join(map(str, chain)) for chain in chains)
    return (f"after 60 steps at a rate of 0.002, an encoder-decoder without recurrence translates {early:.0%} of "
            f"sentences of 7 words correctly, and recurrent networks with attention {early_recurrent:.0%}; after 160 steps "
            f"it is {late:.0%} and {late_recurrent:.0%}, and after 100 at a rate of 0.006 {fast:.0%} and "
            f"{fast_recurrent:.0%}. For 2, 4, 8 tokens the first takes {in_attention} operations in a row, and the second "
            f"{in_recurrent}")


@claim("G9", "Motivation", formula="sequence classification; neural machine translation (7 words to 6)",
       ours='make_model(sentiment, "encoder", config), make_model(translation, "encoder-decoder", config)',
       code="models/encoder_decoder.py:Classifier, models/encoder_decoder.py:EncoderDecoder",
       also=("000: Preliminaries", "001: Putting them both together"))
def classification_and_translation():
    """Sequences are classified, and translated into a language with another order and number of words."""
    sentiment, translation, steps = TASKS["sentiment"], TASKS["translation"], 200
    sentences, answers = translation.make(np.random.default_rng(99), 300, 3)
    for source, target in zip(sentences[:50], answers):
        english, toy = words_of(translation, source), words_of(translation, target)
        require((len(english), toy) == (7, translated(english)), f"{' '.join(english)} is not {' '.join(toy)}")
    opinions = {f"film was {no}{word} it": (word in SENTIMENT[1:5]) != bool(no) for no in ("", "not ")
                for word in SENTIMENT[1:9]}

    def judged(seed):
        config = dataclasses.replace(SMALL, positions="relative")
        judge = trained(sentiment, "encoder", config, steps=steps, batch_size=32, lr=5e-3, seed=seed)
        answers = (sentiment.answer(judge, sentiment.encode(text)[None], 1)[0] for text in opinions)
        return np.mean([answer == good for answer, good in zip(answers, opinions.values())])

    shorter, _ = translation.make(np.random.default_rng(98), 300, 1)
    padded = np.vstack([sentences, np.pad(shorter, ((0, 0), (0, 2)), constant_values=PAD)])

    def right(seed):
        model = trained(translation, "encoder-decoder", SMALL, steps=steps, batch_size=32, lr=5e-3, seed=seed)
        reach = influence(lambda x: model.encoder.double()(x), randn(1, 7, SMALL.width))
        require(reach.all(), "in the encoder, some words do not depend on all others")
        together, alone = (greedy(model.float(), source, 8) for source in (padded, shorter))
        for of_all, its_own in zip(together[len(sentences):], alone):
            require(words_of(translation, of_all) == words_of(translation, its_own), "padding changes a translation")
        return np.mean([words_of(translation, ids) == translated(words_of(translation, source))
                        for ids, source in zip(together, sentences)])

    opinion, sentence = over_seeds(judged), over_seeds(right)
    require(min(opinion.median, sentence.median) > 0.95, f"right: {opinion:.0%} and {sentence:.0%}")
    return (f"after {steps} steps each, an encoder judges {opinion:.0%} of {len(opinions)} sentences correctly, half of "
            f"them with \"not\", and an encoder-decoder translates {sentence:.0%} of sentences of 7 words into 6 by a "
            "rule; padding shorter ones to the same batch does not change their translations")
