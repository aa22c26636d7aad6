"""MAPPO with TorchRL on SimpleSpread-v0: one policy and one centralised critic per group of agents.

    pip install 'gpu-envs[torchrl]'
    python examples/torchrl_mappo.py

A few minutes on two CPU cores. Worlds, policy and learner share one device, and nothing goes through NumPy.
"""

import argparse

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from gpu_envs.views.torchrl import TorchRLEnv


def policy_and_loss(
    env: TransformedEnv, group: str, args: argparse.Namespace
) -> tuple[ProbabilisticActor, ClipPPOLoss]:
    """The actor of a group, which its agents share, and its loss with a critic that sees the whole group."""
    n, width = env.observation_spec[group, "observation"].shape[-2:]
    choices = env.full_action_spec[group, "action"].space.n
    shape = {"n_agents": n, "share_params": True, "depth": 2, "num_cells": 64, "activation_class": torch.nn.Tanh}
    net = MultiAgentMLP(width, choices, centralised=False, device=env.device, **shape)
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=[(group, "observation")], out_keys=[(group, "logits")]),
        spec=env.full_action_spec[group, "action"],
        in_keys={"logits": (group, "logits")},
        out_keys=[(group, "action")],
        distribution_class=Categorical,
        return_log_prob=True,
        log_prob_key=(group, "log_prob"),
    )
    net = MultiAgentMLP(width, 1, centralised=True, device=env.device, **shape)
    critic = TensorDictModule(net, in_keys=[(group, "observation")], out_keys=[(group, "value")])
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=1.0, normalize_advantage=True)
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


def main(argv: list[str] | None = None) -> list[dict[str, float]]:
    """Train; returns every iteration's mean return of the episodes that ended in it, by group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--id", default="SimpleSpread-v0")
    parser.add_argument("--device", default=None, help="cuda where there is one")
    parser.add_argument("--num-envs", type=int, default=128, help="worlds")
    parser.add_argument("--steps", type=int, default=50, help="of every world, per iteration")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    base = TorchRLEnv(args.id, args.num_envs, args.device, seed=args.seed)
    groups = list(base.group_map)
    rewards = [(group, "reward") for group in groups]
    returns = [(group, "episode_return") for group in groups]
    env = TransformedEnv(base, RewardSum(in_keys=rewards, out_keys=returns))
    learners = {group: policy_and_loss(env, group, args) for group in groups}
    optimisers = {group: torch.optim.Adam(loss.parameters(), args.lr) for group, (_, loss) in learners.items()}
    frames = args.num_envs * args.steps
    collector = Collector(
        env,
        TensorDictSequential(*(actor for actor, _ in learners.values())),
        frames_per_batch=frames,
        total_frames=frames * args.iterations,
        device=base.device,
        auto_register_policy_transforms=False,  # there is no recurrent policy that would need them
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
            buffer.empty()
            buffer.extend(data.reshape(-1))
            for _ in range(args.epochs * args.minibatches):
                terms = loss(buffer.sample())
                optimisers[group].zero_grad()
                (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimisers[group].step()
        ended = data["next", "done"][..., 0]
        history.append({group: data["next", group, "episode_return"][ended].mean().item() for group in groups})
        if iteration % 5 == 0 or iteration == args.iterations - 1:
            print(f"iteration {iteration:3d}  " + "  ".join(f"{g} {r:8.2f}" for g, r in history[-1].items()))
    collector.shutdown()
    return history


if __name__ == "__main__":
    main()
