"""Trains in one of several processes: `python shard_run.py OUT RANK RANKS RUN ...`, names of `RUNS`.

What a rank holds in the end, and what its first rollout was, goes to OUT/<run>-<rank>.pt; the run to OUT/<run>. The
last run is then gone on with from its middle, "again", and begun once more and ended by a signal, "stopped".
"""

import signal
import sys
from pathlib import Path

import torch
from torch import distributed

from trainers import algorithms, checkpoint
from trainers.config import TrainConfig
from trainers.loop import Trainer
from trainers.sharding import Shard

TAG = {"num_taggers": 3, "num_runners": 3, "grid_length": 0.7, "episode_length": 10}
PPO = {"rollout_length": 8, "epochs": 2, "minibatches": 3, "hidden": (16,), "learning_rate": 0.003}
Q = {"rollout_length": 8, "hidden": (16,), "updates": 3, "batch_size": 24, "learning_starts": 60, "learning_rate": 0.01}
OFF = {**Q, "replay_size": 150}  # the oldest steps leave
GRID = {"num_taggers": 2, "grid_length": 4, "episode_length": 10}
BOX = {"max_cycles": 6, "continuous_actions": True}
RUNS = {
    # (environment, its settings, algorithm, settings of learners)
    "spread": ("SimpleSpread-v0", {"max_cycles": 6}, "ppo", PPO | {"target_kl": 1e-4, "epochs": 3}),
    "critics": ("SimpleSpread-v0", {"max_cycles": 6}, "mappo", PPO),
    "deaths": ("TagContinuous-v0", TAG, "ppo", PPO),  # some leave early: valid rows differ between ranks
    "memory": ("TagContinuous-v0", TAG, "ppo", PPO | {"body": "gru"}),
    "pole": ("CartPole-v1", {}, "a2c", {"rollout_length": 8, "hidden": (16,), "normalize_advantage": True}),
    "recurrent": ("CartPole-v1", {}, "a2c", {"rollout_length": 8, "hidden": (16,), "body": "gru"}),
    "box": ("Pendulum-v1", {}, "ppo", PPO | {"rollout_length": 32}),
    "squashed": ("Pendulum-v1", {}, "a2c", {"hidden": (16,), "squash": True}),
    "turns": ("TicTacToe-v0", {}, "ppo", PPO),
    # rows of minibatches of a few are now and then of one rank's worlds alone
    "dqn": ("CartPole-v1", {}, "dqn", Q | {"prioritized": True, "n_step": 3, "dueling": True, "batch_size": 4}),
    "iql": ("TagGridworld-v0", GRID, "iql", Q | {"prioritized": True}),
    "dqn_turns": ("TicTacToe-v0", {}, "dqn", Q),
    "vdn": ("TagGridworld-v0", GRID, "vdn", Q),
    "qmix": ("SimpleSpread-v0", {"max_cycles": 6}, "qmix", Q | {"body": "gru", "window": 4, "burn_in": 2, "batch_size": 4}),
    "td3": ("Pendulum-v1", {}, "td3", OFF),
    "ddpg": ("SimpleSpread-v0", BOX, "ddpg", OFF | {"batch_size": 1}),
    "maddpg": ("SimpleTag-v0", {"max_cycles": 6}, "maddpg", OFF | {"normalize_obs": True}),
    "matd3": ("SimpleTag-v0", BOX, "matd3", OFF),
    "sac": ("Pendulum-v1", {}, "sac", OFF),
    "sac_discrete": ("TagContinuous-v0", TAG, "sac", OFF | {"normalize_obs": True}),
    "masac": ("SimpleTag-v0", BOX, "masac", OFF | {"batch_size": 4}),
    "masac_discrete": ("SimpleSpread-v0", {"max_cycles": 6}, "masac", OFF),
}
WORLDS, ITERATIONS = 7, 5


def config(run):
    env_id, env, algorithm, settings = RUNS[run]
    learner = algorithms.find(algorithm).settings(**settings)
    return TrainConfig(
        env_id, env, algorithm=algorithm, learner=learner, num_envs=WORLDS, seed=3, threads=1,
        total_steps=WORLDS * learner.rollout_length * ITERATIONS,
        checkpoint_every=2, keep_last=9, eval_episodes=4 if run == "spread" else 0,
    )  # fmt: skip


def train(run, out, shard, resume=None, stop_at=0):
    """Trains, and returns the first rollout, by policy, and the trainer; the last rank hears a signal at `stop_at`.

    Of all rollouts there are the "counts" of valid rows by step.
    """
    trainer = Trainer(config(run), out, resume, shard=shard)
    first, update = {}, trainer.collector.update

    def watched(iteration, where):
        for name, seat in trainer.seats.items():
            rollout = seat.learner.rollout
            if name not in first:
                first[name] = {part: getattr(rollout, part).clone() for part in ("obs", "action", "reward")}
            first[name].setdefault("counts", []).append(rollout.valid.sum((1, 2)))
        if iteration == stop_at and shard.rank == shard.ranks - 1:
            trainer._stop(signal.SIGTERM)
        return update(iteration, where)

    trainer.collector.update = watched
    trainer.run()
    return first, trainer


def keep(name, shard, out, first, trainer):
    nets = {policy: seat.learner.net.state_dict() for policy, seat in trainer.seats.items()}
    facts = {"first": first, "nets": nets, "iteration": trainer.iteration, "recent": trainer.episodes.recent}
    torch.save({**facts, "offset": trainer.core.env_offset}, out / f"{name}-{shard.rank}.pt")


def play(out, shard, runs):
    """All of it."""
    for run in runs:
        keep(run, shard, out, *train(run, out / run, shard))
    middle = shard.from_first(lambda: checkpoint.load(out / runs[-1] / "checkpoints" / "000000002"))
    keep("again", shard, out, *train(runs[-1], out / "again", shard, middle))
    keep("stopped", shard, out, *train(runs[-1], out / "stopped", shard, stop_at=3))


if __name__ == "__main__":
    out, rank, ranks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=ranks)
    play(out, Shard.of(rank, ranks, WORLDS), sys.argv[4:])
    distributed.destroy_process_group()
