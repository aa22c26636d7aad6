"""skrl's IPPO or MAPPO on SimpleSpread: tensors stay on the device between simulator and learner.

Needs: pip install '.[skrl]'. Run: python examples/skrl_simple_spread.py --algorithm ippo
"""

import argparse
import sys

import torch
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG
from skrl.multi_agents.torch.mappo import MAPPO, MAPPO_CFG
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

import gpu_envs
from gpu_envs.views.skrl import make_skrl, per_agent

EPISODE = 25  # steps
ALGORITHMS = {"ippo": (IPPO, IPPO_CFG, "observations"), "mappo": (MAPPO, MAPPO_CFG, "states")}  # input of the critic


def layers(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Policy(CategoricalMixin, Model):
    """Policy network: own observation to action."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = layers(self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Critic(DeterministicMixin, Model):
    """Value network of the own observation (IPPO) or of the global state (MAPPO, a centralized critic)."""

    def __init__(self, sees, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.sees = sees
        self.net = layers(self.num_states if sees == "states" else self.num_observations, 1)

    def compute(self, inputs, role=""):
        return self.net(inputs[self.sees]), {}


@torch.no_grad()
def mean_return(policies, device, worlds=512):
    """Return the mean return of an agent over one episode per world, with greedy or random actions."""
    env = gpu_envs.make("SimpleSpread-v0", num_envs=worlds, device=device)
    obs, _ = env.reset(seed=12345)
    total = 0.0
    for _ in range(EPISODE):
        actions = env.sample_actions()
        if policies:
            actions = {agent: policies[agent].net(obs[agent]).argmax(1) for agent in actions}
        obs, reward, _, _, _ = env.step(actions)
        total += sum(value.mean() for value in reward.values()) / len(reward)
    return float(total)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="mappo")
    parser.add_argument("--num-envs", type=int, default=256, help="number of worlds")
    parser.add_argument(
        "--iterations", type=int, default=80, help="number of iterations; each is one episode per world"
    )
    parser.add_argument("--device", default=None, help="cpu or cuda (default: cuda if available)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    torch.set_num_threads(1)  # more threads are slower for small networks
    set_seed(args.seed)
    env = make_skrl("SimpleSpread-v0", num_envs=args.num_envs, device=args.device, seed=args.seed)
    algorithm, config, sees = ALGORITHMS[args.algorithm]
    models = {}
    for agent in env.possible_agents:
        spaces = {
            "observation_space": env.observation_space(agent),
            "state_space": env.state_space(agent),
            "action_space": env.action_space(agent),
            "device": env.device,
        }
        models[agent] = {"policy": Policy(**spaces), "value": Critic(sees, **spaces)}
    cfg = config(
        rollouts=EPISODE,
        learning_epochs=5,
        mini_batches=4,
        learning_rate=1e-3,
        entropy_loss_scale=0.005,
        time_limit_bootstrap=True,  # bootstrap at truncations
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": env.device},
    )
    cfg.experiment.directory = "out/skrl"
    cfg.experiment.checkpoint_interval = 0
    learner = algorithm(
        possible_agents=env.possible_agents,
        models=models,
        memories={
            agent: RandomMemory(memory_size=EPISODE, num_envs=env.num_envs, device=env.device)
            for agent in env.possible_agents
        },
        cfg=per_agent(cfg, env.possible_agents),
        observation_spaces=env.observation_spaces,
        state_spaces=env.state_spaces,
        action_spaces=env.action_spaces,
        device=env.device,
    )
    settings = {"timesteps": args.iterations * EPISODE, "headless": True, "close_environment_at_exit": False}
    settings |= {"disable_progressbar": not sys.stdout.isatty()}
    SequentialTrainer(env=env, agents=learner, cfg=settings).train()

    before = mean_return(None, env.device)
    after = mean_return({agent: models[agent]["policy"] for agent in models}, env.device)
    print(f"mean return of an agent: {before:.2f} at random, {after:.2f} after {args.iterations} iterations")
    env.close()
    return before, after


if __name__ == "__main__":
    main()
