"""PPO in plain PyTorch: three chasers of SimpleTag share a policy, the prey moves at random; half a minute on a CPU."""

import torch
from torch import nn
from torch.distributions import Categorical

import gpu_envs

STEPS, GAMMA, LAMBDA = 25, 0.95, 0.95  # a rollout is one episode per world


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def train(iterations=60, num_envs=128, device=None, seed=0):
    torch.manual_seed(seed)
    core = gpu_envs.make("SimpleTag-v0", num_envs=num_envs, device=device, seed=seed).core
    team, width = list(core.groups["adversary"]), core.observation_spaces["adversary_0"].shape[0]
    actor, critic = (mlp(width, size).to(core.device) for size in (core.action_spaces["adversary_0"].n, 1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
    after, _ = core.reset()
    returns = []
    for _ in range(iterations):
        rollout = []
        with torch.no_grad():
            for _ in range(STEPS):
                obs, joint = after, core.sample_actions()
                joint[:, team] = Categorical(logits=actor(obs[:, team, :width])).sample()
                after, reward, terminated, truncated, info = core.step(joint)
                done = terminated | truncated
                last = torch.where(done[..., None], info["final_obs"], after)  # after is the next episode
                rollout.append([x[:, team] for x in (obs, joint, reward, terminated, done, info["valid"], last)])
            seen, action, reward, terminated, done, valid, last = map(torch.stack, zip(*rollout, strict=True))
            seen, last = seen[..., :width], last[..., :width]
            old, value = Categorical(logits=actor(seen)).log_prob(action), critic(seen)[..., 0]
            advantage = (
                0.3 * reward + GAMMA * critic(last)[..., 0] * ~terminated - value
            )  # no bootstrap after a termination
            for t in reversed(range(STEPS - 1)):
                advantage[t] += GAMMA * LAMBDA * ~done[t] * advantage[t + 1]
        batch = [x[valid] for x in (seen, action, old, advantage, advantage + value)]  # valid steps only
        for rows in [rows for _ in range(4) for rows in torch.randperm(len(batch[0]), device=core.device).chunk(4)]:
            seen, action, old, advantage, target = (x[rows] for x in batch)
            policy, advantage = Categorical(logits=actor(seen)), (advantage - advantage.mean()) / advantage.std()
            ratio = (policy.log_prob(action) - old).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) + 0.01 * policy.entropy()
            loss = (critic(seen)[..., 0] - target).square().mean() - gain.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
            optimizer.step()
        returns.append(float(reward.sum(0).mean()))
        print(f"iteration {len(returns):3d}   return of a chaser {returns[-1]:6.2f}")
    return returns


if __name__ == "__main__":
    torch.set_num_threads(1)  # more threads are slower for small networks
    train()
