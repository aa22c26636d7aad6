"""Wrappers of Gymnasium, PettingZoo and SuperSuit on the interfaces of SimpleTag.

Needs: pip install '.[supersuit]'. Run: python examples/generic_vector_env.py
"""

import warnings

import gymnasium
import numpy as np
import supersuit
from gymnasium.wrappers import RecordEpisodeStatistics, TransformReward
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

import gpu_envs
from gpu_envs import wrappers


def tensors(worlds: int = 64) -> float:
    """Wrap rows of tensors; return the mean return of a chaser that moves at random."""
    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=worlds, group="adversary")
    counted = wrappers.RecordEpisodeStatistics(env)
    env = wrappers.FrameStackObservation(wrappers.NormalizeObservation(counted), 4)
    env.reset(seed=0)
    for _ in range(60):
        env.step(env.unwrapped.sample_actions())
    return float(np.mean(counted.return_queue))


def one_agent() -> dict[str, float]:
    """Wrap one agent as a ``gymnasium.Env``; return the return and length of an episode."""
    env = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", opponents="random")
    env = TransformReward(RecordEpisodeStatistics(env), lambda reward: 0.1 * reward)
    env.reset(seed=0)
    done = False
    while not done:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        done = terminated or truncated
    return {name: float(info["episode"][name]) for name in ("r", "l")}


def turns() -> int:
    """Wrap a world for PettingZoo and SuperSuit, agent by agent; return the number of actions."""
    env = supersuit.frame_stack_v1(OrderEnforcingWrapper(gpu_envs.aec_env("SimpleTag-v0")), 4)
    env.reset(seed=0)
    acted = 0
    for agent in env.agent_iter():
        _, _, terminated, truncated, _ = env.last()
        acted += not (terminated or truncated)
        env.step(None if terminated or truncated else env.action_space(agent).sample())
    return acted


def vector(worlds: int = 8, num_cpus: int = 2) -> tuple[int, ...]:
    """Pad observations of worlds in a vector environment over processes; return the shape of its observations."""
    world = supersuit.pad_observations_v0(gpu_envs.parallel_env("SimpleTag-v0"))
    rows = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.frame_stack_v1(world, 4))
    env = supersuit.concat_vec_envs_v1(rows, worlds, num_cpus=num_cpus, base_class="gymnasium")
    env.reset()
    obs, *_ = env.step(np.array([env.action_space.sample() for _ in range(env.num_envs)]))
    env.close()
    return obs.shape


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # deprecations in SuperSuit
    print(f"rows of tensors:        mean return of a chaser at random {tensors():.2f}")
    print(f"one agent:              {one_agent()}")
    print(f"one after the other:    {turns()} moves")
    print(f"a vector of worlds:     observations {vector()}")
