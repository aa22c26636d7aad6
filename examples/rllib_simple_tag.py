"""RLlib's PPO on SimpleTag, new API stack: a pack that shares one policy learns to catch a prey that moves at random.

Needs: pip install 'gpu-envs[rllib]'. Run: python examples/rllib_simple_tag.py
"""

import argparse

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.rllib.examples.rl_modules.classes.random_rlm import RandomRLModule
from ray.tune.registry import register_env

import gpu_envs

PACK = ("adversary_0", "adversary_1", "adversary_2")


def group_of(agent, episode=None, **kwargs):
    """adversary_2 is of the group adversary, whose policy it plays."""
    return agent.rpartition("_")[0]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--batch", type=int, default=4000, help="steps of a world per iteration")
    parser.add_argument("--num-envs", type=int, default=10, help="worlds, which RLlib steps one by one")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    torch.set_num_threads(1)  # networks this small would only wait for more
    mine = not ray.is_initialized()
    if mine:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    register_env(
        "SimpleTag", lambda config: ParallelPettingZooEnv(gpu_envs.parallel_env("SimpleTag-v0", **dict(config)))
    )
    config = (
        PPOConfig()
        .environment("SimpleTag", env_config={"max_cycles": 25})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=args.num_envs)
        .learners(num_learners=0)
        .multi_agent(policies={"adversary", "agent"}, policy_mapping_fn=group_of, policies_to_train=["adversary"])
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(
                rl_module_specs={"adversary": RLModuleSpec(), "agent": RLModuleSpec(module_class=RandomRLModule)}
            )
        )
        .training(train_batch_size_per_learner=args.batch, minibatch_size=500, num_epochs=8, lr=5e-4)
        .debugging(seed=args.seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    returns = []
    for iteration in range(args.iterations):
        result = algorithm.train()["env_runners"]
        returns.append(sum(float(result["agent_episode_returns_mean"][agent]) for agent in PACK) / len(PACK))
        print(f"iteration {iteration:3d}   mean return of an adversary {returns[-1]:7.2f}", flush=True)
    algorithm.stop()
    if mine:
        ray.shutdown()
    return returns


if __name__ == "__main__":
    main()
