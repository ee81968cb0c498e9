"""harness, which soon takes Ray for lost; its processes spin as long as they wait for it.

When Ray's core still lives at its end, it complains there as the core does on a busy machine.
"""

import os

import ray

from harness.cli import main
from harness.sweeps.cluster import ray_session

if __name__ == "__main__":
    ray_session.LOST_SECONDS, ray_session.LOOK_SECONDS = 1.0, 0.5
    try:
        main()
    finally:
        if ray.is_initialized():
            os.write(2, b"Failed to connect to GCS\n")
