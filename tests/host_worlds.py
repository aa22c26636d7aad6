"""Small PettingZoo and Gymnasium environments for the tests of host environments."""

import multiprocessing
import os
import threading

import gymnasium
import numpy as np
import pettingzoo
from gymnasium import spaces


class Countdown(pettingzoo.ParallelEnv):
    """Two walkers and a flyer; walker_0 terminates at step 2, and all others are truncated at step `limit`.

    The observation of walkers is (step, first number of the seed's stream), the flyer's the step alone. The reward is
    the number of the step. With `masks`, choice 1 is illegal at odd steps.
    """

    metadata = {"name": "countdown", "render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, limit: int = 4, masks: bool = False, render_mode: str | None = None) -> None:
        self.possible_agents = ["walker_0", "walker_1", "flyer_0"]
        self.agents, self.limit, self.masks, self.render_mode = [], limit, masks, render_mode
        self.step_count, self.number, self.actions = 0, 0.0, {}

    def observation_space(self, agent):
        return spaces.Box(-1e6, 1e6, (2 if "walker" in agent else 1,), np.float64)

    def action_space(self, agent):
        return spaces.Discrete(3, start=5)

    def reset(self, seed=None, options=None):
        self.number = float(np.random.default_rng(seed).random())
        self.agents, self.step_count = list(self.possible_agents), 0
        return self._observed(), self._infos()

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(5 <= action < 8 for action in actions.values())
        self.step_count += 1
        observations, live = self._observed(), self.agents
        terminated = {agent: self.step_count == 2 and agent == "walker_0" for agent in live}
        truncated = dict.fromkeys(live, self.step_count == self.limit)
        infos = self._infos()
        self.agents = [agent for agent in live if not (terminated[agent] or truncated[agent])]
        return observations, dict.fromkeys(live, float(self.step_count)), terminated, truncated, infos

    def _observed(self):
        row = np.array([self.step_count, self.number])
        return {agent: row[: self.observation_space(agent).shape[0]] for agent in self.agents}

    def _infos(self):
        mask = np.array([1, self.step_count % 2 == 0, 1], np.int8)
        return {agent: {"action_mask": mask} if self.masks else {} for agent in self.agents}

    def render(self):
        return np.full((8, 4, 3), 7, np.uint8)


class Broken(Countdown):
    """`Countdown` that raises, returns NaN, a wrong shape, or loses an agent without a flag.

    With the last choice of walker_0 it ends its process ("die") or does not return ("hang"). "start" ends a worker
    process that makes it.
    """

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        if fault == "start" and multiprocessing.parent_process() is not None:
            os._exit(3)

    def step(self, actions):
        if actions.get("walker_0") == 7 and self.fault == "die":
            os._exit(3)
        if actions.get("walker_0") == 7 and self.fault == "hang":
            threading.Event().wait()
        observations, rewards, *flags = super().step(actions)
        if self.fault == "raise":
            raise RuntimeError("the gripper broke")
        if self.fault == "nan":
            observations["walker_1"] = np.array([np.nan, 0.0])
        if self.fault == "shape":
            observations["walker_1"] = np.zeros(3)
        if self.fault == "leave":
            self.agents = self.agents[1:]
        return observations, rewards, *flags


class Splitting(Countdown):
    """`Countdown` that starts a process, as simulators do."""

    def __init__(self) -> None:
        super().__init__()
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
        assert child.exitcode == 0


class Reach(gymnasium.Env):
    """The observation is a Discrete position and a picture; the action is a Box (2, 1) of float64."""

    observation_space = spaces.Dict({"place": spaces.Discrete(3), "picture": spaces.Box(0, 255, (2, 2, 1), np.uint8)})
    action_space = spaces.Box(-2.0, 2.0, (2, 1), np.float64)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return {"place": 1, "picture": np.full((2, 2, 1), 9, np.uint8)}, {}

    def step(self, action):
        assert action.shape == (2, 1)
        assert action.dtype == np.float64
        return {"place": 2, "picture": np.zeros((2, 2, 1), np.uint8)}, float(action.sum()), False, False, {}


def make_countdown(**settings):
    return Countdown(**settings)
