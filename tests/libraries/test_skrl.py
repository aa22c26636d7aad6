"""skrl: IPPO and MAPPO train on tensors that stay where they are. Run by `make test-libraries`."""

import copy
from functools import partial

import pytest
import torch
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG
from skrl.multi_agents.torch.mappo import MAPPO, MAPPO_CFG
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import (
    categorical_model,
    deterministic_model,
    gaussian_model,
    multicategorical_model,
)
from small_environments import SMALL

from docs.scripts import notebook
from examples import skrl_simple_spread
from gpu_envs.runtime.factory import make_core
from gpu_envs.views.skrl import SkrlEnv, make_skrl, per_agent

POLICY = {
    "discrete": categorical_model,
    "multi_discrete": multicategorical_model,
    "continuous": partial(gaussian_model, clip_actions=True),
}
LEARNERS = {"IPPO": (IPPO, IPPO_CFG, "OBSERVATIONS"), "MAPPO": (MAPPO, MAPPO_CFG, "STATES")}
ROLLOUT = 6


def learner_for(env, name):
    """Return an agent of skrl with small networks, and its models."""
    algorithm, config, sees = LEARNERS[name]
    models = {}
    for agent in env.possible_agents:
        spaces = {
            "observation_space": env.observation_space(agent),
            "state_space": env.state_space(agent),
            "action_space": env.action_space(agent),
            "device": env.device,
        }
        net = {"name": "net", "layers": [16], "activations": "tanh"}
        policy = POLICY[env.unwrapped.core.action_kind]
        models[agent] = {
            "policy": policy(**spaces, network=[net | {"input": "OBSERVATIONS"}], output="ACTIONS"),
            "value": deterministic_model(**spaces, network=[net | {"input": sees}], output="ONE"),
        }
        for model in models[agent].values():
            model.init_state_dict()
    cfg = config(rollouts=ROLLOUT, learning_epochs=2, mini_batches=2, learning_rate=1e-2, time_limit_bootstrap=True)
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    learner = algorithm(
        possible_agents=env.possible_agents,
        models=models,
        memories={agent: RandomMemory(memory_size=ROLLOUT, num_envs=env.num_envs) for agent in env.possible_agents},
        cfg=per_agent(cfg, env.possible_agents),
        observation_spaces=env.observation_spaces,
        state_spaces=env.state_spaces,
        action_spaces=env.action_spaces,
        device=env.device,
    )
    return learner, models


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        ("SimpleTag-v0", {}),
        ("SimpleTag-v0", {"continuous_actions": True}),
        ("TagContinuous-v0", {}),  # runners leave early
        ("CartPole-v1", {}),  # one agent
    ],
)
def test_training_updates_all_networks(env_id, settings, name):
    """The cases cover groups of unequal spaces and every kind of action."""
    env = make_skrl(env_id, num_envs=8, device="cpu", seed=0, **SMALL[env_id], **settings)
    assert env.num_envs == 8
    learner, models = learner_for(env, name)
    initial = copy.deepcopy(models)
    cfg = {"timesteps": 3 * ROLLOUT, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(env=env, agents=learner, cfg=cfg).train()
    assert int(env.unwrapped.core.episode_index.min()) >= 1
    for agent, nets in models.items():
        for key, net in nets.items():
            for weight, value in net.state_dict().items():
                assert torch.isfinite(value).all()
                if weight.endswith("weight"):
                    assert not torch.equal(value, initial[agent][key].state_dict()[weight]), (agent, key, weight)
        memory = learner.memories[agent]
        assert torch.isfinite(memory.get_tensor_by_name("returns")).all()
    env.close()


def test_nothing_is_copied():
    """Results have the memory that the core's step returned, and stay valid after the next step."""
    core = make_core("SimpleTag-v0", 8, "cpu", seed=0, **SMALL["SimpleTag-v0"])
    env = wrap_env(SkrlEnv(core), wrapper="isaaclab-multi-agent", verbose=False)
    returned = []
    step = core.step
    core.step = lambda action: returned.append(step(action)) or returned[-1]
    previous, _ = env.reset()
    for _ in range(5):
        saved = {agent: value.clone() for agent, value in previous.items()}
        actions = {agent: action[:, None] for agent, action in env.unwrapped.sample_actions().items()}
        obs, reward, terminated, truncated, _ = env.step(actions)
        for row, agent in enumerate(core.possible_agents):
            assert obs[agent].data_ptr() == returned[-1][0][:, row].data_ptr()
            assert reward[agent].data_ptr() == returned[-1][1][:, row].data_ptr()
            assert reward[agent].shape == terminated[agent].shape == truncated[agent].shape == (8, 1)
            assert torch.equal(previous[agent], saved[agent])
        states = env.state()
        assert len({state.data_ptr() for state in states.values()}) == 1
        assert states["agent_0"].shape == (8, *env.state_space("agent_0").shape)
        previous = obs


def test_default_settings_still_need_the_workaround():
    """The defaults of skrl fail; once they work, `per_agent` can be removed."""
    agents = ["a", "b"]
    with pytest.raises(ValueError, match="do not match possible agents"):
        IPPO_CFG().expand(possible_agents=agents)
    cfg = per_agent(MAPPO_CFG(), agents)
    cfg.expand(possible_agents=agents)
    assert cfg.learning_rate_scheduler_kwargs == {agent: ({}, {}) for agent in agents}
    assert cfg.gae_lambda == dict.fromkeys(agents, 0.95)


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_example_learns(algorithm, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    initial, after = skrl_simple_spread.main(
        ["--algorithm", algorithm, "--num-envs", "128", "--iterations", "40", "--device", "cpu"]
    )
    assert after > initial + 1.0


def test_blocks_of_the_page_run():
    notebook.run(notebook.LIBRARIES, notebook.PYTHON, "skrl")
