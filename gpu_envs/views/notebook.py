"""Summaries of views and films of episodes, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_envs.runtime.core import Core
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import check_frame
from gpu_envs.views.scripted_agents import ScriptedAgents

if TYPE_CHECKING:
    from gpu_envs.rendering.video import InlineVideo

MAX_STEPS = 10_000
"""Largest number of steps of a film."""


class NotebookView(Summarized):
    """Base of the views of a core."""

    core: Core
    """Core that the view shows."""

    def _summary(self) -> Summary:
        return self.core._summary()

    def video(
        self, steps: int = 100, policies: Any = "random", *, num_envs: int = 1, size: int = 256, seed: int = 0
    ) -> InlineVideo:
        """Return a film of new episodes, which a notebook shows as the result of a cell.

        The film is played in separate worlds with the same settings and parameters: this environment is unchanged.

        ::

            env.video(steps=100, policies=result.policies, num_envs=4)

        Args:
            steps: Number of steps, one frame each.
            policies: "random", or a dict of policies by group; groups without one act at random. A policy has
                ``act(obs, mask)``, as in ``trainers``, or is a callable ``policy(obs) -> action`` on tensors
                (E, n, D) and (E, n[, K]), with the signature ``policy(obs, action_mask)`` if actions can be illegal.
            num_envs: Number of worlds, tiled.
            size: Side of a world [pixels].
            seed: Random seed of the worlds.

        Raises:
            ConfigError: An argument is out of range, or a policy does not fit.
            MissingExtraError: The package imageio is not installed.
        """
        from gpu_envs.rendering.video import InlineVideo

        core = self.core
        check_value(core.id, "steps", steps, int, ge=1, le=MAX_STEPS)
        check_value(core.id, "num_envs", num_envs, int, ge=1, le=64)
        check_frame(core.id, 0, 1, size)
        twin = _twin(core, num_envs, seed)
        return InlineVideo(_frames(twin, steps, policies, size), core.render_fps, core.id)


def _twin(core: Any, num_envs: int, seed: int) -> Core:
    """Return a core of other worlds with the settings and parameters of the first worlds of a core."""
    twin = Core(
        core.definition,
        env_id=core.id,
        config=core.config,
        num_envs=num_envs,
        device=core.device,
        autoreset="next_step",
        illegal_actions="saturate",
        seed=check_value(core.id, "seed", seed, int, ge=0),
        domain_randomization=core.domain_randomization,
    )
    values = core.get_params([world % core.num_envs for world in range(num_envs)])
    skipped = {*core.definition.fixed_params, *(core.domain_randomization or ())}
    twin.set_params(**{name: value for name, value in values.items() if name not in skipped})
    return twin


def _frames(core: Core, steps: int, policies: Any, size: int) -> Iterator[Any]:
    """Play the steps and yield the frames (W, size, size, 3) before each step."""
    from gpu_envs.rendering.trails import TrailRenderer

    players = ScriptedAgents(core, policies, [], argument="policies")
    renderer = TrailRenderer(core, range(core.num_envs), size)
    nothing = core.action_buffer[:, :0]
    core.reset()
    for _ in range(steps):
        yield renderer.frame()
        core.step(players.join(slice(0, 0), nothing))
