"""``core.reset(elapsed_steps=)``: episodes that start at a given step count, so that a batch's ends are spread."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.representative


def counts(core):
    """Step counts (E,) below the time limit, the first and the last possible among them."""
    limit = core.definition.max_episode_steps or 100
    return torch.arange(core.num_envs) % limit


def test_step_counts_change_the_clock_and_not_the_start(env_id, small_core):
    plain, spread = small_core(env_id), small_core(env_id)
    plain.reset()
    spread.reset(elapsed_steps=counts(spread))
    assert spread.elapsed_steps.tolist() == counts(spread).tolist()
    scratch = set(spread.definition.scratch)
    for name, values in spread.world_state.items():
        assert name in scratch or torch.equal(values, plain.world_state[name]), name
    clock = (spread.elapsed_steps == 0)[:, None, None]
    assert torch.equal(spread.obs * clock, plain.obs * clock)


def test_schedules_agree_where_episodes_start_late(env_id, small_core):
    fused, phased = (small_core(env_id, schedule=schedule) for schedule in ("fused", "phased"))
    for core in (fused, phased):
        core.reset(elapsed_steps=counts(core))
    for _ in range(12):
        for left, right in zip(fused.get_state().items(), phased.get_state().items(), strict=True):
            assert torch.equal(left[1], right[1]), left[0]
        for core in (fused, phased):
            core.step(core.sample_actions())


def test_episodes_end_at_the_limit_and_the_next_start_at_zero():
    spread, plain = (make_core("SimpleTag-v0", 7, "cpu", seed=0, max_cycles=7) for _ in range(2))
    spread.reset(elapsed_steps=torch.arange(7))
    for t in range(1, 8):
        _, _, terminated, truncated, info = spread.step(spread.sample_actions())
        ends = torch.arange(7) == 7 - t
        assert not terminated.any()
        assert truncated.tolist() == ends[:, None].expand(7, 4).tolist()
        assert (info["episode_length"][ends] == 7).all()
        assert (spread.elapsed_steps == torch.where(ends, 0, (torch.arange(7) + t) % 7)).all()
    plain.reset()
    for _ in range(7):
        plain.step(plain.sample_actions())
    assert torch.equal(spread.obs[0], plain.obs[0]), "the second episode is the ordinary one"


@pytest.mark.parametrize("env_id", ["TagContinuous-v0", "TagGridworld-v0"])
def test_observations_of_the_time_agree_with_the_step_count(small_core, env_id):
    core = small_core(env_id, 8)
    obs, _ = core.reset(elapsed_steps=torch.arange(8, dtype=torch.int32))
    time = torch.arange(8) / core.definition.max_episode_steps
    column = core.observation_spaces[core.possible_agents[0]].shape[0] - 1
    assert obs[:, 0, column].tolist() == pytest.approx(time.tolist())
    if core.definition.global_state_size:
        assert core.state()[:, -1].tolist() == pytest.approx(time.tolist())


def test_masked_worlds_alone_start_late():
    core = make_core("SimpleTag-v0", 4, "cpu", seed=0, max_cycles=9)
    core.reset()
    core.step(core.sample_actions())
    mask = torch.tensor([True, False, True, False])
    core.reset(reset_mask=mask, elapsed_steps=torch.tensor([5, 99, 8, -1]))  # those of other worlds are ignored
    assert core.elapsed_steps.tolist() == [5, 1, 8, 1]
    core.reset(reset_mask=mask)
    assert core.elapsed_steps.tolist() == [0, 1, 0, 1]


def test_shards_start_as_the_whole_batch():
    batch = make_core("SimpleTag-v0", 5, "cpu", seed=0)
    steps = torch.tensor([3, 0, 24, 7, 11])
    parts = [
        make_core("SimpleTag-v0", end - first, "cpu", seed=0, env_offset=first).reset(elapsed_steps=steps[first:end])[0]
        for first, end in ((0, 3), (3, 5))
    ]
    assert torch.equal(batch.reset(elapsed_steps=steps)[0], torch.cat(parts))


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        (torch.tensor([0, 25]), errors.ConfigError, r"elapsed_steps: expected values in \[0, 25\), got 0 to 25"),
        (torch.tensor([-1, 3]), errors.ConfigError, r"elapsed_steps: expected values in \[0, 25\), got -1 to 3"),
        (torch.tensor([0, 1, 2]), errors.ActionError, r"elapsed_steps: expected .*\(2,\).*got.*\(3,\)"),
        (torch.tensor([0.0, 1.0]), errors.ActionError, "elapsed_steps: expected .*torch.int64.*got torch.float32"),
        ([0, 1], errors.ActionError, "elapsed_steps: expected .*got list"),
        (3, errors.ActionError, "elapsed_steps: expected .*got int"),
    ],
)
def test_step_counts_that_cannot_be_change_nothing(steps, error, words):
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0)
    core.reset()
    core.step(core.sample_actions())
    state = core.get_state()
    with pytest.raises(error, match=words):
        core.reset(elapsed_steps=steps)
    assert all(torch.equal(values, state[name]) for name, values in core.get_state().items())


def test_recorder_keeps_episodes_that_start_late():
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, max_cycles=7)
    core.reset()
    with core.record_episodes([0, 1]) as recorder:
        core.step(core.sample_actions())
        core.reset(elapsed_steps=torch.tensor([4, 0]))
        for _ in range(7):
            core.step(core.sample_actions())
    assert [(episode.world, episode.number, len(episode)) for episode in recorder.take()] == [(0, 1, 3), (1, 1, 7)]


@pytest.mark.parametrize("game", ["DiscGame-v0", "MatrixGame-v0", "RockPaperScissors-v0"])
@pytest.mark.parametrize(("name", "terminates"), [("num_repetitions", True), ("max_episode_steps", False)])
def test_limit_of_a_matrix_game_sets_length_and_observed_time(game, name, terminates):
    core = make_core(game, 2, "cpu", autoreset="disabled", **{name: 3})
    core.reset(seed=0)
    for step in range(1, 4):
        obs, _, terminated, truncated, _ = core.step(core.sample_actions())
        assert obs[..., -1].flatten().tolist() == pytest.approx([step / 3] * 4)
        assert terminated.all().item() == (terminates and step == 3)
        assert truncated.all().item() == (not terminates and step == 3)


@pytest.mark.parametrize("game", ["DiscGame-v0", "SimpleTag-v0", "TagContinuous-v0"])
def test_two_names_of_the_limit_are_refused(game):
    names = {"DiscGame-v0": "num_repetitions", "SimpleTag-v0": "max_cycles", "TagContinuous-v0": "episode_length"}
    line = rf"^{game}: expected one of max_episode_steps and {names[game]}, got both; give max_episode_steps$"
    with pytest.raises(ConfigError, match=line):
        make_core(game, 2, "cpu", max_episode_steps=3, **{names[game]: 3})
