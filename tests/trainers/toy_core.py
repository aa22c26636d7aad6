"""Small environments with the interface of gpu_envs' core, in plain torch, for tests of the trainers.

Their state is `self.worlds` (tensors led by E) and their random stream `self.generator`. The base class handles deaths,
truncation, SAME_STEP autoreset and statistics as the real core does.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor


class ToyCore:
    """Base with deaths, autoreset and statistics; subclasses define `_start`, `_play` and `_observe`."""

    render_fps = 5
    resumes_episodes = True

    def __init__(self, num_envs: int, groups: dict[str, tuple[int, ...]], limit: int, seed: int = 0) -> None:
        self.id, self.config, self.limit = type(self).__name__, SimpleNamespace(), limit
        self.definition, self.action_mask = (
            SimpleNamespace(
                max_episode_steps=limit,
                global_state_size=0,
                results=(),
                roles={},
                zero_sum=False,
                truncation_interval=limit,
                fingerprint="toy",
            ),
            None,
        )
        self.to_move = None
        self.groups, self.num_envs, self.device = groups, num_envs, torch.device("cpu")
        self.num_agents = sum(len(rows) for rows in groups.values())
        names = {row: f"{group}_{i}" for group, rows in groups.items() for i, row in enumerate(rows)}
        self.possible_agents = tuple(names[row] for row in range(self.num_agents))
        self.generator = torch.Generator().manual_seed(seed)
        shape = (num_envs, self.num_agents)
        self.worlds: dict[str, Tensor] = {"step": torch.zeros(num_envs, dtype=torch.int64)}
        self.worlds["running"] = torch.zeros(shape)
        self.worlds["age"] = torch.zeros(shape, dtype=torch.int32)
        self.alive, self.valid = torch.ones(shape, dtype=torch.bool), torch.ones(shape, dtype=torch.bool)
        self.terminated, self.truncated = torch.zeros_like(self.alive), torch.zeros_like(self.alive)
        self.reward, self.episode_return = torch.zeros(shape), torch.zeros(shape)
        self.episode_length = torch.zeros(shape, dtype=torch.int32)
        self.episode_results = torch.zeros((*shape, 0))

    def _finish_init(self, width: int, spaces_by_agent: dict[str, spaces.Space]) -> None:
        self.obs_width, self.action_spaces = width, spaces_by_agent
        self.observation_spaces = {
            agent: spaces.Box(-np.inf, np.inf, (width,), np.float32) for agent in self.possible_agents
        }
        self.definition.observation_spaces, self.definition.channels_first = self.observation_spaces, False
        self.obs = torch.zeros((self.num_envs, self.num_agents, width))
        self.final_obs = torch.full_like(self.obs, torch.nan)
        self.info = {name: getattr(self, name) for name in INFO}
        self.action_buffer = torch.zeros_like(self.sample_actions())
        self._start(torch.ones(self.num_envs, dtype=torch.bool))

    def reset(self, seed: int | None = None, reset_mask: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._restart(torch.ones(self.num_envs, dtype=torch.bool) if reset_mask is None else reset_mask)
        return self.obs, self.info

    def _restart(self, mask: Tensor) -> None:
        self.worlds["step"].masked_fill_(mask, 0)
        for name in ("running", "age"):
            self.worlds[name].masked_fill_(mask.unsqueeze(1), 0)
        self.alive.masked_fill_(mask.unsqueeze(1), True)
        self._start(mask)
        self.obs.copy_(torch.where(mask[:, None, None], self._observe(), self.obs))

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        self.valid.copy_(self.alive)
        self.worlds["step"] += 1
        reward, goal = self._play(action)
        self.reward.copy_(reward.masked_fill(~self.valid, 0.0))
        self.terminated.copy_(goal & self.valid)
        self.truncated.copy_((self.worlds["step"] >= self.limit).unsqueeze(1) & self.valid & ~self.terminated)
        done = self.terminated | self.truncated
        self.worlds["running"] += self.reward
        self.worlds["age"] += self.valid
        self.episode_return.copy_(torch.where(done, self.worlds["running"], self.episode_return))
        self.episode_length.copy_(torch.where(done, self.worlds["age"], self.episode_length))
        self.alive &= ~done
        now = self._observe().masked_fill(~self.valid.unsqueeze(-1), 0.0)
        self.final_obs.copy_(torch.where(done.unsqueeze(-1), now, self.final_obs))
        self.obs.copy_(now)
        ended = ~self.alive.any(1)
        if bool(ended.any()):
            self._restart(ended)
        return self.obs, self.reward, self.terminated, self.truncated, self.info

    def get_state(self) -> dict[str, Tensor]:
        live = {name: getattr(self, name) for name in (*LIVE, *INFO)} | self.worlds
        return {name: tensor.clone() for name, tensor in live.items()} | {"generator": self.generator.get_state()}

    def set_state(self, state: dict[str, Tensor]) -> None:
        live = {name: getattr(self, name) for name in (*LIVE, *INFO)} | self.worlds
        for name, tensor in live.items():
            tensor.copy_(state[name])
        self.generator.set_state(state["generator"])

    def state(self) -> Tensor:
        return self.obs.flatten(1).clone()

    @property
    def elapsed_steps(self) -> Tensor:
        return self.worlds["step"]

    def raise_pending_errors(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _random(self, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)


INFO = ("valid", "alive", "final_obs", "episode_return", "episode_length")
LIVE = ("obs", "reward", "terminated", "truncated")


class Identity(ToyCore):
    """Repeat the observation: reward 1 for the right action; agents never die, and episodes are truncated.

    kind "discrete": a number below 3; agents of group "odd" must add one, modulo 3. "multi_discrete": two numbers,
    below 3 and 2. "continuous": a number in [-1, 1], reward minus the squared distance, in the box [-2, 2]. `masked`
    makes one wrong action illegal (discrete only).
    """

    def __init__(self, num_envs: int, kind: str = "discrete", *, limit: int = 4, masked: bool = False, seed: int = 0):
        super().__init__(num_envs, {"even": (0, 2), "odd": (1,)}, limit, seed)
        self.kind, self.masked = kind, masked
        self.sizes = {"discrete": [3], "multi_discrete": [3, 2], "continuous": [1]}[kind]
        space = {
            "discrete": spaces.Discrete(3),
            "multi_discrete": spaces.MultiDiscrete([3, 2]),
            "continuous": spaces.Box(-2.0, 2.0, (1,), np.float32),
        }[kind]
        self.worlds["target"] = torch.zeros((num_envs, 3, len(self.sizes)))
        self.mask = torch.ones((num_envs, 3, 3), dtype=torch.bool)
        self._finish_init(1 if kind == "continuous" else sum(self.sizes), dict.fromkeys(self.possible_agents, space))
        if masked:
            self.info["action_mask"] = self.action_mask = self.mask

    def _start(self, mask: Tensor) -> None:
        fresh = [self._random(size, (self.num_envs, 3)).float() for size in self.sizes]
        if self.kind == "continuous":
            fresh = [torch.rand((self.num_envs, 3), generator=self.generator) * 2 - 1]
        self.worlds["target"].copy_(torch.where(mask[:, None, None], torch.stack(fresh, -1), self.worlds["target"]))
        self._update_mask()

    def set_state(self, state: dict[str, Tensor]) -> None:
        super().set_state(state)
        self._update_mask()

    def _answer(self) -> Tensor:
        shift = torch.tensor([0, 1, 0])
        return (self.worlds["target"][..., 0].long() + shift) % 3 if self.kind == "discrete" else self.worlds["target"]

    def _update_mask(self) -> None:
        if self.masked:
            self.mask.fill_(True).scatter_(-1, ((self._answer() + 1) % 3).unsqueeze(-1), False)

    def _play(self, action: Tensor) -> tuple[Tensor, Tensor]:
        never = torch.zeros_like(self.alive)
        if self.kind == "continuous":
            assert bool((action.abs() <= 2).all())
            return -(action - self.worlds["target"]).square().sum(-1), never
        if self.masked:
            assert bool(self.mask.gather(-1, action.unsqueeze(-1)).all()), "illegal action"
        right = (action if self.kind == "multi_discrete" else action.unsqueeze(-1)) == self._answer().view(
            self.num_envs, 3, -1
        )
        return right.float().mean(-1), never

    def _observe(self) -> Tensor:
        target = self.worlds["target"]
        if self.kind == "continuous":
            return target.clone()
        parts = [torch.nn.functional.one_hot(target[..., k].long(), size) for k, size in enumerate(self.sizes)]
        return torch.cat(parts, -1).float()

    def sample_actions(self) -> Tensor:
        if self.kind == "continuous":
            return torch.rand((self.num_envs, 3, 1), generator=self.generator) * 4 - 2
        if self.masked:
            return torch.multinomial(self.mask.view(-1, 3).float(), 1, generator=self.generator).view(-1, 3)
        draws = torch.stack([self._random(size, (self.num_envs, 3)) for size in self.sizes], -1)
        return draws if self.kind == "multi_discrete" else draws[..., 0]


class Corridor(ToyCore):
    """Two walkers start at a random cell of 0..4; action 1 moves right, 0 left; reaching cell 6 pays 1 and terminates.

    The first walker to arrive is dead until the other arrives or the episode is truncated. Each step costs 0.05.
    """

    END = 6

    def __init__(self, num_envs: int, limit: int = 20, seed: int = 0) -> None:
        super().__init__(num_envs, {"walker": (0, 1)}, limit, seed)
        self.worlds["cell"] = torch.zeros((num_envs, 2), dtype=torch.int64)
        self._finish_init(self.END + 1, dict.fromkeys(self.possible_agents, spaces.Discrete(2)))

    def _start(self, mask: Tensor) -> None:
        fresh = self._random(5, (self.num_envs, 2))
        self.worlds["cell"].copy_(torch.where(mask.unsqueeze(1), fresh, self.worlds["cell"]))

    def _play(self, action: Tensor) -> tuple[Tensor, Tensor]:
        move = (2 * action - 1) * self.alive
        self.worlds["cell"].add_(move).clamp_(0, self.END)
        goal = (self.worlds["cell"] == self.END) & self.alive
        return goal.float() - 0.05, goal

    def _observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.worlds["cell"], self.END + 1).float()

    def sample_actions(self) -> Tensor:
        return self._random(2, (self.num_envs, 2))


class Recall(ToyCore):
    """Two agents see 0 or 1 (one-hot) at the first step only; naming it at the last step pays 1."""

    def __init__(self, num_envs: int, limit: int = 4, seed: int = 0) -> None:
        super().__init__(num_envs, {"agent": (0, 1)}, limit, seed)
        self.worlds["cue"] = torch.zeros((num_envs, 2), dtype=torch.int64)
        self._finish_init(3, dict.fromkeys(self.possible_agents, spaces.Discrete(2)))

    def _start(self, mask: Tensor) -> None:
        self.worlds["cue"].copy_(
            torch.where(mask.unsqueeze(1), self._random(2, (self.num_envs, 2)), self.worlds["cue"])
        )

    def _play(self, action: Tensor) -> tuple[Tensor, Tensor]:
        last = (self.worlds["step"] == self.limit).unsqueeze(1).expand_as(self.alive)
        return ((action == self.worlds["cue"]) & last).float(), last

    def _observe(self) -> Tensor:
        first, last = self.worlds["step"] == 0, self.worlds["step"] == self.limit - 1
        cue = torch.nn.functional.one_hot(self.worlds["cue"], 2) * first[:, None, None]
        return torch.cat([cue, last[:, None, None].expand(-1, 2, 1)], -1).float()

    def sample_actions(self) -> Tensor:
        return self._random(2, (self.num_envs, 2))


class TwoStep(ToyCore):
    """The two-step game of Rashid et al. 2018, section 6, for two agents.

    Agent 0 chooses the game of the second step. One pays both agents 7 for any action, the other 0, 1, 1 or 8. The best
    return is 8, but by the mean of that game 7 looks better.
    """

    PAYS = torch.tensor([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        super().__init__(num_envs, {"player": (0, 1)}, 10, seed)
        self.worlds["stage"] = torch.zeros(num_envs, dtype=torch.int64)
        self._finish_init(3, dict.fromkeys(self.possible_agents, spaces.Discrete(2)))

    def _start(self, mask: Tensor) -> None:
        self.worlds["stage"].masked_fill_(mask, 0)

    def _play(self, action: Tensor) -> tuple[Tensor, Tensor]:
        stage = self.worlds["stage"].clone()
        pays = self.PAYS[(stage - 1).clamp(min=0), action[:, 0], action[:, 1]] * (stage > 0)
        self.worlds["stage"].copy_(torch.where(stage == 0, 1 + action[:, 0], stage))
        return pays.unsqueeze(1).expand(-1, 2).clone(), (stage > 0).unsqueeze(1).expand(-1, 2)

    def _observe(self) -> Tensor:
        stages = torch.nn.functional.one_hot(self.worlds["stage"], 3).float()
        return stages.unsqueeze(1).expand(-1, 2, -1).clone()

    def sample_actions(self) -> Tensor:
        return self._random(2, (self.num_envs, 2))


class RecallOfThree(ToyCore):
    """Two agents see their own cue, 0 or 1, at the first of three steps, and must name it at the last.

    The last step pays 1 for the right answer and terminates. Observations always include the step.
    """

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        super().__init__(num_envs, {"player": (0, 1)}, 10, seed)
        self.worlds["cue"] = torch.zeros((num_envs, 2), dtype=torch.int64)
        self._finish_init(5, dict.fromkeys(self.possible_agents, spaces.Discrete(2)))

    def _start(self, mask: Tensor) -> None:
        fresh = self._random(2, (self.num_envs, 2))
        self.worlds["cue"].copy_(torch.where(mask.unsqueeze(1), fresh, self.worlds["cue"]))

    def _play(self, action: Tensor) -> tuple[Tensor, Tensor]:
        last = (self.worlds["step"] == 3).unsqueeze(1).expand(-1, 2)
        return ((action == self.worlds["cue"]) & last).float(), last

    def _observe(self) -> Tensor:
        step = self.worlds["step"].clamp(max=2)
        clock = torch.nn.functional.one_hot(step, 3).float().unsqueeze(1).expand(-1, 2, -1)
        cue = torch.nn.functional.one_hot(self.worlds["cue"], 2) * (step == 0)[:, None, None]
        return torch.cat([clock, cue.float()], -1)

    def sample_actions(self) -> Tensor:
        return self._random(2, (self.num_envs, 2))


def make_toy(config, num_envs: int, seed: int, **settings) -> ToyCore:
    """Return the toy environment of a configuration; a core factory for `Trainer`."""
    return {"Corridor": Corridor, "TwoStep": TwoStep, "RecallOfThree": RecallOfThree}[config.env_id](
        num_envs, seed=seed, **settings
    )
