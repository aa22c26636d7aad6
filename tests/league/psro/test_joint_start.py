"""Populations that start with joint training, and meta-strategies of the latest policies."""

from itertools import pairwise

import pytest
import torch
from psro_runs import TINY, contents, play, psro

from gpu_envs.errors import ConfigError
from league.game import Game
from league.psro.joint_start import STEP, joint_start_task, train_jointly
from league.solvers import MetaStrategy
from league.solvers.meta_strategy import of_joint
from league.storage.run_config import training
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
STEPS = 256
SMALL = {"train_overrides": TINY, "episodes_per_matchup": 10, "joint_steps": STEPS, "joint_snapshots": 3}


@pytest.mark.parametrize(
    "start",
    [pytest.param("scratch", marks=pytest.mark.slow), "warm_start", pytest.param("resume", marks=pytest.mark.slow)],
)
def test_snapshots_of_joint_training_precede_the_responses(start, tmp_path):
    rows = play(tmp_path, iterations=2, response_init=start, **SMALL)
    assert [row["policies"]["player_0"] for row in rows] == [4, 5, 6]
    assert all(row["episodes"] == 10 * size**2 for row, size in zip(rows, (4, 5, 6), strict=True))
    with RunStore.open(tmp_path, write=False) as store:
        assert store.result(STEP)["steps"] == STEPS
        for pool in store.populations.values():
            parents = [entry.parent for entry in pool.entries]
            assert parents == [None, None, 1, 2, *((None, None) if start == "scratch" else (3, 4))]
            assert [entry.iteration for entry in pool.entries] == [0, 0, 0, 0, 1, 2]


def test_responses_continue_the_learners_of_joint_training(tmp_path):
    """Schedules extend over the joint training and all responses."""
    run = psro(tmp_path, iterations=2, response_init="resume", **SMALL)
    tasks = []
    submit = run.coordinator.submit
    run.coordinator.submit = lambda task, *arguments, **more: tasks.append(task) or submit(task, *arguments, **more)
    with run.store:
        run.run()
    (joint,) = (task for task in tasks if task.key == STEP)
    first = next(task for task in tasks if task.key.startswith("1/respond/player_0"))
    steps = [task.arguments["train"].total_steps for task in (joint, first)]
    assert steps == [STEPS + 2 * TINY["total_steps"]] * 2
    with RunStore.open(tmp_path, write=False) as store:
        state = store.state("response.player_0.3", "cpu")
    assert all(
        torch.equal(first.arguments["start"][name], value) for name, value in state.items() if torch.is_tensor(value)
    )


def test_both_roles_learn_in_every_step_of_joint_training():
    train = training(KUHN, "cpu", {**TINY, "total_steps": STEPS})
    result = train_jointly({}, game=KUHN, train=train, steps=STEPS, num_snapshots=4, seed=0)
    assert result.steps == STEPS
    for policies in result.snapshots.values():
        weights = [next(iter(policy.net.parameters())) for policy in policies]
        assert not any(torch.equal(first, other) for first, other in pairwise(weights))


@pytest.mark.slow
def test_resumed_run_repeats_no_joint_training(tmp_path):
    settings = {**SMALL, "response_init": "warm_start"}
    play(tmp_path / "whole", iterations=1, **settings)
    play(tmp_path / "parts", iterations=0, **settings)
    play(tmp_path / "parts", iterations=1, **settings)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_joint_training_needs_learned_responses(tmp_path):
    with pytest.raises(ConfigError, match="joint_steps: expected 0 with oracle='exact', got 5"):
        psro(tmp_path, oracle="exact", joint_steps=5)


def test_joint_training_has_settings_of_its_own(tmp_path):
    run = psro(tmp_path, iterations=0, joint_overrides={"learner.entropy_coef": 0.25}, **SMALL)
    with run.store:
        task = joint_start_task(run._context(0))
    assert task.arguments["train"].learner.entropy_coef == 0.25
    assert run.train.learner.entropy_coef == 0.02
    assert task.arguments["train"].total_steps == STEPS


@pytest.mark.parametrize(
    ("overrides", "message"),
    [({"total_steps": 5}, "joint_overrides: total_steps: .* use joint_steps"), ({"learner.x": 1}, "x")],
)
def test_invalid_settings_of_joint_training_are_refused(overrides, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        psro(tmp_path, joint_overrides=overrides, **SMALL)


@pytest.mark.slow
def test_anytime_psro_starts_with_equal_weights_of_the_snapshots(tmp_path):
    rows = play(tmp_path, iterations=1, variant="anytime", **SMALL)
    assert rows[0]["meta_strategy"] == [[0.25] * 4] * 2


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nash", "cce"])
def test_recent_policies_limit_the_meta_strategy(solver, tmp_path):
    rows = play(tmp_path, iterations=2, recent_policies=2, meta_solver=solver, **SMALL)
    for row in rows:
        for marginal in row["meta_strategy"]:
            assert sum(marginal[:-2]) == 0
            assert sum(marginal[-2:]) == pytest.approx(1)


def test_strategy_of_the_latest_policies_has_zeros_before_them():
    joint = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    latest = of_joint(joint).of_latest((2, 4))
    assert latest.joint is not None
    assert latest.joint.tolist() == [[0, 0, *row] for row in joint.tolist()]
    assert [weights.tolist() for weights in latest.marginals] == [
        weights.tolist() for weights in of_joint(latest.joint).marginals
    ]
    single = MetaStrategy((torch.ones(1), torch.ones(2) / 2)).of_latest((3, 2))
    assert [weights.tolist() for weights in single.marginals] == [[0, 0, 1], [0.5, 0.5]]
