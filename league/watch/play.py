"""A person plays in the viewer's page: one world, whose other agents act by policies.

The page asks for JSON; GET only::

    api/run         what is played
        - kind: "play"; env_id, name, agent (the person's), opponents (in words), fps
        - realtime: whether the world moves on at its pace, rather than with every key
        - choices: [[name]]: names of the actions of every component; null: actions are continuous
        - parts: [{name, low, high}]: components of continuous actions; null: actions are discrete

    api/turn        the present turn, as api/rollout of `league.watch.api` with one world: what happened since the last
        - turn: number of the turn
        - legal: [[bool]]: whether each choice is legal, by component; null: all are
        - returns: [sum of the rewards in the episode so far], by agent
        - over: whether the episode has ended

    api/turn?turn=N&action=A    the turn after an action: "2", or "0,3" by component, or "new" for a new episode.
                                Another N is a repeated request, and changes nothing
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs import descriptions
from gpu_envs.errors import ConfigError, shown
from gpu_envs.runtime.core import Core
from league.watch.api import UnknownAnswerError, encode_json
from league.watch.rollouts import MAX_STEPS, rollout_answer, snapshot
from trainers.base.random_streams import SEEDS, derive_seed
from trainers.models.policy_set import Players, PolicyRunner

REALTIME_FPS = 10
"""Environments in which agents act at once move on by themselves from this frame rate on."""


class PlayApi:
    """Responses to requests of the page about the world that a person plays in."""

    def __init__(self, core: Core, agent: str, players: Players, opponents: str, seed: int) -> None:
        """Start the first episode.

        Args:
            core: A world on the CPU with autoreset "disabled".
            agent: Agent of the person.
            players: Policy of each group or agent; agents without one, except the person's, act at random.
            opponents: The policies in words.
            seed: Random seed of the first episode; further episodes have the seeds that follow.

        Raises:
            ConfigError: The environment has no such agent, or declares no shapes to draw.
        """
        if core.definition.draw is None:
            raise ConfigError(f"{core.id}: expected an environment that declares what to draw; play another one")
        if agent not in core.possible_agents:
            raise ConfigError(f"--as: expected one of {', '.join(core.possible_agents)}, got {agent!r}")
        self.core, self.agent, self.players, self.opponents, self.seed = core, agent, players, opponents, seed
        self.row: int = core.possible_agents.index(agent)
        self.space: spaces.Space[Any] = core.action_spaces[agent]
        self.turn: int = 0
        self._lock = threading.Lock()
        self._start()

    def answer(self, name: str, query: str = "") -> bytes:
        """Return the response to `api/NAME?QUERY`.

        Raises:
            UnknownAnswerError: There is no such answer.
            ConfigError: The action is not legal, or not one of this agent.
        """
        if name == "run":
            return encode_json(self._run())
        if name != "turn":
            raise UnknownAnswerError(f"api/{repr(name)[1:-1]:.80}: there is no such answer; there are run, turn")
        arguments = dict(parse_qsl(query))
        with self._lock:
            if "action" in arguments and arguments.get("turn") == str(self.turn):
                self._act(arguments["action"])
            return self._answer

    def _run(self) -> dict[str, Any]:
        core, group = self.core, next(name for name, rows in self.core.groups.items() if self.row in rows)
        named = descriptions.describe_actions(core) or descriptions.describe_action_parts(core) or {}
        names: list[Any] = named.get(self.agent) or named.get(group) or []
        choices, parts = None, None
        if isinstance(self.space, spaces.Box):
            bounds = zip(self.space.low.tolist(), self.space.high.tolist(), strict=True)
            parts = [
                {"name": names[index] if names else str(index), "low": low, "high": high}
                for index, (low, high) in enumerate(bounds)
            ]
        else:
            names = names if isinstance(self.space, spaces.MultiDiscrete) else [names]
            choices = [
                names[index] if index < len(names) and names[index] else [str(choice) for choice in range(size)]
                for index, size in enumerate(self._sizes())
            ]
        return {
            "kind": "play",
            "env_id": core.id,
            "name": f"{core.id} as {self.agent}",
            "agents": list(core.possible_agents),
            "agent": self.agent,
            "opponents": self.opponents,
            "fps": core.render_fps,
            "realtime": core.to_move is None and core.render_fps >= REALTIME_FPS,
            "choices": choices,
            "parts": parts,
        }

    def _sizes(self) -> list[int]:
        """Return the number of choices of every component of a discrete action."""
        if isinstance(self.space, spaces.MultiDiscrete):
            return self.space.nvec.tolist()
        assert isinstance(self.space, spaces.Discrete)
        return [int(self.space.n)]

    def _legal(self) -> list[list[bool]] | None:
        mask = self.info.get("action_mask")
        if mask is None or isinstance(self.space, spaces.Box):
            return None
        sizes = self._sizes()
        return [part.tolist() for part in mask[0, self.row, : sum(sizes)].split(sizes)]

    def _act(self, text: str) -> None:
        if text == "new":
            self.seed = (self.seed + 1) % SEEDS
            self._start()
        elif self.over:
            raise ConfigError("action: the episode has ended; start a new one")
        else:
            self._go_on(self._parsed(text))

    def _parsed(self, text: str) -> Tensor:
        """Return an action as a row of the action buffer; raise ConfigError if it is none, or not legal."""
        try:
            values = [float(word) for word in text.split(",")]
        except ValueError:
            values = []
        action = torch.zeros_like(self.core.action_buffer[0, self.row])
        if isinstance(self.space, spaces.Box):
            low, high = self.space.low.tolist(), self.space.high.tolist()
            fits = len(values) == len(low) and all(map(lambda x, a, b: a <= x <= b, values, low, high))
        else:
            legal = self._legal() or [[True] * size for size in self._sizes()]
            fits = len(values) == len(legal) and all(
                math.isfinite(value) and value == int(value) and 0 <= value < len(part) and part[int(value)]
                for value, part in zip(values, legal, strict=True)
            )
        if not fits:
            raise ConfigError(f"action: expected a legal action of {self.agent}, got {shown(text)}")
        action.view(-1)[: len(values)] = torch.tensor(values).to(action.dtype)
        return action

    def _start(self) -> None:
        """Start an episode, and let policies play until the person is to act."""
        for index, policy in enumerate({id(p): p for p in self.players.values() if p is not None}.values()):
            policy.seed(derive_seed(self.seed, index))
        self.obs, self.info = self.core.reset(seed=self.seed)
        self.runner = PolicyRunner(self.core, self.players)
        self.returns: Tensor = torch.zeros(self.core.num_agents, dtype=torch.float64)
        self._go_on(None)

    def _decides(self) -> bool:
        """Return whether the person acts in the next step."""
        moves: Tensor = self.info.get("to_move", self.core.alive)
        return bool(self.core.alive[0, self.row] & moves[0, self.row])

    @torch.no_grad()
    def _go_on(self, action: Tensor | None) -> None:
        """Play an action of the person, then until the person acts again or the episode ends."""
        core = self.core
        visible = core.alive.clone()
        frames: list[Mapping[str, Tensor]] = [snapshot(core, visible)]
        played: list[Mapping[str, Tensor]] = []
        while len(played) < MAX_STEPS and core.alive.any() and (action is not None or not self._decides()):
            joint = self.runner.act(self.obs, self.info)
            if action is not None:
                joint[0, self.row] = action
                action = None
            self.obs, reward, _, _, self.info = core.step(joint)
            self.returns += reward[0].double()
            played.append({"action": joint.to(torch.float32, copy=True), "reward": reward.clone()})
            visible = core.alive if core.alive.any() else self.info["valid"]  # the last agents stay visible
            frames.append(snapshot(core, visible))
        self.over: bool = not bool(core.alive.any())
        self.turn += 1
        self._answer: bytes = encode_json(
            {
                **rollout_answer(core, [], self.seed, frames, played),
                "complete": [True],
                "turn": self.turn,
                "legal": None if self.over else self._legal(),
                "returns": self.returns.tolist(),
                "over": self.over,
            }
        )
