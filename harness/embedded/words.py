"""Word vectors of the embedded corpus: a truncated SVD of which words meet in a sentence."""

import numpy as np

WIDTH = 16


def word_vectors(sentences: list[str]) -> str:
    """A file in GloVe's format: a line for every whitespace token, sorted, with WIDTH numbers.

    The tokens' positive pointwise mutual information is factorised; each column's largest number is positive, so that
    the result is the same on every machine but for floating-point differences.
    """
    tokens = [set(sentence.split()) for sentence in sentences]
    words = sorted(set().union(*tokens))
    place = {word: number for number, word in enumerate(words)}
    present = np.zeros((len(words), len(sentences)))
    for number, sentence in enumerate(tokens):
        present[[place[word] for word in sentence], number] = 1
    together = present @ present.T
    alone = together.diagonal()
    with np.errstate(divide="ignore"):
        information = np.log(together * len(sentences) / np.outer(alone, alone)).clip(min=0)
    np.fill_diagonal(information, 0)
    left, strengths, _ = np.linalg.svd(information)
    vectors = left[:, :WIDTH] * np.sqrt(strengths[:WIDTH])
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), range(WIDTH)])
    rows = (" ".join(f"{number:.3f}" for number in row) for row in vectors)
    return "".join(f"{word} {row}\n" for word, row in zip(words, rows, strict=True))
