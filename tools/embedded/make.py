"""Make the embedded default: `python -m tools.embedded.make OUT_FOLDER`.

It writes a graded corpus, vectors of its words, and a tiny BERT that is pretrained on it, laid out
as on the Hugging Face Hub. The corpus is the same on every machine; vectors and weights are the
same up to floating-point differences.
"""

import re
import string
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.decoders import WordPiece as WordPieceDecoder
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast, PreTrainedTokenizerBase

from tools.embedded.grammar import corpus
from tools.embedded.words import word_vectors

SEED = 0
CORPUS = Path("datasets/harness/graded-sentences")
VECTORS = "vectors.txt"
MODEL = Path("models/tiny-bert")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The special tokens; their numbers are 0 to 4"""
MASK_SHARE = 0.15  # BERT's
PRETRAINING_STEPS, BATCH_SIZE, LEARNING_RATE = 800, 64, 1e-3


def write_corpus(folder: Path, seed: int) -> None:
    """Write sentences, triplets and the two graded sets of this seed into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in corpus(seed).items():
        # newline="\n": the same bytes on Windows, since digests are of bytes.
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def write_model(folder: Path, sentences: list[str], seed: int) -> None:
    """Write a tokenizer of the sentences' words, and an encoder pretrained on the sentences."""
    tokenizer = build_tokenizer(sentences)
    tokenizer.save_pretrained(folder)
    model = untrained(tokenizer, seed)
    for _ in pretraining(model, tokenizer, sentences):
        pass
    model.eval().save_pretrained(folder)


def build_tokenizer(sentences: list[str]) -> PreTrainedTokenizerBase:
    """Build a lower-casing WordPiece tokenizer that knows all words of the sentences."""
    words = set(re.findall(r"\w+", " ".join(sentences).lower()))
    letters = string.ascii_lowercase + string.digits
    # With single characters, any other ASCII word is spelt and does not become [UNK].
    pieces = [*string.punctuation, *letters, *(f"##{letter}" for letter in letters)]
    entries = [*SPECIALS, *pieces, *sorted(words - set(pieces))]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    separator, start = ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    backend.post_processor = processors.BertProcessing(separator, start)
    backend.decoder = WordPieceDecoder()
    return BertTokenizerFast(tokenizer_object=backend, model_max_length=128)


def tiny_bert(vocabulary_size: int) -> BertForMaskedLM:
    """Build an untrained encoder of two layers and half a million weights."""
    return BertForMaskedLM(
        BertConfig(
            vocab_size=vocabulary_size,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=512,
            max_position_embeddings=128,
            pad_token_id=0,
            initializer_range=0.08,  # near hidden_size ** -0.5; BERT's 0.02 is for wider layers
        )
    )


def mask(tokens: Tensor, tokenizer: PreTrainedTokenizerBase) -> tuple[Tensor, Tensor]:
    """Mask tokens (rows, length) as BERT does; returns the corrupted tokens and their labels.

    15% of the words are labelled. Of these, 80% become [MASK], 10% a random token, and 10% stay.
    All other labels are -100, which the loss leaves out.
    """
    chosen = (torch.rand(tokens.shape) < MASK_SHARE) & (tokens >= len(SPECIALS))
    fate = torch.rand(tokens.shape)
    corrupted = tokens.masked_fill(chosen & (fate < 0.8), tokenizer.mask_token_id)
    random_tokens = torch.randint(len(SPECIALS), len(tokenizer), tokens.shape)
    corrupted = torch.where(chosen & (fate >= 0.9), random_tokens, corrupted)
    return corrupted, tokens.masked_fill(~chosen, -100)


def pretraining_losses(
    model: BertForMaskedLM, tokenizer: PreTrainedTokenizerBase, rows: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """The masked-word loss and the summary loss of rows of tokens, in nats per word.

    The summary loss asks [CLS] for all words of its sentence.
    """
    tokens = pad_sequence(rows, batch_first=True)  # [PAD] is 0
    corrupted, labels = mask(tokens, tokenizer)
    outputs = model(input_ids=corrupted, attention_mask=(tokens != 0).long(), labels=labels)
    # In place of BERT's next-sentence prediction: without either, nothing would train [CLS].
    summary = outputs.logits[:, 0].log_softmax(dim=-1).gather(1, tokens)
    return outputs.loss, -summary[tokens >= len(SPECIALS)].mean()


def untrained(tokenizer: PreTrainedTokenizerBase, seed: int) -> BertForMaskedLM:
    """Build the encoder of a seed, which also decides how it is trained."""
    # The last bits of a sum depend on the number of threads, and a seed must give one result.
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return tiny_bert(len(tokenizer))


def pretraining(
    model: BertForMaskedLM, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> Iterator[float]:
    """Train an encoder on the sum of both losses; yields the sum of every step, in nats."""
    rows = [torch.tensor(row) for row in tokenizer(sentences)["input_ids"]]
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, PRETRAINING_STEPS, pct_start=0.1
    )
    for _ in range(PRETRAINING_STEPS):
        batch = torch.randint(len(rows), (BATCH_SIZE,)).tolist()
        losses = pretraining_losses(model, tokenizer, [rows[number] for number in batch])
        optimizer.zero_grad()
        torch.autograd.backward(losses)
        optimizer.step()
        schedule.step()
        yield sum(loss.item() for loss in losses)


def write_default(out_folder: Path) -> None:
    """Write the corpus, its word vectors and the model into `out_folder`."""
    write_corpus(out_folder / CORPUS, SEED)
    sentences = (out_folder / CORPUS / "sentences.txt").read_text(encoding="utf-8").splitlines()
    (out_folder / CORPUS / VECTORS).write_text(
        word_vectors(sentences), encoding="utf-8", newline="\n"
    )
    write_model(out_folder / MODEL, sentences, SEED)


if __name__ == "__main__":
    write_default(Path(sys.argv[1]))
