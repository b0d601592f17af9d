"""The five lecture notes: titles, sources, and headings in order."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Note:
    title: str
    source: str  # if the note says
    sections: dict[str, str]  # {heading as printed: a remark, mostly empty}


def headings(text: str) -> dict[str, str]:
    """{heading: remark} of lines `heading [-- remark]`."""
    rows = (line.strip().partition(" -- ") for line in text.strip().splitlines())
    return {heading: remark for heading, _, remark in rows}


NOTES = {
    "000": Note("Transformers", "lecture notes that follow Turner's introduction (2023) with slight changes of notation; "
                                "tokens are rows, T x D", headings("""
        Transformers -- the opening
        Preliminaries
        Attention
        Self-Attention
        Causal attention -- a box
        Comparison to RNNs -- a box
        Connection to Convolutional Neural Networks (CNNs) -- a box
        Multi-Headed Self-Attention
        Queries, Keys, and Values -- a box
        Token-wise Nonlinearity
        Computational Complexity -- a box
        Residual Connections
        Layer Norm
        Positional Encodings
        Autoregressive Modeling
        Training
        Conclusion
        """)),
    "001": Note("From RNNs to the encoder-decoder", "a summary of lecture 8 of Stanford's CS224n (2023) and its notes on "
                "self-attention; it has no title, and is named after its file; tokens are rows, n x d", headings("""
        Premise
        Issues with Recurrent Models
        Linear Interaction Distance
        Lack of Parallelizability
        Attention: The savior
        Attention -- a link to another text
        Barriers and solutions for self-attention as a building block -- a picture, not in the text
        1. Sequence order
        Learned absolute position representations
        2. Adding non-linearities
        3. Masking the future in self-attention
        Minimal Self-attention architecture -- a picture, not in the text
        The Transformer Model
        The Transformer Decoder
        Masked Multi-head attention
        Hypothetical Example -- a picture, not in the text
        Sequence-Stacked form of attention
        Multi-headed attention
        Scaled Dot Product
        Residual Connections
        Layer Normalization
        Transformer Encoder
        Putting them both together -- a picture, not in the text
        Cross-attention
        Videos -- links
        Problems
        References -- links
        """)),
    "002": Note("Introduction to transformers", "an overview based on Rich Turner's introduction (2023), unfinished; "
                "tokens are columns, D x N", headings("""
        Introduction to transformers -- the opening
        Modelling with tokens
        Transformer block
        Self-attention
        Multi-head self-attention -- breaks off in its first sentence
        Multi-layer perceptron
        Skip connections and normalisation -- empty in the note
        Positional embeddings -- empty in the note
        Putting it together
        Implementation -- empty in the note
        Complementary view: keys, queries and values -- empty in the note
        Extensions -- empty in the note
        Relations to other architectures -- empty in the note
        References -- empty in the note, except for a directive
        """)),
    "003": Note("Deep Learning - Foundations and Concepts, Chapter 12. Transformers", "slides on that chapter of Bishop "
                "and Bishop's book, by nonlineark, March 18, 2025; tokens are rows, N x D", headings("""
        Outline -- empty in the note
        Attention
        Transformer processing
        Attention coefficients
        Self-attention
        Network parameters
        Scaled self-attention
        Multi-head attention
        Transformer layers
        Computational complexity
        Positional encoding
        """)),
    "004": Note("Lecture 7: Transformers", "notes of a lecture of 2021-03-08, which deviate from the textbook Dive into "
                "Deep Learning; tokens are column vectors x_i", headings("""
        Attention Mechanisms and the Transformer -- the title above all sections
        Motivation
        Self-Attention
        Transformers
        Transformers: Wrapup
        """)),
}
