"""PPO in plain PyTorch on SimpleTag: three chasers share a policy, the prey moves at random. All on one device.

python examples/torch_ppo.py --iterations 60
"""

import argparse

import torch
from torch import nn
from torch.distributions import Categorical

import gpu_envs


def mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def train(iterations=60, num_envs=128, steps=25, gamma=0.95, lam=0.95, epochs=4, minibatches=4, device=None, seed=0):
    torch.manual_seed(seed)
    core = gpu_envs.make("SimpleTag-v0", num_envs=num_envs, device=device, seed=seed).core
    team = list(core.groups["adversary"])  # their rows among all agents
    width = core.observation_spaces["adversary_0"].shape[0]
    actor, critic = (mlp(width, size).to(core.device) for size in (core.action_spaces["adversary_0"].n, 1))
    params = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(params, lr=3e-3)
    obs, returns = core.reset()[0][:, team, :width], []
    for iteration in range(iterations):
        rollout = []
        with torch.no_grad():
            for _ in range(steps):
                policy = Categorical(logits=actor(obs))
                action, joint = policy.sample(), core.sample_actions()
                joint[:, team] = action
                after, reward, terminated, truncated, info = core.step(joint)
                reward, terminated, truncated, valid = (
                    x[:, team] for x in (reward, terminated, truncated, info["valid"])
                )
                done = terminated | truncated
                after = after[:, team, :width]
                final = torch.where(done[..., None], info["final_obs"][:, team, :width], after)  # what was really seen
                value, following = critic(obs)[..., 0], critic(final)[..., 0] * ~terminated
                error = 0.3 * reward + gamma * following - value
                rollout.append((obs, action, policy.log_prob(action), value, error, done, valid, reward))
                obs = after
        seen, action, old, value, error, done, valid, reward = map(torch.stack, zip(*rollout, strict=True))
        advantage, last = torch.zeros_like(error), torch.zeros_like(error[0])
        for t in reversed(range(steps)):
            advantage[t] = last = error[t] + gamma * lam * last * ~done[t]
        batch = [x[valid] for x in (seen, action, old, advantage, advantage + value)]  # dead agents teach nothing
        batch[3] = (batch[3] - batch[3].mean()) / (batch[3].std() + 1e-8)
        for _ in range(epochs):
            for rows in torch.randperm(len(batch[0]), device=core.device).chunk(minibatches):
                o, a, log_prob, adv, target = (x[rows] for x in batch)
                policy = Categorical(logits=actor(o))
                ratio = (policy.log_prob(a) - log_prob).exp()
                gain = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.01 * policy.entropy().mean()
                loss = (critic(o)[..., 0] - target).square().mean() - gain
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(params, 0.5)
                optimizer.step()
        returns.append(float(reward.sum(0).mean()) * 25 / steps)  # an episode has 25 steps
        if iteration % 10 == 0 or iteration == iterations - 1:
            print(f"iteration {iteration:3d}   return of a chaser {returns[-1]:7.2f}")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--device", default=None, help="cpu, cuda; by default cuda if there is one")
    torch.set_num_threads(1)  # small networks: more threads would wait for each other
    train(**vars(parser.parse_args()))
