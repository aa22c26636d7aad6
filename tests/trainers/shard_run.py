"""Train as one of several processes: `python shard_run.py OUT RANK RANKS RUN ...`, with names from `RUNS`.

The final state of a rank and its first rollout go to OUT/<run>-<rank>.pt, the run to OUT/<run>. The run "recurrent_tag"
is then resumed from its middle as "again", and repeated and ended by a signal as "stopped". Each run in `ACROSS` is
started by one rank, then resumed by all and left before its end, in OUT/<run>-across.
"""

import signal
import sys
from pathlib import Path

import torch
from torch import distributed

from trainers.algorithms import algorithm_specs
from trainers.base.shard import Shard
from trainers.config.train_config import TrainConfig
from trainers.distributed import checkpoint_state
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.checkpoint import load_on_rank0

TAG = {"num_taggers": 3, "num_runners": 3, "grid_length": 0.7, "episode_length": 10}
PPO = {"rollout_length": 8, "num_epochs": 2, "num_minibatches": 3, "hidden_sizes": (16,), "learning_rate": 0.003}
SHORT = {"rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 0.003}
# the oldest steps leave the replay, and the first update finds too few in it
REPLAY = {"rollout_length": 8, "hidden_sizes": (16,), "updates": 3, "batch_size": 24, "replay_size": 150}
REPLAY |= {"learning_starts": 60, "learning_rate": 0.01}
RARE = {**REPLAY, "batch_size": 4, "prioritized": True, "n_step": 3, "dueling": True}
GRU = {**REPLAY, "network": "gru", "window": 4, "burn_in": 2}
GRID = {"num_taggers": 2, "grid_length": 4, "episode_length": 10}
SPREAD = {"max_cycles": 6}
TWO = {"max_cycles": 6, "num_good": 2}
BOX = {"continuous_actions": True}
RUNS = {
    # (environment, its settings, algorithm, settings of learners)
    "spread": ("SimpleSpread-v0", {"max_cycles": 6}, "ppo", PPO | {"target_kl": 1e-4, "num_epochs": 3}),
    "recurrent_tag": ("TagContinuous-v0", TAG, "ppo", PPO | {"network": "gru"}),
    "dqn": ("CartPole-v1", {}, "dqn", RARE),
}
MORE_RUNS = {
    "asked": ("TicTacToe-v0", {}, "dqn", REPLAY),
    "team": ("SimpleSpread-v0", SPREAD, "qmix", GRU),
    "deaths": ("TagContinuous-v0", TAG, "ppo", PPO),  # some agents leave early: valid rows differ between ranks
    "joint": ("SimpleTag-v0", TWO | BOX, "matd3", REPLAY | {"normalize_obs": True}),
    "critics": ("SimpleSpread-v0", {"max_cycles": 6}, "mappo", PPO),
    "sequence": ("SimpleSpread-v0", SPREAD, "happo", PPO),
    "transformer": ("TagContinuous-v0", TAG, "mat", PPO),
    "regions": ("TagContinuous-v0", TAG, "hatrpo", SHORT),
    "magnet": ("TagContinuous-v0", TAG, "mmd", PPO),
    "duplex": ("SimpleSpread-v0", SPREAD, "qplex", GRU),
    "pole": ("CartPole-v1", {}, "a2c", {"rollout_length": 8, "hidden_sizes": (16,), "normalize_advantage": True}),
    "recurrent": ("CartPole-v1", {}, "a2c", {"rollout_length": 8, "hidden_sizes": (16,), "network": "gru"}),
    "box": ("Pendulum-v1", {}, "ppo", PPO | {"rollout_length": 32}),
    "squashed": ("Pendulum-v1", {}, "a2c", {"hidden_sizes": (16,), "squash": True}),
    "off_policy": ("SimpleSpread-v0", SPREAD, "appo", PPO),
    "turns": ("TicTacToe-v0", {}, "ppo", PPO),
    "single": ("Pendulum-v1", {}, "td3", REPLAY | {"batch_size": 1}),  # all rows of a minibatch belong to one rank
    "soft": ("Pendulum-v1", {}, "sac", REPLAY),
    "iql": ("TagGridworld-v0", GRID, "iql", REPLAY | {"prioritized": True}),
    "average": ("KuhnPoker-v0", {}, "nfsp", REPLAY | {"anticipatory_param": 0.5, "reservoir_size": 50}),
    "vdn": ("TagGridworld-v0", GRID, "vdn", REPLAY),
    "ddpg": ("SimpleSpread-v0", SPREAD | BOX, "ddpg", REPLAY),
    "choices": ("TagContinuous-v0", TAG, "sac", REPLAY | {"normalize_obs": True}),
    "windows": ("TagContinuous-v0", TAG, "sac", GRU),
    "moves": ("PhantomTicTacToe-v0", {}, "iql", GRU),
    "impala": ("TagContinuous-v0", TAG, "impala", SHORT),
    "returns": ("CartPole-v1", {}, "pg", SHORT),
    "relaxed": ("SimpleTag-v0", TWO, "maddpg", REPLAY | {"normalize_obs": True}),
    "masac": ("SimpleTag-v0", TWO | BOX, "masac", REPLAY),
    "valued": ("SimpleSpread-v0", SPREAD, "masac", REPLAY | {"batch_size": 4}),
}
ACROSS = ("dqn", "asked", "team", "average")
WORLDS, ITERATIONS = 7, 5


def config(run):
    env_id, env, algorithm, settings = {**RUNS, **MORE_RUNS}[run]
    learner = algorithm_specs.find(algorithm).settings(**settings)
    return TrainConfig(
        env_id, env, algorithm=algorithm, learner=learner, num_envs=WORLDS, seed=3, num_threads=1,
        total_steps=WORLDS * learner.rollout_length * ITERATIONS,
        checkpoint_interval=2, keep_last_checkpoints=9, eval_episodes=4 if run == "spread" else 0,
    )  # fmt: skip


def train(run, out, shard, resume=None, stop_at=0):
    """Train and return the first rollout by policy, and the trainer; the last rank gets a signal at `stop_at`.

    "counts" holds the number of valid rows by step, for all rollouts.
    """
    trainer = Trainer(config(run), out, resume, shard=shard)
    first, update = {}, trainer.learners.update

    def watched(iteration, last_saved):
        for name, seat in trainer.assignments.items():
            rollout = seat.learner.rollout
            if name not in first:
                first[name] = {part: getattr(rollout, part).clone() for part in ("obs", "action", "reward")}
            first[name].setdefault("counts", []).append(rollout.valid.sum((1, 2)))
        if iteration == stop_at and shard.rank == shard.ranks - 1:
            trainer.stop(signal.SIGTERM)
        return update(iteration, last_saved)

    trainer.learners.update = watched
    trainer.run()
    return first, trainer


def keep(name, shard, out, first, trainer):
    nets = {policy: seat.learner.net.state_dict() for policy, seat in trainer.assignments.items()}
    facts = {"first": first, "nets": nets, "iteration": trainer.iteration, "recent": trainer.episodes.recent}
    torch.save(
        {**facts, "offset": trainer.core.env_offset, "room": shard.memory_budget}, out / f"{name}-{shard.rank}.pt"
    )


def play(out, shard, runs):
    """Play all runs."""
    for run in runs:
        keep(run, shard, out, *train(run, out / run, shard))
    if "recurrent_tag" in runs:
        middle = load_on_rank0(shard, lambda: checkpoint.load(out / "recurrent_tag" / "checkpoints" / "000000002"))
        keep("again", shard, out, *train("recurrent_tag", out / "again", shard, middle))
        keep("stopped", shard, out, *train("recurrent_tag", out / "stopped", shard, stop_at=3))
    for run in ACROSS if shard.ranks > 1 else ():
        if run in runs:
            start = load_on_rank0(shard, lambda run=run: begin_alone(run, out / f"{run}-alone"))
            train(run, out / f"{run}-across", shard, start, stop_at=4)


def begin_alone(run, out):
    train(run, out, Shard.split(0, 1, WORLDS), stop_at=2)
    return checkpoint.load(out)


if __name__ == "__main__":
    out, rank, ranks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    checkpoint_state.PIECE = 300  # a replay is sent in several pieces
    distributed.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=ranks)
    play(out, Shard.from_env(WORLDS), sys.argv[4:])
    distributed.barrier()  # gloo may abort a process whose peer closes its connections first
    distributed.destroy_process_group()
