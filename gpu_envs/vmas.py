"""Drop-in replacement of VMAS: a loop that imports ``make_env`` from here instead of from vmas runs unchanged.

    from gpu_envs.vmas import make_env  # was: from vmas import make_env

    env = make_env("balance", num_envs=1024, continuous_actions=True, max_steps=100, seed=0, n_agents=4)

It plays the scenarios of VMAS that are environments here, `SCENARIOS`. The loop may reset, step, sample actions and
render; there is no ``env.scenario``, ``env.world`` or ``agent.action``. Use :func:`gpu_envs.make` in new code.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.views.batched import RenderOutput

SCENARIOS = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", match[1]).lower(): match[0]
    for match in (re.fullmatch(r"VMAS(\w+)-v\d+", id) for id in list_envs())
    if match
}
"""Ids of environments by the names of VMAS's scenarios, such as "give_way"."""
CHOICES = 3
"""Discrete choices along an axis: nothing, backward, forward."""


@dataclass(frozen=True)
class VMASAgent:
    """Agent of an environment of VMAS."""

    name: str
    action_size: int
    """Number of components of a continuous action."""


def make_env(
    scenario: str,
    num_envs: int,
    device: str | int | torch.device = "cpu",
    continuous_actions: bool = True,
    wrapper: None = None,
    max_steps: int | None = None,
    seed: int | None = None,
    dict_spaces: bool = False,
    multidiscrete_actions: bool = False,
    clamp_actions: bool = False,
    grad_enabled: bool = False,
    terminated_truncated: bool = False,
    **kwargs: Any,
) -> "VMASEnvironment":
    """Make an environment with VMAS's interface; the arguments are those of ``vmas.make_env``.

    Args:
        scenario: Key of `SCENARIOS`.
        num_envs: Number of worlds E.
        device: "cpu", "cuda" or "cuda:1", or the number of a GPU.
        continuous_actions: Use Box actions instead of discrete ones.
        wrapper: None; gpu_envs has an interface for each library.
        max_steps: Time limit [steps]; None has none.
        seed: Key of the random streams; None takes one from the operating system.
        dict_spaces: Return dicts by agent instead of lists.
        multidiscrete_actions: Use MultiDiscrete actions, a digit along each axis, instead of Discrete ones.
        clamp_actions: Clip continuous actions to their range; otherwise others are an ActionError.
        grad_enabled: False; kernels have no gradients.
        terminated_truncated: Return terminated and truncated instead of dones.
        **kwargs: Settings of the scenario.

    Raises:
        ConfigError: A scenario that is not here, an unknown setting, a wrapper or ``grad_enabled``.
        DeviceError: The device is not available.
    """
    check_value("make_env", "scenario", scenario, str, choices=tuple(SCENARIOS))
    if wrapper is not None:
        raise ConfigError(f"wrapper: expected None, got {wrapper!r}; docs/guides/libraries.md lists the interfaces")
    if grad_enabled:
        raise ConfigError("grad_enabled: expected False, got True; simulations in kernels have no gradients")
    if multidiscrete_actions and continuous_actions:
        raise ConfigError("multidiscrete_actions: expected False with continuous_actions, got True")
    core = make_core(
        SCENARIOS[scenario],
        num_envs,
        f"cuda:{device}" if isinstance(device, int) else device,
        autoreset="disabled",
        seed=seed,
        max_steps=MAX_INT if max_steps is None else max_steps,
        continuous_actions=continuous_actions,
        **kwargs,
    )
    return VMASEnvironment(core, max_steps, dict_spaces, multidiscrete_actions, clamp_actions, terminated_truncated)


