"""What share of training the STS-B dev evaluation takes: unsupervised SimCSE at the paper's interval for BERT base.

125 updates of 64 sentences (both views), then one evaluation, as harness.execute does them; processor seconds, so that
other work on the machine matters less. Needs HARNESS_HUB.

    python benchmarks/evaluation/dev_share.py [--encoder mini-bert] [--rounds 2] [--threads 1] [--precision auto]
"""

import argparse
import time
from statistics import median

import torch

from harness import registry
from harness.evaluation.embedding import Embedder
from harness.evaluation.suites import suite
from harness.kit import Kit
from harness.training.loop import Trainer
from harness.training.reproducibility import device, resolve_precision, seed_everything
from harness.trial import resolve

INTERVAL, BATCH = 125, 64
"""baselines.md, section 2: SimCSE's released script for BERT base"""


def main() -> None:
    """Print seconds of both, and the share, round by round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="mini-bert")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plugin = registry.load("simcse")
    values = {"encoder": options.encoder, "batch_size": BATCH, "precision": options.precision}
    config = resolve(plugin, values | {"max_steps": INTERVAL, "evaluation_interval": 2 * INTERVAL})
    seed_everything(0)
    kit = Kit(plugin, config, device())
    kit.build_shared()
    method = plugin.method(config, kit).to(kit.device)
    embedder, sts = Embedder(method, kit), suite("sts")
    sts.score_dev(embedder)  # tokenised once per trial
    rounded = resolve_precision(config.precision, kit.device) == "bf16"
    shares = []
    for _ in range(options.rounds):
        seconds = [0.0, 0.0]
        spent = time.process_time()
        Trainer(method, kit, 0, evaluate=lambda: 0.0, report=lambda _: None).run()
        seconds[0] = time.process_time() - spent
        spent = time.process_time()
        with torch.autocast(kit.device.type, torch.bfloat16, enabled=rounded):
            sts.score_dev(embedder)
        seconds[1] = time.process_time() - spent
        shares.append(100 * seconds[1] / sum(seconds))
        print(f"training {seconds[0]:.1f} s, evaluation {seconds[1]:.2f} s, share {shares[-1]:.1f} %", flush=True)
    print(f"median share {median(shares):.1f} %")


if __name__ == "__main__":
    main()
