"""Summary of an environment, for every view of it."""

import dataclasses
from typing import Any

from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.utils.summaries import Summary, format_range

__all__ = ["changed_settings", "env_summary", "space_text"]


def env_summary(
    id: str, definition: EnvDefinition, config: Any, agents: list[str] | None = None, **facts: Any
) -> Summary:
    """Return the summary of an environment: its settings, and the agents and spaces of every group.

    Args:
        id: ID of the environment.
        definition: Configured environment.
        config: Settings of the environment.
        agents: Agents that a view controls; None: all.
        **facts: Facts of a view, such as its number of worlds and its device.
    """
    rows = []
    for group, members in definition.groups.items():
        names = [definition.agents[row] for row in members]
        names = [name for name in names if agents is None or name in agents]
        if names:
            observation, action = definition.observation_spaces[names[0]], definition.action_spaces[names[0]]
            rows.append((group, format_range(names), space_text(observation), space_text(action)))
    facts["settings"] = changed_settings(config)
    return Summary(id, facts, ("group", "agents", "observation", "action"), rows)


def space_text(space: spaces.Space[Any]) -> str:
    """Return a space in few words: the shape of a Box, and its bounds if they are finite and equal; a Dict's Boxes."""
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {space_text(box)}' for name, box in space.items())})"
    if not isinstance(space, spaces.Box):
        return str(space)
    low, high = {float(bound) for bound in space.low.flat}, {float(bound) for bound in space.high.flat}
    if len(low) == len(high) == 1 and space.is_bounded():
        return f"Box({low.pop():g}, {high.pop():g}, {space.shape})"
    return f"Box{space.shape}"


def changed_settings(config: Any) -> str | None:
    """Return the settings that differ from their defaults; None if all are defaults."""
    changed = [
        f"{field.name}={getattr(config, field.name)!r}"
        for field in dataclasses.fields(config)
        if repr(getattr(config, field.name)) != repr(field.default)
    ]
    return ", ".join(changed) or None
