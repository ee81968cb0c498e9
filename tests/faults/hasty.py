"""harness, which soon takes Ray for lost; its processes spin as long as they wait for it."""

from harness.cli import main
from harness.sweeps.cluster import ray_session

if __name__ == "__main__":
    ray_session.LOST_SECONDS, ray_session.LOOK_SECONDS = 1.0, 0.5
    main()
