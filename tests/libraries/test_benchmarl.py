"""BenchMARL: every environment is a task, and its algorithms train over the same EnvBase, on an older TorchRL."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarl.algorithms import IppoConfig, MaddpgConfig, MappoConfig, QmixConfig
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from small_environments import SMALL
from torchrl.envs.utils import MarlGroupMapType, check_env_specs

from docs.scripts import notebook
from gpu_envs import list_envs
from gpu_envs.errors import ConfigError, UnknownEnvironmentError
from gpu_envs.views.benchmarl import GpuEnvsClass, GpuEnvsTask
from gpu_envs.views.torchrl import TorchRLEnv

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

SPECS = {
    "discrete": ("SimpleTag-v0", {}),
    "one-hot": ("SimpleTag-v0", {"categorical_actions": False}),
    "continuous": ("SimpleTag-v0", {"continuous_actions": True}),
    "multi-discrete": ("TagContinuous-v0", {}),
    "masks and turns": ("LeducPoker-v0", {}),
    "one agent": ("CartPole-v1", {}),
    "info, state": ("SimpleSpread-v0", {"benchmark_data": True, "return_state": True}),
    "an agent each": ("SimpleTag-v0", {"group_map": MarlGroupMapType.ONE_GROUP_PER_AGENT}),
}


@pytest.mark.parametrize("case", SPECS)
def test_specs_on_the_older_torchrl(case):
    env_id, settings = SPECS[case]
    env = TorchRLEnv(env_id, 5, "cpu", seed=0, **SMALL[env_id] | settings)
    check_env_specs(env)
    data = env.rollout(20, break_when_any_done=False)
    assert data["next", "done"].any()


def test_every_environment_is_a_task():
    assert {task.get_task({}).id for task in GpuEnvsTask} == set(list_envs())
    task = GpuEnvsTask.SIMPLE_TAG.get_task({"max_cycles": 9})
    assert (task.name, task.id, task.env_name()) == ("SIMPLE_TAG", "SimpleTag-v0", "gpu_envs")
    assert GpuEnvsTask.SIMPLE_TAG.get_task().config == {}
    assert GpuEnvsClass("LeducPoker-v0", {}).id == "LeducPoker-v0"
    with pytest.raises(UnknownEnvironmentError, match="SimpleTga-v0"):
        GpuEnvsClass("SimpleTga-v0", {})


def test_settings_from_yaml(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text("max_cycles: 9\nnum_good: 2\n", encoding="utf-8")
    task = GpuEnvsTask.SIMPLE_TAG.get_from_yaml(str(path))
    env = task.get_env_fun(3, False, 0, "cpu")()
    assert task.max_steps(env) == 9
    assert len(task.group_map(env)["agent"]) == 2


def test_kinds_of_actions():
    kinds = {
        "SIMPLE_TAG": (True, True),
        "LEDUC_POKER": (False, True),
        "TAG_CONTINUOUS": (False, True),
        "PENDULUM": (True, False),
    }
    for name, (continuous, discrete) in kinds.items():
        task = GpuEnvsTask[name].get_task({"schedule": "fused"})
        assert task.supports_continuous_actions() == continuous
        assert task.supports_discrete_actions() == discrete


def test_specs_of_tasks():
    task = GpuEnvsTask.LEDUC_POKER.get_task({})
    env = task.get_env_fun(4, False, 0, "cpu")()
    assert task.observation_spec(env)["player", "observation"].shape == (2, env.core.obs_width)
    assert set(task.observation_spec(env).keys(True, True)) == {("player", "observation")}
    assert task.action_mask_spec(env)["player", "action_mask"].shape == (2, 3)
    assert task.state_spec(env)["state"].shape == (2 * env.core.obs_width,)
    assert task.action_spec(env)["player", "action"].shape == (2,)
    assert task.info_spec(env) is None
    task = GpuEnvsTask.SIMPLE_SPREAD.get_task({"benchmark_data": True, "return_state": False})
    env = task.get_env_fun(4, True, 0, "cpu")()
    assert task.action_mask_spec(env) is None
    assert task.state_spec(env) is None
    assert [key[:2] for key in task.info_spec(env).keys(True, True)] == [("agent", "info")]
    assert task.has_render(env)
    env.reset()
    assert env.render().shape == (512, 512, 3)
    env.core.definition = replace(env.core.definition, max_episode_steps=0)
    with pytest.raises(ConfigError, match="needs a time limit"):
        task.max_steps(env)


def test_multi_discrete_is_refused():
    with pytest.raises(ConfigError, match="TagContinuous-v0: BenchMARL takes no multi-discrete actions"):
        GpuEnvsTask.TAG_CONTINUOUS.get_task({}).get_env_fun(4, False, 0, "cpu")


def experiment(task, algorithm, folder, continuous=False):
    """Return a tiny experiment with evaluations."""
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = "cpu"
    config.prefer_continuous_actions = continuous
    config.max_n_frames, config.max_n_iters = None, 3
    config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = 10
    config.on_policy_collected_frames_per_batch = config.off_policy_collected_frames_per_batch = 100
    config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size = 2, 50
    config.off_policy_n_optimizer_steps, config.off_policy_train_batch_size = 2, 32
    config.off_policy_memory_size = 1000
    config.evaluation, config.evaluation_interval, config.evaluation_episodes = True, 100, 4
    config.render, config.loggers, config.create_json = False, [], False
    config.save_folder = str(folder)
    return Experiment(
        task=task,
        algorithm_config=algorithm.get_from_yaml(),
        model_config=MlpConfig.get_from_yaml(),
        critic_model_config=MlpConfig.get_from_yaml(),
        seed=0,
        config=config,
    )


RUNS = {
    "IPPO": (IppoConfig, "SIMPLE_TAG", {}, False),
    "IPPO, continuous": (IppoConfig, "SIMPLE_TAG", {}, True),
    "MAPPO": (MappoConfig, "SIMPLE_TAG", {}, False),
    "MAPPO without state": (MappoConfig, "SIMPLE_TAG", {"return_state": False}, False),
    "MAPPO, masks": (MappoConfig, "LEDUC_POKER", {}, False),
    "QMIX": (QmixConfig, "SIMPLE_SPREAD", {}, False),
    "QMIX, masks": (QmixConfig, "LEDUC_POKER", {}, False),
    "QMIX, two groups": (QmixConfig, "SIMPLE_TAG", {}, False),
    "MADDPG": (MaddpgConfig, "SIMPLE_TAG", {}, True),
}


@pytest.mark.parametrize("run", RUNS)
def test_algorithms_run(run, tmp_path):
    algorithm, name, settings, continuous = RUNS[run]
    small = {} if name == "LEDUC_POKER" else {"max_cycles": 7}
    trial = experiment(GpuEnvsTask[name].get_task(small | settings), algorithm, tmp_path, continuous)
    initial = [value.detach().clone() for value in trial.policy.parameters()]
    trial.run()
    assert trial.n_iters_performed == 3
    assert trial.total_frames == 300
    after = list(trial.policy.parameters())
    assert any(not torch.equal(*pair) for pair in zip(initial, after, strict=True))
    assert all(torch.isfinite(value).all() for value in after)
    assert torch.isfinite(torch.tensor(trial.mean_return))


def test_example_runs_with_small_settings(tmp_path):
    import benchmarl_simple_tag

    small = ["--num-envs", "10", "--steps", "10", "--iterations", "1", "--run-dir", str(tmp_path)]
    assert benchmarl_simple_tag.main(small).total_frames == 100
    assert list(tmp_path.rglob("*.csv"))


def test_blocks_of_the_guide_run(monkeypatch, tmp_path):
    """The Python blocks about BenchMARL run in order in one namespace."""
    monkeypatch.chdir(tmp_path)  # an experiment writes into the working folder
    space = notebook.run(notebook.LIBRARIES, notebook.PYTHON, "BenchMARL")
    assert space["experiment"].task.id == "SimpleTag-v0"


def test_tutorial_trains(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert notebook.run(notebook.TUTORIALS / "libraries" / "benchmarl.md")["experiment"].total_frames > 0
