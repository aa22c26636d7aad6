"""check_env accepts what keeps the contract, and names what does not."""

import re
from dataclasses import replace

import pytest
import toy
from gymnasium import spaces
from small_environments import SMALL

import gpu_envs
from gpu_envs.definition.environment import box
from gpu_envs.errors import ConfigError, ConformanceError, GpuEnvsError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import configured_definition, make_core
from gpu_envs.testing import env_checker, phase_diagnosis
from warp_kernels.framework.step import step_phases


@pytest.mark.representative
def test_registered_environments_conform(env_id, capfd):
    report = gpu_envs.check_env(env_id, **SMALL[env_id])
    out, err = capfd.readouterr()
    assert not out
    assert not [line for line in err.splitlines() if not line.startswith("compiling ")]  # on a slow machine
    assert report.env_id == env_id
    assert len(report.checks) == 1 + len(env_checker.LAWS)


def test_report_prints_every_check_and_is_escaped_in_html(toys):
    report = gpu_envs.check_env("Toy-v0", limit_terminates=True)
    lines = str(report).splitlines()
    assert re.fullmatch(r"Toy-v0 \(limit_terminates=True\) passed all 12 checks in \d+\.\d s", lines[0])
    assert lines[8] == "  seeds        Equal seeds give equal trajectories, in a new core and in a used one"
    assert re.search(
        r" \(32 steps of 12 worlds: \d+ episodes ended; \d+ agents terminated, \d+ agents truncated\)$", lines[5]
    )
    assert lines[4].endswith("siblings in every order (every phase changed something)")
    assert [line.split()[0] for line in lines[1:]] == [check.name for check in report.checks]
    assert 0 < report.checks[1].seconds < report.seconds
    check = replace(report.checks[0], description="a < b & c")
    assert "a &lt; b &amp; c" in replace(report, checks=[check])._repr_html_()


@pytest.mark.parametrize("config", [{}, {"max_steps": 0}])
def test_correct_environment_conforms(toys, config):
    gpu_envs.check_env("gpu_envs/Toy-v0", **config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: {"agents": ("walker_0", "walker_0", "walker_2")}, "a name of its own"),
        (lambda d: {"groups": {"walker": (0, 1)}}, "belongs to one group"),
        (lambda d: {"roles": {"walker": (d.agents[0],)}}, "every agent has one role, or none are declared"),
        (
            lambda d: {"observation_spaces": {**d.observation_spaces, "walker_1": box(3)}},
            "equal spaces; those of walker differ",
        ),
        (
            lambda d: {"observation_spaces": {**d.observation_spaces, "walker_1": spaces.Discrete(3)}},
            "are Boxes of float32, uint8 or bool, or Dicts of these; walker_1",
        ),
        (
            lambda d: {"action_spaces": {**d.action_spaces, "walker_2": spaces.MultiDiscrete([3])}},
            "Discrete, MultiDiscrete",
        ),
        (lambda d: {"action_spaces": {agent: spaces.Discrete(3, start=1) for agent in d.agents}}, "start at 0"),
        (
            lambda d: {"action_spaces": {"walker_0": spaces.Discrete(3)}},
            "every agent has an observation and an action space",
        ),
    ],
)
def test_inconsistent_definitions_raise(change, words):
    config = toy.Config()
    definition = toy.build(config)
    with pytest.raises(ConformanceError, match=words):
        env_checker.check_definition(env_checker.Subject("Toy-v0", config, replace(definition, **change(definition))))


def test_every_phase_of_a_step_is_told_apart_by_its_author():
    """A phase of the framework that the checks do not know would be reported as one of the environment."""
    rules = configured_definition("SimpleTag-v0", None, {})[2].rules
    parts = step_phases(replace(rules, keeps_final_state=rules.global_state is not None), in_slots=True)
    names = {phase.called for phase in (*parts.play, *parts.start)}
    functions = {phase.called for phase in (*rules.phases, *rules.build_grid)} | {"observe"}
    assert names - functions <= {*phase_diagnosis.FRAMEWORK, *phase_diagnosis.AUTHORS}


def test_wrong_reset_by_mask_is_found(toys, monkeypatch):
    """The reset is code of the core, which no rule set can break; here it does not mark the reset worlds."""
    reset = Core.reset

    def careless(self, seed=None, reset_mask=None):
        valid = self.valid.clone()
        obs, info = reset(self, seed, reset_mask)
        return obs, info if reset_mask is None else {**info, "valid": valid}

    monkeypatch.setattr(Core, "reset", careless)
    with pytest.raises(ConformanceError, match=r"a reset world is all alive and not valid, .*: valid of walker_"):
        gpu_envs.check_env("Toy-v0")


def test_environment_object_is_checked_with_its_settings(toys, monkeypatch):
    environments = []
    monkeypatch.setattr(env_checker, "LAWS", (environments.append,))
    for env in (gpu_envs.make("Toy-v0", max_steps=5), make_core("Toy-v0", max_steps=5)):
        gpu_envs.check_env(env)
        assert environments.pop().config.max_steps == 5


def test_bad_arguments(toys):
    with pytest.raises(ConfigError, match="takes an id or an environment"):
        gpu_envs.check_env(3)
    with pytest.raises(ConfigError, match="configured already"):
        gpu_envs.check_env(gpu_envs.make("Toy-v0"), num_agents=2)
    with pytest.raises(ConfigError, match="unexpected keyword argument 'num_agent';"):
        gpu_envs.check_env("Toy-v0", num_agent=2)
    assert issubclass(ConformanceError, GpuEnvsError)
    assert issubclass(ConformanceError, AssertionError)
