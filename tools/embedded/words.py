"""Word vectors of the embedded corpus: a truncated SVD of which words occur together."""

import numpy as np

WIDTH = 16


def word_vectors(sentences: list[str]) -> str:
    """The text of a file in GloVe's format: a line for every token, with `WIDTH` numbers.

    The tokens are what white space separates, sorted. The vectors factorise the positive pointwise
    mutual information of two tokens in one sentence. They are the same on every machine up to
    floating-point differences.
    """
    tokens = [set(sentence.split()) for sentence in sentences]
    words = sorted(set().union(*tokens))
    row_of = {word: number for number, word in enumerate(words)}
    present = np.zeros((len(words), len(sentences)))
    for number, sentence in enumerate(tokens):
        present[[row_of[word] for word in sentence], number] = 1
    together = present @ present.T
    alone = together.diagonal()
    # The logarithm of 0, for words that never meet, is cut off with the negative values.
    with np.errstate(divide="ignore"):
        information = np.log(together * len(sentences) / np.outer(alone, alone)).clip(min=0)
    # A word with itself would say no more than how rare it is.
    np.fill_diagonal(information, 0)
    left, strengths, _ = np.linalg.svd(information)
    vectors = left[:, :WIDTH] * np.sqrt(strengths[:WIDTH])
    # An SVD leaves the sign of each column open: the largest number of a column is made positive.
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), range(WIDTH)])
    rows = (" ".join(f"{number:.3f}" for number in row) for row in vectors)
    return "".join(f"{word} {row}\n" for word, row in zip(words, rows, strict=True))
