"""A rank of a trial other than rank 0: it computes its share, reports nothing and writes nothing.

It is a program (`harness.processes`), which reads what it is from its first line of input. It ends
when the input ends, because rank 0 has then ended.
"""

import gc
import json
import os
import sys
import threading
import traceback

from harness.errors import Interrupted, reason
from harness.ranks import is_lost
from harness.trials.run import run_trial
from harness.trials.trial import Trial, arrived
from harness.trials.workers import OTHERS_LEFT, RankSpec


def follow(trial: Trial, rank: RankSpec) -> None:
    """Be a rank of the trial until it ends. Raises whatever ends it before its time."""
    with rank.active():
        try:
            run_trial(trial, lambda _: None)
        except Interrupted:  # rank 0 has written the checkpoint
            return


def be_a_rank() -> None:
    """Run as a process of its own, with a line `ready` and then nothing but a reason as output."""
    told = json.loads(sys.stdin.readline())
    # What plugins and libraries print is for people, and goes where messages go.
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    threading.Thread(target=_end_with_rank_0, daemon=True).start()
    try:
        trial, rank = arrived(told["trial"]), RankSpec(**told["rank"])
        gc.freeze()  # the imports are no garbage, and DeepSpeed collects at the start of an engine
        os.write(answers, b"ready\n")
        follow(trial, rank)
    except BaseException as error:
        lost = is_lost(error)
        if not lost:
            os.write(answers, reason(error).encode())
            traceback.print_exc()
        sys.stderr.flush()
        # Python's own end would wait for operations of the group that no rank finishes any more.
        os._exit(OTHERS_LEFT if lost else 1)


def _end_with_rank_0() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    be_a_rank()
