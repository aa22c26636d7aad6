"""Scripted policy of SimpleFormation-v0: places in states set by hand, returns above random play."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.evaluation.formation_policies import FormationPolicy, fixed_places, places_on_circle
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import has_script, scripted_policy

LEFT, RIGHT, UP = 1, 2, 4


def test_places_on_the_circle_keep_the_order_of_the_angles():
    core = make_core("SimpleFormation-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"][0] = torch.tensor([(0.2, 1.0), (-1.0, 0.2), (1.0, 0.0), (0.2, -1.0), (0.2, 0.0)])
    places = [(0.2, 0.5), (-0.3, 0.0), (0.7, 0.0), (0.2, -0.5)]
    torch.testing.assert_close(places_on_circle(core)[0], torch.tensor(places), atol=1e-6, rtol=0.0)
    core.world_state["vel"].zero_()
    assert FormationPolicy(core, "agent").act(core.obs)[0].tolist() == [3, RIGHT, LEFT, UP]


def test_fixed_places_depend_on_the_index_only():
    core = make_core("SimpleFormation-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"][0] = torch.tensor([(0.2, 1.0), (-1.0, 0.2), (1.0, 0.0), (0.2, -1.0), (0.2, 0.0)])
    places = [(0.7, 0.0), (0.2, 0.5), (-0.3, 0.0), (0.2, -0.5)]
    torch.testing.assert_close(fixed_places(core)[0], torch.tensor(places), atol=1e-6, rtol=0.0)
    core.world_state["vel"].zero_()
    assert FormationPolicy(core, "agent", fixed=True).act(core.obs)[0].tolist() == [3, RIGHT, LEFT, UP]
    assert FormationPolicy(core, "agent_1", fixed=True).act(core.obs)[0].tolist() == [RIGHT]


def test_scripted_agents_earn_more_than_random_ones():
    env_id = "SimpleFormation-v0"
    core = make_core(env_id, 64, "cpu", seed=0, reuse_buffers=True)
    assert has_script(env_id)
    chance = evaluate_policies(core, dict.fromkeys(core.groups), seed=1).returns
    ours = evaluate_policies(core, {name: scripted_policy(core, name) for name in core.groups}, seed=1).returns
    for name, earned in ours.items():
        assert earned.mean - earned.half > chance[name].mean + chance[name].half, name


def test_other_environments_and_continuous_actions_are_refused():
    for core in (
        make_core("SimpleLine-v0", 1, "cpu"),
        make_core("SimpleFormation-v0", 1, "cpu", continuous_actions=True),
    ):
        with pytest.raises(ConfigError, match="scripted policy of formations: expected SimpleFormation-v0"):
            FormationPolicy(core, "agent")


def test_summary_names_the_script():
    core = make_core("SimpleFormation-v0", 1, "cpu")
    text = "<FormationPolicy SimpleFormation-v0: plays=agent, script=form a circle, device=cpu>"
    assert repr(FormationPolicy(core, "agent")) == text
    fixed = FormationPolicy(core, "agent", fixed=True)
    assert repr(fixed) == text.replace("a circle", "a circle of fixed places")
