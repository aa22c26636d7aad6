"""BenchMARL on SimpleTag-v0: taggers and runner train with MAPPO against each other.

BenchMARL needs an older TorchRL than the torchrl extra, so give it a virtual environment of its own:

    python3 -m venv .venv-benchmarl
    .venv-benchmarl/bin/pip install 'benchmarl>=1.5' -e .
    .venv-benchmarl/bin/python examples/benchmarl_simple_tag.py
"""

import argparse
from pathlib import Path

from benchmarl.algorithms import algorithm_config_registry
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

from gpu_envs.views.benchmarl import GpuEnvsTask


def main(argv: list[str] | None = None) -> Experiment:
    """Train, evaluate, and write CSV files under ``out/``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="SIMPLE_TAG", choices=[task.name for task in GpuEnvsTask])
    parser.add_argument("--algorithm", default="mappo", choices=sorted(algorithm_config_registry))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--num-envs", type=int, default=128, help="number of worlds")
    parser.add_argument("--steps", type=int, default=50, help="steps per world and iteration")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", type=Path, default=Path("out/benchmarl"))
    args = parser.parse_args(argv)

    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = args.device
    config.max_n_frames, config.max_n_iters = None, args.iterations
    frames = args.num_envs * args.steps
    config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = args.num_envs
    config.on_policy_collected_frames_per_batch = config.off_policy_collected_frames_per_batch = frames
    config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size = 5, max(frames // 4, 1)
    config.off_policy_n_optimizer_steps, config.off_policy_train_batch_size = 50, min(frames, 512)
    config.off_policy_memory_size = 20 * frames
    config.evaluation_interval, config.evaluation_episodes = 5 * frames, 32
    config.render = False
    config.loggers, config.create_json = ["csv"], False
    args.run_dir.mkdir(parents=True, exist_ok=True)
    config.save_folder = str(args.run_dir)

    experiment = Experiment(
        task=GpuEnvsTask[args.task].get_task(),
        algorithm_config=algorithm_config_registry[args.algorithm].get_from_yaml(),
        model_config=MlpConfig.get_from_yaml(),
        critic_model_config=MlpConfig.get_from_yaml(),
        seed=args.seed,
        config=config,
    )
    experiment.run()
    return experiment


if __name__ == "__main__":
    main()
