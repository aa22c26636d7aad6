"""MAPPO with TorchRL on SimpleSpread-v0: one policy and one centralized critic per group of agents.

    pip install '.[torchrl]'
    python examples/torchrl_mappo.py
    python examples/torchrl_mappo.py --env-id TagContinuous-v0 --config '{"num_runners": 8, "episode_length": 50}'

Less than a minute on two CPU cores. Worlds, policy and learner share one device, and nothing goes through NumPy.
Agents that have left their world, as tagged runners do, are masked out: TorchRL's losses would learn from their steps.
"""

import argparse
import json

import torch
from gymnasium.spaces import Discrete
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch.distributions import Categorical, Independent
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from gpu_envs.views.torchrl import TorchRLEnv


class Choices(Independent):
    """Joint distribution of several categorical actions with equal numbers of choices."""

    def __init__(self, logits: torch.Tensor, count: int) -> None:
        super().__init__(Categorical(logits=logits.unflatten(-1, (count, -1))), 1)


def policy_and_loss(env: TransformedEnv, group: str) -> tuple[ProbabilisticActor, ClipPPOLoss]:
    """Return the shared actor of a group, and its loss with a critic that observes the whole group."""
    n, width = env.observation_spec[group, "observation"].shape[-2:]
    space = env.base_env.core.action_spaces[env.base_env.group_map[group][0]]
    counts = [int(space.n)] if isinstance(space, Discrete) else space.nvec.tolist()
    several = {"distribution_class": Choices, "distribution_kwargs": {"count": len(counts)}}
    shape = {"n_agents": n, "share_params": True, "depth": 2, "num_cells": 64, "activation_class": torch.nn.Tanh}
    net = MultiAgentMLP(width, sum(counts), centralized=False, device=env.device, **shape)
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=[(group, "observation")], out_keys=[(group, "logits")]),
        spec=env.full_action_spec[group, "action"],
        in_keys={"logits": (group, "logits")},
        out_keys=[(group, "action")],
        **({"distribution_class": Categorical} if len(counts) == 1 else several),
        return_log_prob=True,
        log_prob_key=(group, "log_prob"),
    )
    net = MultiAgentMLP(width, 1, centralized=True, device=env.device, **shape)
    critic = TensorDictModule(net, in_keys=[(group, "observation")], out_keys=[(group, "value")])
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=1.0, reduction="none")
    loss.set_keys(
        reward=(group, "reward"),
        action=(group, "action"),
        done=(group, "done"),
        terminated=(group, "terminated"),
        value=(group, "value"),
        advantage=(group, "advantage"),
        value_target=(group, "value_target"),
        sample_log_prob=(group, "log_prob"),
    )
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.95, lmbda=0.9)
    return actor, loss


def standardized(advantage: torch.Tensor, acted: torch.Tensor) -> torch.Tensor:
    """Normalize advantages (..., n, 1) to mean 0 and deviation 1 over the agents (..., n) that acted."""
    weight = acted[..., None].float()
    centered = advantage - (advantage * weight).sum() / weight.sum()
    return centered / ((centered.square() * weight).sum() / weight.sum()).sqrt().clamp(min=1e-6)


def mean_loss(loss: ClipPPOLoss, batch: TensorDictBase, group: str) -> torch.Tensor:
    """Return the loss over the valid steps of the agents of a group."""
    terms, acted = loss(batch), batch[group, "alive"]
    each = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]  # (B, n)
    return torch.where(acted, each, 0.0).sum() / acted.sum()


def main(argv: list[str] | None = None) -> list[dict[str, float]]:
    """Train; return the mean return of finished episodes per iteration, by group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", default="SimpleSpread-v0")
    parser.add_argument("--config", type=json.loads, default={}, help="settings of the environment, as JSON")
    parser.add_argument("--device", default=None, help="cpu or cuda (default: cuda if available)")
    parser.add_argument("--num-envs", type=int, default=128, help="number of worlds")
    parser.add_argument("--steps", type=int, default=50, help="steps per world and iteration")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    base = TorchRLEnv(args.env_id, args.num_envs, args.device, seed=args.seed, **args.config)
    groups = list(base.group_map)
    rewards = [(group, "reward") for group in groups]
    returns = [(group, "episode_return") for group in groups]
    env = TransformedEnv(base, RewardSum(in_keys=rewards, out_keys=returns))
    learners = {group: policy_and_loss(env, group) for group in groups}
    optimizers = {group: torch.optim.Adam(loss.parameters(), args.lr) for group, (_, loss) in learners.items()}
    frames = args.num_envs * args.steps
    collector = Collector(
        env,
        TensorDictSequential(*(actor for actor, _ in learners.values())),
        frames_per_batch=frames,
        total_frames=frames * args.iterations,
        device=base.device,
        auto_register_policy_transforms=False,  # only needed by recurrent policies
    )
    minibatch = frames // args.minibatches
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(frames, device=base.device),
        sampler=SamplerWithoutReplacement(),
        batch_size=minibatch,
    )
    history = []
    for iteration, data in enumerate(collector):
        for group, (_, loss) in learners.items():
            with torch.no_grad():
                loss.value_estimator(
                    data, params=loss.critic_network_params, target_params=loss.target_critic_network_params
                )
            data[group, "advantage"] = standardized(data[group, "advantage"], data[group, "alive"])
            buffer.empty()
            buffer.extend(data.reshape(-1))
            for _ in range(args.epochs * args.minibatches):
                optimizers[group].zero_grad()
                mean_loss(loss, buffer.sample(), group).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimizers[group].step()
        ended = data["next", "done"][..., 0]
        history.append({group: data["next", group, "episode_return"][ended].mean().item() for group in groups})
        if iteration % 5 == 0 or iteration == args.iterations - 1:
            print(f"iteration {iteration:3d}  " + "  ".join(f"{g} {r:8.2f}" for g, r in history[-1].items()))
    collector.shutdown()
    return history


if __name__ == "__main__":
    main()
