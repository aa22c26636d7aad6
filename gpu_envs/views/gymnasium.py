"""One learner among others as a ``gymnasium.Env``, behind ``gymnasium.make``."""

from typing import Any

import gymnasium
import numpy as np

from gpu_envs.config import MAX_INT
from gpu_envs.errors import ConfigError, ResetNeededError, listed, shown
from gpu_envs.factory import suggested_calls
from gpu_envs.registry import find
from gpu_envs.views.anew import Anew
from gpu_envs.views.batched import RENDER_MODES
from gpu_envs.views.options import one_seed
from gpu_envs.views.others import policies
from gpu_envs.views.single import OneWorld
from gpu_envs.views.specs import SpecInForce


class LearnerEnv(gymnasium.Env, Anew):
    """One agent of one world; ``gymnasium.make("gpu_envs/SimpleTag-v0", learner="agent_0")`` makes it.

    The episode ends when the learner leaves, with its own ``terminated`` or ``truncated``. Where actions can be
    illegal, ``info["action_mask"]`` (int8) tells; where agents take turns an illegal move loses, unless
    ``illegal="error"``. A copied environment is rebuilt from its arguments, and needs a
    reset.

    Args:
        env_id: "SimpleTag-v0", ...
        learner: The agent that is played; needed where there are several.
        others: "random" (legal actions from the world's own streams), a callable ``policy(observation) -> action``
            (``policy(observation, action_mask)`` where actions can be illegal), or a dict of these by agent or group;
            who is not in it acts at random.
        render_mode: "rgb_array", "human" or None.
        device: Where the world lives.
        **config: Settings, as for :func:`gpu_envs.make`.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES}  # noqa: RUF012 as in gymnasium.Env
    spec = SpecInForce()  # type: ignore[assignment]

    def __init__(
        self,
        env_id: str,
        learner: str | None = None,
        others: Any = "random",
        render_mode: str | None = None,
        device: Any = "cpu",
        **config: Any,
    ) -> None:
        Anew.__init__(self, env_id, learner, others, render_mode, device, **config)
        if find(env_id).max_episode_steps is not None:  # gymnasium.make cuts the episodes
            config.setdefault("max_episode_steps", MAX_INT)
        world = self._world = OneWorld(env_id, device, render_mode, config, illegal="original")
        core = self.core = world.core
        names = list(core.possible_agents)
        if learner is None and len(names) > 1:
            raise ConfigError(f"{core.id} has {len(names)} agents: {suggested_calls(core.id, core.definition, {})}")
        if learner is not None and (not isinstance(learner, str) or learner not in names):
            raise ConfigError(f"{core.id}: learner must be one of its agents, {listed(names)}, got {shown(learner)}")
        self.learner = learner or names[0]
        members = {group: [names[row] for row in rows] for group, rows in core.groups.items()}
        by_name = policies(core, others, [*members, *(name for name in names if name != self.learner)])
        self._others = {agent: policy for name, policy in by_name.items() for agent in members.get(name, ())}
        self._others |= {name: policy for name, policy in by_name.items() if name in names}  # an agent's own goes first
        self._others.pop(self.learner, None)
        self.metadata = world.metadata
        self.render_mode = render_mode
        self.observation_space = world.observation_spaces[self.learner]
        self.action_space = world.action_spaces[self.learner]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode. A seed starts the random streams anew.

        ``options`` are the environment's own, if it has any, for this episode's start; see its page.
        """
        seed = one_seed(self.core, seed)
        super().reset(seed=seed)
        self._world.reset(seed, options)
        return self._world.observation(self.learner), self._world.info(self.learner)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play the learner's action, and the others' beside it; its observation is (D,) float32.

        Raises:
            ActionError: The action, or one of a scripted agent, does not fit; nothing has moved.
            ResetNeededError: Before the first reset, and when the learner has left.
        """
        world = self._world
        world.check_running()
        if self.learner not in world.agents:
            raise ResetNeededError(f"{self.core.id}: the episode is over, {self.learner} has left; call reset()")
        if self._others and world.moves(self.learner):  # nobody is asked beside a refused action
            world.check(self.learner, action)
        actions = {self.learner: action}
        for agent in world.agents:
            if agent in self._others and world.moves(agent):
                masks = (world.action_mask(agent),) if world.masked else ()
                actions[agent] = self._others[agent](world.observation(agent), *masks)
        world.step(actions, others_random=True)
        return world.observation(self.learner), *world.outcome(self.learner), world.info(self.learner)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """The world as uint8 (H, W, 3); None with ``render_mode="human"``, which shows it in a window."""
        return self._world.render()

    def close(self) -> None:
        """Release the environment."""
        self._world.close()
