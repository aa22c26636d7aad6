"""PPO with Lightning: three chasers of SimpleTag share a policy, the prey moves at random; half a minute on a CPU."""

import lightning
import torch
from torch.distributions import Categorical
from torch.nn import Linear, Sequential, Tanh

import gpu_envs


class Chasers(lightning.LightningModule):
    def __init__(self, core):
        super().__init__()
        self.core, self.returns = core, []
        self.actor = Sequential(Linear(16, 64), Tanh(), Linear(64, 64), Tanh(), Linear(64, 5))  # observation, actions
        self.critic = Sequential(Linear(16, 64), Tanh(), Linear(64, 64), Tanh(), Linear(64, 1))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)

    @torch.no_grad()
    def train_dataloader(self, steps=25, gamma=0.95, lam=0.95):  # minibatches of episodes, on the device
        team, (after, _) = list(self.core.groups["adversary"]), self.core.reset()
        while True:
            rollout = []
            for _ in range(steps):
                obs, joint = after, self.core.sample_actions()
                joint[:, team] = Categorical(logits=self.actor(obs[:, team])).sample()
                after, reward, terminated, truncated, info = self.core.step(joint)
                last = torch.where((terminated | truncated)[..., None], info["final_obs"], after)  # ends included
                rollout.append([x[:, team] for x in (obs, joint, reward, terminated, truncated, info["valid"], last)])
            seen, action, reward, terminated, truncated, valid, last = map(torch.stack, zip(*rollout, strict=True))
            old, value = Categorical(logits=self.actor(seen)).log_prob(action), self.critic(seen)[..., 0]
            advantage = 0.3 * reward + gamma * self.critic(last)[..., 0] * ~terminated - value  # no bootstrap
            for t in reversed(range(steps - 1)):
                advantage[t] += gamma * lam * ~(terminated | truncated)[t] * advantage[t + 1]
            batch = [x[valid] for x in (seen, action, old, advantage, advantage + value)]  # valid steps only
            self.returns.append(float(reward.sum(0).mean()))
            yield from ([x[i] for x in batch] for _ in range(4) for i in torch.rand_like(batch[3]).argsort().chunk(4))

    def training_step(self, batch):
        seen, action, old, advantage, target = batch
        policy, advantage = Categorical(logits=self.actor(seen)), (advantage - advantage.mean()) / advantage.std()
        ratio = (policy.log_prob(action) - old).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) + 0.01 * policy.entropy()
        self.log("return of a chaser", self.returns[-1], prog_bar=True)
        return (self.critic(seen)[..., 0] - target).square().mean() - gain.mean()


def train(iterations=60, num_envs=128, device=None, seed=0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more threads are slower for small networks
    chasers = Chasers(gpu_envs.make("SimpleTag-v0", num_envs=num_envs, device=device, seed=seed).core)
    settings = {"logger": False, "enable_checkpointing": False, "gradient_clip_val": 0.5, "max_steps": 16 * iterations}
    lightning.Trainer(accelerator=chasers.core.device.type, devices=1, **settings).fit(chasers)
    return chasers.returns[:iterations]  # Lightning fetches one batch more


if __name__ == "__main__":
    train()
