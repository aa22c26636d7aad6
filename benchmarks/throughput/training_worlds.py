"""Speed of PPO on SimpleSpread by number of worlds: `python -m benchmarks.throughput.training_worlds`.

Both engines and JAX on JaxMARL use all cores and take turns. Prints medians of environment steps per second.
"""

from __future__ import annotations

import argparse
import contextlib

from benchmarks.hardware.provenance import THREADS
from benchmarks.peers.process import Peer, PeerTask
from benchmarks.throughput.timing import Spread, TimedSubject, alternate
from benchmarks.throughput.training_comparisons import JAXMARL, SPREAD
from benchmarks.training.ppo import PPOTraining

WORLDS = (16, 32, 64, 128, 256, 512)


def main() -> int:
    """Print a line for every number of worlds, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="turns of every contender (default: 5)")
    parser.add_argument("--num-threads", type=int, default=THREADS, help="threads of every contender (default: all)")
    parser.add_argument("--num-envs", type=int, nargs="+", default=WORLDS, help="numbers of worlds")
    args = parser.parse_args()
    print(f"{'worlds':>8}{'kernel':>12}{'torch':>12}{'JAX':>12}   env-steps/s")
    for worlds in args.num_envs:
        with contextlib.ExitStack() as stack:
            task = PeerTask(
                "jaxmarl",
                SPREAD,
                worlds,
                module="benchmarks.peers.inside.jaxmarl_training",
                threads=args.num_threads,
            )
            subjects: dict[str, TimedSubject] = {}
            for engine in ("kernel", "torch"):
                training = PPOTraining("SimpleSpread-v0", worlds, args.num_threads, JAXMARL, engine)
                stack.callback(training.close)
                subjects[engine] = training
            subjects["JAX"] = peer = Peer(task)
            stack.callback(peer.close)
            peer.ready()
            samples = alternate(subjects, args.repeats, seconds=0.5)
        rates = (Spread.of([worlds / seconds for seconds in samples.seconds[name]]).median for name in subjects)
        print(f"{worlds:8}{''.join(f'{rate:12,.0f}' for rate in rates)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
