"""Names of the time limit: `max_episode_steps` truncates, the names of the reference environments do as they do."""

import pytest

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core


@pytest.mark.parametrize("env_id", ["DiscGame-v0", "MatrixGame-v0", "RockPaperScissors-v0"])
@pytest.mark.parametrize(("name", "terminates"), [("num_repetitions", True), ("max_episode_steps", False)])
def test_limit_of_a_matrix_game_sets_length_and_observed_time(env_id, name, terminates):
    core = make_core(env_id, 2, "cpu", autoreset="disabled", **{name: 3})
    core.reset(seed=0)
    for step in range(1, 4):
        obs, _, terminated, truncated, _ = core.step(core.sample_actions())
        assert obs[..., -1].flatten().tolist() == pytest.approx([step / 3] * 4)
        assert terminated.all().item() == (terminates and step == 3)
        assert truncated.all().item() == (not terminates and step == 3)


@pytest.mark.parametrize("env_id", ["DiscGame-v0", "SimpleTag-v0", "TagContinuous-v0"])
def test_two_names_of_the_limit_are_refused(env_id):
    names = {"DiscGame-v0": "num_repetitions", "SimpleTag-v0": "max_cycles", "TagContinuous-v0": "episode_length"}
    line = rf"^{env_id}: expected one of max_episode_steps and {names[env_id]}, got both; give max_episode_steps$"
    with pytest.raises(ConfigError, match=line):
        make_core(env_id, 2, "cpu", max_episode_steps=3, **{names[env_id]: 3})