class VMASEnvironment:
    """Environment with the interface of ``vmas.simulator.environment.Environment``.

    Observations, rewards and infos are lists in the order of `agents`, or dicts by name with ``dict_spaces``. Infos are
    empty. Worlds are not reset automatically. A world whose episode has ended stays as it is until :meth:`reset_at`,
    and its rewards are 0; in VMAS it goes on.

    Args:
        core: Environment with ``autoreset="disabled"``.
        max_steps: Time limit [steps], or None.
        dict_spaces, multidiscrete_actions, clamp_actions, terminated_truncated: See :func:`make_env`.
    """

    def __init__(
        self,
        core: Core,
        max_steps: int | None,
        dict_spaces: bool,
        multidiscrete_actions: bool,
        clamp_actions: bool,
        terminated_truncated: bool,
    ) -> None:
        self.core = core
        self.num_envs: int = core.num_envs
        self.batch_dim = self.num_envs
        self.device: torch.device = core.device
        self.max_steps = max_steps
        self.continuous_actions: bool = core.action_kind == "continuous"
        self.dict_spaces = dict_spaces
        self.multidiscrete_actions = multidiscrete_actions
        self.clamp_actions = clamp_actions
        self.terminated_truncated = terminated_truncated
        sizes = map(_action_size, core.action_spaces.values())
        self.agents = [VMASAgent(name, size) for name, size in zip(core.possible_agents, sizes, strict=True)]
        self.n_agents = len(self.agents)
        self.observation_space = self._space(core.observation_spaces)
        moves: dict[str, spaces.Space[Any]] = dict(core.action_spaces)
        if multidiscrete_actions:
            moves = {agent.name: spaces.MultiDiscrete([CHOICES] * agent.action_size) for agent in self.agents}
        self.action_space = self._space(moves)
        boxes = [space for space in core.action_spaces.values() if isinstance(space, spaces.Box)]
        self._bounds = [tuple(torch.from_numpy(end).to(core.device) for end in (box.low, box.high)) for box in boxes]
        self._widths = [space.shape[0] for space in core.observation_spaces.values()]
        self._terminated = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self._truncated = torch.zeros_like(self._terminated)
        self._outputs: dict[str, RenderOutput] = {}
        self._seed: int | None = None
        self.reset()

    def reset(
        self,
        seed: int | None = None,
        return_observations: bool = True,
        return_info: bool = False,
        return_dones: bool = False,
    ) -> Any:
        """Start an episode in all worlds; return observations, and infos and dones if asked."""
        self.core.reset(self._seed if seed is None else seed)
        self._seed = None
        self._terminated.zero_()
        self._truncated.zero_()
        return self._results(return_observations, return_info, return_dones)

    def reset_at(
        self, index: int, return_observations: bool = True, return_info: bool = False, return_dones: bool = False
    ) -> Any:
        """Start an episode in one world; return what :meth:`reset` returns, of all worlds.

        Raises:
            ConfigError: There is no such world.
        """
        check_value(self.core.id, "index", index, int, ge=0, le=self.num_envs - 1)
        mask = torch.arange(self.num_envs, device=self.device) == index
        self.core.reset(reset_mask=mask)
        self._terminated &= ~mask
        self._truncated &= ~mask
        return self._results(return_observations, return_info, return_dones)

    def step(self, actions: Sequence[Any] | Mapping[str, Any]) -> Any:
        """Play one step.

        Args:
            actions: An action per agent, a list or a dict by name: (E, K) float32 in the range of its space; (E,) or
                (E, 1) integers of Discrete(3^K); or (E, K) integers from 0 to 2: nothing, backward, forward.

        Returns:
            Observations (E, D) and rewards (E,) by agent; dones (E,) of worlds, or terminated and truncated; infos.

        Raises:
            ActionError: An agent has no action, or one of another shape or out of its range.
        """
        if isinstance(actions, Mapping):
            if set(actions) != set(self.core.possible_agents):
                expected = ", ".join(self.core.possible_agents)
                raise ActionError(f"{self.core.id}: actions: expected one for each of {expected}, got {list(actions)}")
            actions = [actions[agent.name] for agent in self.agents]
        if len(actions) != self.n_agents:
            raise ActionError(f"{self.core.id}: actions: expected {self.n_agents}, one per agent, got {len(actions)}")
        rows = torch.stack([self._action(row, action) for row, action in enumerate(actions)], 1)
        _, _, terminated, truncated, _ = self.core.step(rows)
        self._terminated |= terminated.any(1)
        self._truncated |= truncated.any(1)
        observations, *ends, infos = self._results(True, True, True)
        rewards = self._by_agent(self.core.reward.clone().unbind(1))
        return [observations, rewards, *ends, infos]

    def done(self) -> Any:
        """Return dones (E,), or terminated and truncated."""
        if self.terminated_truncated:
            return self._terminated.clone(), self._truncated.clone()
        return self._terminated | self._truncated

    @property
    def steps(self) -> torch.Tensor:
        """Number of steps of each world's episode, (E,)."""
        return self.core.elapsed_steps

    def seed(self, seed: int | None = None) -> list[int]:
        """Set the seed of the next :meth:`reset`, 0 for None, and return it."""
        self._seed = seed or 0
        return [self._seed]

    def get_random_action(self, agent: VMASAgent) -> torch.Tensor:
        """Return a random action of an agent, (E, K) or (E, 1); :meth:`get_random_actions` samples all at once."""
        return self.get_random_actions()[self.agents.index(agent)]

    def get_random_actions(self) -> list[torch.Tensor]:
        """Return a random action per agent in all worlds, as :meth:`step` takes them."""
        rows = self.core.sample_actions().clone().unbind(1)
        if self.multidiscrete_actions:
            return [row[:, None] // self._place_values(index) % CHOICES for index, row in enumerate(rows)]
        return list(rows)

    def render(
        self,
        mode: str = "human",
        env_index: int = 0,
        agent_index_focus: int | None = None,
        visualize_when_rgb: bool = False,
    ) -> np.ndarray | None:
        """Show a world in a window, or return its frame (H, W, 3) uint8.

        Args:
            mode: "human" or "rgb_array".
            env_index: Index of the world.
            agent_index_focus: None; frames show the whole world.
            visualize_when_rgb: Show a window with "rgb_array", too.

        Raises:
            ConfigError: Another mode, no such world, or an agent to focus on.
        """
        label = self.core.id
        check_value(label, "mode", mode, str, choices=("human", "rgb_array"))
        check_value(label, "env_index", env_index, int, ge=0, le=self.num_envs - 1)
        if agent_index_focus is not None:
            raise ConfigError(f"{label}: agent_index_focus: expected None, got {agent_index_focus!r}")
        if visualize_when_rgb and mode != "human":
            self._output("human").show((env_index,))
        return self._output(mode).show((env_index,))

    def close(self) -> None:
        """Release the environment and its window."""
        for output in self._outputs.values():
            output.close()
        self.core.close()

    def _output(self, mode: str) -> RenderOutput:
        if mode not in self._outputs:
            self._outputs[mode] = RenderOutput(self.core, mode)
        return self._outputs[mode]

    def _space(self, by_agent: Mapping[str, spaces.Space[Any]]) -> spaces.Tuple | spaces.Dict:
        return spaces.Dict(dict(by_agent)) if self.dict_spaces else spaces.Tuple(list(by_agent.values()))

    def _by_agent(self, values: Sequence[Any]) -> list[Any] | dict[str, Any]:
        if self.dict_spaces:
            return dict(zip(self.core.possible_agents, values, strict=True))
        return list(values)

    def _results(self, observations: bool, infos: bool, dones: bool) -> Any:
        """Return the results that are asked for as a list, or a single one itself."""
        results = list[Any]()
        if observations:
            rows = zip(self.core.obs.clone().unbind(1), self._widths, strict=True)
            results.append(self._by_agent([row[:, :width] for row, width in rows]))
        if dones:
            results += self.done() if self.terminated_truncated else [self.done()]
        if infos:
            results.append(self._by_agent([{} for _ in self.agents]))
        return results[0] if len(results) == 1 else results

    def _place_values(self, row: int) -> torch.Tensor:
        """Return what the digits of a discrete action are worth in its number, the first one most, (K,)."""
        return CHOICES ** torch.arange(self.agents[row].action_size - 1, -1, -1, device=self.device)

    def _action(self, row: int, action: Any) -> torch.Tensor:
        """Return the action of the agent in a row as the core takes it."""
        action = torch.as_tensor(action, device=self.device).detach()
        components = self.agents[row].action_size
        size = 1 if not self.continuous_actions and not self.multidiscrete_actions else components
        if action.ndim == 1 and size == 1:
            action = action[:, None]
        if tuple(action.shape) != (self.num_envs, size):
            label = f"{self.core.id}: action of {self.agents[row].name}"
            raise ActionError(f"{label}: expected shape {(self.num_envs, size)}, got {tuple(action.shape)}")
        if self.continuous_actions:
            action = action.to(torch.float32)
            return action.clamp(*self._bounds[row]) if self.clamp_actions else action
        number = action[:, 0] if size == 1 else (action * self._place_values(row)).sum(1)
        last = CHOICES - 1 if self.multidiscrete_actions else CHOICES**components - 1
        is_legal = (action == action.round()).all(1) & ((action >= 0) & (action <= last)).all(1)
        return torch.where(is_legal, number, -1).long()  # the core reports -1


def _action_size(space: spaces.Space[Any]) -> int:
    """Return the number of components of an action, which are digits of a discrete one."""
    if isinstance(space, spaces.Discrete):
        return round(math.log(space.n, CHOICES))
    return spaces.flatdim(space)
