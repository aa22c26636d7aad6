"""PPO as a LightningModule with manual optimisation on SimpleTag: three chasers share a policy, the prey is random.

python examples/lightning_ppo.py --iterations 60
"""

import argparse

import lightning
import torch
from torch import nn
from torch.distributions import Categorical

import gpu_envs


def mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Chasers(lightning.LightningModule):
    def __init__(self, core, steps=25, gamma=0.95, lam=0.95):
        super().__init__()
        self.automatic_optimization = False
        self.core, self.steps, self.gamma, self.lam, self.returns = core, steps, gamma, lam, []
        self.team = list(core.groups["adversary"])
        self.width = core.observation_spaces["adversary_0"].shape[0]
        self.actor, self.critic = mlp(self.width, core.action_spaces["adversary_0"].n), mlp(self.width, 1)

    def train_dataloader(self):
        """Rollouts without end, each as rows (N, ...) of the steps that count; they stay on the core's device."""
        core, team, width = self.core, self.team, self.width
        obs = core.reset()[0][:, team, :width]
        while True:
            rollout = []
            for _ in range(self.steps):
                with torch.no_grad():
                    policy = Categorical(logits=self.actor(obs))
                    action, joint = policy.sample(), core.sample_actions()
                    joint[:, team] = action
                    after, *results, info = core.step(joint)
                    reward, terminated, truncated, valid = (x[:, team] for x in (*results, info["valid"]))
                    done, after = terminated | truncated, after[:, team, :width]
                    final = torch.where(done[..., None], info["final_obs"][:, team, :width], after)
                    value, following = self.critic(obs)[..., 0], self.critic(final)[..., 0] * ~terminated
                    error = 0.3 * reward + self.gamma * following - value
                    rollout.append((obs, action, policy.log_prob(action), value, error, done, valid, reward))
                    obs = after
            seen, action, old, value, error, done, valid, reward = map(torch.stack, zip(*rollout, strict=True))
            self.returns.append(reward.sum(0).mean() * 25 / self.steps)  # an episode has 25 steps
            advantage, last = torch.zeros_like(error), torch.zeros_like(error[0])
            for t in reversed(range(self.steps)):
                advantage[t] = last = error[t] + self.gamma * self.lam * last * ~done[t]
            yield tuple(x[valid] for x in (seen, action, old, advantage, advantage + value))

    def training_step(self, batch, index):
        seen, action, old, advantage, target = batch
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        optimizer = self.optimizers()
        for rows in (rows for _ in range(4) for rows in torch.randperm(len(seen), device=seen.device).chunk(4)):
            policy = Categorical(logits=self.actor(seen[rows]))
            ratio = (policy.log_prob(action[rows]) - old[rows]).exp()
            gain = torch.min(ratio * advantage[rows], ratio.clamp(0.8, 1.2) * advantage[rows]).mean()
            value_loss = (self.critic(seen[rows])[..., 0] - target[rows]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(value_loss - gain - 0.01 * policy.entropy().mean())
            self.clip_gradients(optimizer, 0.5, "norm")
            optimizer.step()
        self.log("return", self.returns[-1], prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def train(iterations=60, num_envs=128, device=None, seed=0):
    lightning.seed_everything(seed)
    core = gpu_envs.make("SimpleTag-v0", num_envs=num_envs, device=device, seed=seed).core
    chasers = Chasers(core)
    where = {"accelerator": core.device.type, "devices": 1 if core.device.index is None else [core.device.index]}
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    lightning.Trainer(max_epochs=1, limit_train_batches=iterations, **where, **quiet).fit(chasers)
    return [float(value) for value in chasers.returns]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--device", default=None, help="cpu, cuda; by default cuda if there is one")
    torch.set_num_threads(1)  # small networks: more threads would wait for each other
    returns = train(**vars(parser.parse_args()))
    print(f"return of a chaser: {returns[0]:.2f} at first, {returns[-1]:.2f} at the end")
