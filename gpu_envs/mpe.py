"""mpe2's entrances over this library's worlds: a script that imports from ``gpu_envs.mpe`` instead of mpe2 runs.

    from gpu_envs.mpe import simple_spread_v3  # was: from mpe2 import simple_spread_v3

    env = simple_spread_v3.parallel_env(N=5, max_cycles=50)

It plays one world in NumPy, as PettingZoo does. For batches of worlds take :func:`gpu_envs.make`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import ConfigError
from gpu_envs.views.pettingzoo import Infos, ParallelView

if TYPE_CHECKING:
    from pettingzoo import AECEnv


class MpeView(ParallelView):
    """A single world with what mpe2's environments have beside PettingZoo's interface.

    Actions beyond a Box are clipped to it, as mpe2's wrapper does; NaN is an error. ``metadata["name"]`` is mpe2's
    name, infos are empty after a reset, and where there is a curriculum its stage can be read and set.
    """

    def __init__(self, id: str, render_mode: str | None = None, device: Any = "cpu", **config: Any) -> None:
        super().__init__(id, render_mode, device, **config)
        name, self._scenario = next((name, it) for name, it in SCENARIOS.items() if it.id == self._world.core.id)
        self.metadata = {**self.metadata, "name": name}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Start an episode; see :meth:`ParallelView.reset`. As in mpe2 infos are empty until the first step."""
        observations, infos = super().reset(seed, options)
        return observations, {agent: {} for agent in infos}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one step; see :meth:`ParallelView.step`."""
        if isinstance(actions, dict):
            actions = {agent: self._clipped(agent, action) for agent, action in actions.items()}
        return super().step(actions)

    def _clipped(self, agent: str, action: Any) -> Any:
        """An action within its bounds; what is none at all is left to the check that names it."""
        space = self.action_spaces.get(agent)
        if isinstance(space, spaces.Box) and isinstance(action, np.ndarray) and action.shape == space.shape:
            return np.clip(action, space.low, space.high)  # NaN stays NaN
        return action

    @property
    def curriculum_stage(self) -> int:
        """The present stage, from 0; it counts only with ``curriculum=True``."""
        return int(self._world.core.get_params()["curriculum_stage"][0]) if self._scenario.last_stage else 0

    def set_curriculum_stage(self, stage: int) -> None:
        """Go to a stage; beyond the first or the last it is that one.

        Raises:
            ConfigError: The scenario has no stages.
        """
        last = self._scenario.last_stage
        if last is None:
            have = " and ".join(scenario.id for scenario in SCENARIOS.values() if scenario.last_stage)
            raise ConfigError(f"{self._scenario.id} has no curriculum; {have} have one")
        self._world.core.set_params(curriculum_stage=min(max(int(stage), 0), last))

    def advance_curriculum(self) -> None:
        """Go to the next stage; in the last, stay. Raises what :meth:`set_curriculum_stage` does."""
        self.set_curriculum_stage(self.curriculum_stage + 1)


@dataclass(frozen=True)
class Scenario:
    """What one of mpe2's modules offers."""

    id: str
    """This library's environment."""
    last_stage: int | None = None
    """Number of the last stage of its curriculum; None where it has none."""

    def parallel_env(self, render_mode: str | None = None, **config: Any) -> MpeView:
        """mpe2's ``parallel_env``: one world as a ``pettingzoo.ParallelEnv``.

        Args:
            render_mode: "rgb_array", "human" or None.
            **config: mpe2's parameters, under its names; the environment's page lists them.

        Raises:
            ConfigError: A setting that does not exist or has a bad value.
        """
        return MpeView(self.id, render_mode, **config)

    def env(self, render_mode: str | None = None, **config: Any) -> "AECEnv":
        """mpe2's ``env``: the same world as a ``pettingzoo.AECEnv``; arguments as :meth:`parallel_env`."""
        from pettingzoo.utils import wrappers
        from pettingzoo.utils.conversions import parallel_to_aec_wrapper

        class InTurn(parallel_to_aec_wrapper):
            """At the end agents leave in mpe2's order, not by their names."""

            def step(self, action: Any) -> None:
                super().step(action)
                if self.agents and all(self.truncations[agent] or self.terminations[agent] for agent in self.agents):
                    self.agents.sort(key=self.possible_agents.index)
                    self.agent_selection = self.agents[0]

        return wrappers.OrderEnforcingWrapper(InTurn(self.parallel_env(render_mode, **config)))

    def raw_env(self, render_mode: str | None = None, **config: Any) -> "AECEnv":
        """mpe2's ``raw_env``; here it is :meth:`env`, since all checks are the environment's own."""
        return self.env(render_mode, **config)


SCENARIOS = {
    "simple_v3": Scenario("Simple-v0"),
    "simple_adversary_v3": Scenario("SimpleAdversary-v0"),
    "simple_crypto_v3": Scenario("SimpleCrypto-v0"),
    "simple_push_v3": Scenario("SimplePush-v0"),
    "simple_reference_v3": Scenario("SimpleReference-v0"),
    "simple_speaker_listener_v4": Scenario("SimpleSpeakerListener-v0"),
    "simple_spread_v3": Scenario("SimpleSpread-v0", last_stage=1),
    "simple_tag_v3": Scenario("SimpleTag-v0", last_stage=2),
    "simple_world_comm_v3": Scenario("SimpleWorldComm-v0"),
}
"""mpe2's module names and the environments behind them."""
