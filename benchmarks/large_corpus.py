"""Peak memory of making word pieces of a large corpus: `python benchmarks/large_corpus.py ENCODER`.

ENCODER is a folder or a name of the Hub. `--items N` makes a smaller corpus, for a first try. The
corpus is made in a temporary folder, and so is the cache. Linux only: it reads /proc.
"""

import argparse
import gzip
import json
import os
import random
import resource
import tempfile
import threading
import time
from pathlib import Path

from harness.data.tokens import load_tokenizer, tokenised

WORDS = ["the", "of", "a", "cat", "house", "tree", "music", "tables", "quickly", "understanding"]


def write(path: Path, items: int) -> None:
    """Write sentences of 19 words, no two alike."""
    generator = random.Random(0)
    with gzip.open(path, "wt", compresslevel=1) as file:
        for item in range(items):
            sentence = f"{' '.join(generator.choices(WORDS, k=18))} {item}"
            file.write(json.dumps({"sentence": sentence}) + "\n")


def own_memory() -> float:
    """MiB of the process that are not files."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def main() -> None:
    """Make the corpus and its word pieces, and print the peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder")
    parser.add_argument("--items", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = f"{folder}/cache"
        corpus = Path(folder) / "corpus.jsonl.gz"
        write(corpus, asked.items)
        tokenizer = load_tokenizer(asked.encoder, ends=False)
        before, began, done = own_memory(), time.process_time(), threading.Event()
        peaks = [before]

        def watch() -> None:
            while not done.wait(0.02):
                peaks.append(max(peaks.pop(), own_memory()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        tokenised(str(corpus), tokenizer).read()
        done.set()
        watcher.join()
        whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{asked.items:,} items: own memory {before:.0f} MiB before, peak {peaks[0]:.0f} MiB; "
            f"with mapped files {whole:.0f} MiB; {time.process_time() - began:.0f} s of processor"
        )


if __name__ == "__main__":
    main()
