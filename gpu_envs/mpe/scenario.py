"""Views and interfaces of the scenarios, which mpe2 calls by modules."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import ConfigError
from gpu_envs.views.pettingzoo import Infos, ParallelView

if TYPE_CHECKING:
    from pettingzoo import AECEnv


class MpeView(ParallelView):
    """A single world with mpe2's additions to PettingZoo's interface.

    Actions outside of a Box are clipped, as by mpe2's wrapper; NaN is an error. ``metadata["name"]`` is mpe2's name,
    infos are empty after a reset, and the stage of a curriculum can be read and set.
    """

    def __init__(self, id: str, render_mode: str | None = None, device: Any = "cpu", **config: Any) -> None:
        super().__init__(id, render_mode, device, **config)
        name, self._scenario = next(
            (name, scenario) for name, scenario in SCENARIOS.items() if scenario.id == self.core.id
        )
        self.metadata: dict[str, Any] = {**self.metadata, "name": name}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Start an episode; see ``ParallelView.reset``. As in mpe2 infos are empty until the first step."""
        observations, infos = super().reset(seed, options)
        return observations, {agent: {} for agent in infos}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one step; see ``ParallelView.step``."""
        if isinstance(actions, dict):
            actions = {agent: self._clipped(agent, action) for agent, action in actions.items()}
        return super().step(actions)

    def _clipped(self, agent: str, action: Any) -> Any:
        """Return an action clipped to its bounds; invalid values are returned unchanged, for the error of ``step``."""
        space = self.action_spaces.get(agent)
        if isinstance(space, spaces.Box) and isinstance(action, np.ndarray) and action.shape == space.shape:
            return np.clip(action, space.low, space.high)  # NaN stays NaN
        return action

    @property
    def curriculum_stage(self) -> int:
        """Current stage, from 0; it has an effect only with ``curriculum=True``."""
        return int(self.core.get_params()["curriculum_stage"][0]) if self._scenario.last_stage else 0

    def set_curriculum_stage(self, stage: int) -> None:
        """Set the stage, clipped to the first and the last stage.

        Raises:
            ConfigError: The scenario has no curriculum.
        """
        last = self._scenario.last_stage
        if last is None:
            have = " and ".join(scenario.id for scenario in SCENARIOS.values() if scenario.last_stage)
            raise ConfigError(f"{self._scenario.id} has no curriculum; {have} have one")
        self.core.set_params(curriculum_stage=min(max(int(stage), 0), last))

    def advance_curriculum(self) -> None:
        """Set the next stage, up to the last one; raise a ConfigError if the scenario has no curriculum."""
        self.set_curriculum_stage(self.curriculum_stage + 1)


@dataclass(frozen=True)
class Scenario:
    """Interface of one of mpe2's modules."""

    id: str
    """Id of the environment in gpu_envs."""
    last_stage: int | None = None
    """Last stage of the curriculum; None without a curriculum."""

    def parallel_env(self, render_mode: str | None = None, **config: Any) -> MpeView:
        """Return a world as a ``pettingzoo.ParallelEnv``, as mpe2's ``parallel_env``.

        Args:
            render_mode: "rgb_array", "human" or None.
            **config: Parameters of mpe2 by name; the environment's page lists them.

        Raises:
            ConfigError: A setting does not exist or has an invalid value.
        """
        return MpeView(self.id, render_mode, **config)

    def env(self, render_mode: str | None = None, **config: Any) -> "AECEnv":
        """Return a world as a ``pettingzoo.AECEnv``, as mpe2's ``env``; arguments as for :meth:`parallel_env`."""
        from pettingzoo.utils import wrappers
        from pettingzoo.utils.conversions import parallel_to_aec_wrapper

        class OrderedAEC(parallel_to_aec_wrapper):
            """AEC wrapper in which agents leave in mpe2's order, not sorted by name."""

            def step(self, action: Any) -> None:
                super().step(action)
                if self.agents and all(self.truncations[agent] or self.terminations[agent] for agent in self.agents):
                    self.agents.sort(key=self.possible_agents.index)
                    self.agent_selection = self.agents[0]

        return wrappers.OrderEnforcingWrapper(OrderedAEC(self.parallel_env(render_mode, **config)))

    def raw_env(self, render_mode: str | None = None, **config: Any) -> "AECEnv":
        """Return :meth:`env`, because the environment itself does all checks of mpe2's wrappers."""
        return self.env(render_mode, **config)


SCENARIOS: dict[str, Scenario] = {
    "collect_treasure_v1": Scenario("CollectTreasure-v0"),
    "simple_v3": Scenario("Simple-v0"),
    "simple_adversary_v3": Scenario("SimpleAdversary-v0"),
    "simple_crypto_v3": Scenario("SimpleCrypto-v0"),
    "simple_formation_v1": Scenario("SimpleFormation-v0"),
    "simple_line_v1": Scenario("SimpleLine-v0"),
    "simple_push_v3": Scenario("SimplePush-v0"),
    "simple_reference_v3": Scenario("SimpleReference-v0"),
    "simple_speaker_listener_v4": Scenario("SimpleSpeakerListener-v0"),
    "simple_spread_v3": Scenario("SimpleSpread-v0", last_stage=1),
    "simple_tag_v3": Scenario("SimpleTag-v0", last_stage=2),
    "simple_world_comm_v3": Scenario("SimpleWorldComm-v0"),
}
"""Environments by mpe2's module names."""
