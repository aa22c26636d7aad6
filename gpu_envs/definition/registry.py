"""Environments by id: register, find, list_envs.

Nothing here imports torch or a host file, so that the command line starts at once and an id can be looked up anywhere.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import pettingzoo

from gpu_envs.config import check_value
from gpu_envs.errors import CheckpointError, ConfigError, UnknownEnvironmentError, shown
from gpu_envs.id_modules import NAMESPACE, allow_import, import_module, is_imported, split_id

if TYPE_CHECKING:
    from gpu_envs.definition import Definition


@dataclass(frozen=True)
class Entry:
    """Where an environment's host file lives; it gives ``Config`` and ``build(config) -> Definition``."""

    id: str
    """Such as "SimpleTag-v0"."""
    module: str | None = None
    """Host file, imported at first need; None: ``config`` and ``build`` are given."""
    config: type | None = None
    """Frozen dataclass of the settings."""
    build: Callable[[Any], Definition] | None = None
    """Makes the definition from settings."""
    max_episode_steps: int | None = None
    """Where it is for ``gymnasium.make`` to cut episodes [steps]; None: the rules do."""
    reward_threshold: float | None = None
    """Return at which Gymnasium's ``EnvSpec`` calls the environment solved."""
    meanings: str | None = None
    """Module that says what the numbers mean, see :mod:`gpu_envs.meanings`; None: nobody says it."""

    def load(self) -> tuple[type, Callable[[Any], Definition]]:
        """Config class and build function; imports the host file at first need.

        Raises:
            ConfigError: The module cannot be imported, or has no dataclass ``Config`` or no function ``build``.
        """
        if self.module is None:
            assert self.config is not None
            assert self.build is not None
            return self.config, self.build
        import warp_kernels  # loads Warp, which those who only list ids do not need

        with warp_kernels.building:
            try:
                module = importlib.import_module(self.module)
            except ImportError as error:
                raise ConfigError(f"{self.id}: its module {self.module} cannot be imported: {error}") from error
        config, build = getattr(module, "Config", None), getattr(module, "build", None)
        _check_host(f"{self.id}: module {self.module}", config, build)
        return cast(type, config), cast("Callable[[Any], Definition]", build)


def _check_host(who: str, config: Any, build: Any) -> None:
    """Raise a ConfigError unless there are a dataclass of settings and a function."""
    if not isinstance(config, type) or not is_dataclass(config):
        raise ConfigError(f"{who} needs Config, a frozen dataclass of its settings, got {shown(config)}")
    if not callable(build):
        raise ConfigError(f"{who} needs build(config) -> Definition, got {shown(build)}")


_entries: dict[str, Entry] = {}


def register(
    id: str,
    module: str | None = None,
    *,
    config: type | None = None,
    build: Callable[[Any], Definition] | None = None,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    meanings: str | None = None,
) -> None:
    """Make an environment known.

    Args:
        id: "Name-v0".
        module: Import path of a host file with ``Config`` and ``build``, or instead of it:
        config: Frozen dataclass of settings (see :func:`gpu_envs.config.setting`).
        build: ``build(config) -> Definition``.
        max_episode_steps: Where it is for ``gymnasium.make`` to cut episodes (its ``TimeLimit``), as with the
            environments of Gymnasium itself: after so many steps.
        reward_threshold: Return at which Gymnasium's ``EnvSpec`` calls the environment solved.
        meanings: Import path of a module that says what observations and actions are (see :mod:`gpu_envs.meanings`), so
            that the viewer names them; ``__name__`` where the host file says it itself.

    Raises:
        ConfigError: A malformed or taken id, or neither a module nor config and build.
    """
    if not isinstance(id, str) or not re.fullmatch(r"[A-Za-z0-9_\-]+-v\d+", id):
        raise ConfigError(f"register: id must look like 'Name-v0', got {shown(id)}")
    if id in _entries:
        raise ConfigError(f"register: {id} is registered already; choose another name or version")
    if (module is None) == (config is None or build is None):
        raise ConfigError(f"register: {id} needs either module= or both config= and build=")
    for name, path in (("module", module), ("meanings", meanings)):
        if path is not None and not (isinstance(path, str) and re.fullmatch(r"\w+(\.\w+)*", path)):
            raise ConfigError(f"register: {name} must be the import path of a module, got {shown(path)}")
    if module is None:
        _check_host(f"register: {id}", config, build)
    max_episode_steps = check_value("register", "max_episode_steps", max_episode_steps, int | None, low=1)
    reward_threshold = check_value("register", "reward_threshold", reward_threshold, float | None)
    _entries[id] = Entry(id, module, config, build, max_episode_steps, reward_threshold, meanings)
    _announce(id)


def _announce(id: str) -> None:
    """Tell Gymnasium and PettingZoo; the views behind the names are imported when one is made."""
    gymnasium.register(
        NAMESPACE + id,
        entry_point="gpu_envs.views.gymnasium:LearnerEnv",
        vector_entry_point="gpu_envs.views.rows:RowsEnv",
        kwargs={"env_id": id},
        max_episode_steps=_entries[id].max_episode_steps,
        reward_threshold=_entries[id].reward_threshold,
    )
    if hasattr(pettingzoo, "register"):  # PettingZoo has a registry since 1.27
        pettingzoo.register(
            "parallel", NAMESPACE + id, entry_point="gpu_envs.views.pettingzoo:parallel_env", kwargs={"id": id}
        )


def list_envs() -> list[str]:
    """Ids of all environments, sorted."""
    return sorted(_entries)


def find(id: str) -> Entry:
    """The entry of an id, with or without ``gpu_envs/``.

    As in Gymnasium, "module:Name-v0" imports a module first, which registers the environment.

    Raises:
        UnknownEnvironmentError: Naming close matches, or the module that cannot be imported.
    """
    if not isinstance(id, str):
        raise UnknownEnvironmentError(f"an environment's id is a string such as 'SimpleTag-v0', got {shown(id)}")
    module, name = split_id(id)
    if module:
        import_module(module)
    if name not in _entries:
        near = difflib.get_close_matches(name, _entries, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "gpu_envs.list_envs() or `gpu-envs list` gives all"
        raise UnknownEnvironmentError(f"no environment named {id!r}; {hint}")
    return _entries[name]


def spelled(id: str) -> str:
    """Import the module of an id typed on a command line; return the id as configurations keep it. See ``find``."""
    if module := split_id(id)[0]:
        allow_import(module)
    find(id)
    return str(id).removeprefix(NAMESPACE)


def recorded_id(env_id: Any, where: str) -> str:
    """Check an id that was read from a file, and return it. Nothing is imported: a file must not choose what runs.

    An id that names a module needs one that this process has imported already. A program imports it before it loads
    the file (``import meet``). A command line types the id, or ``--allow-import meet``.

    Raises:
        CheckpointError: It is no id, or its module is not imported.
        UnknownEnvironmentError: Its module is imported, and does not register it.
    """
    module, name = split_id(env_id)
    if not isinstance(env_id, str) or not re.fullmatch(r"[\w.]*", module):
        raise CheckpointError(f"{where}: expected the id of an environment, got {env_id!r:.80}")
    if module and not is_imported(module):
        raise CheckpointError(
            f"{where}: environment {env_id!r} is in the module {module!r}, which is not imported for a recorded run; "
            f"add --allow-import {module} if you trust it"
        )
    if module and name not in _entries:
        raise UnknownEnvironmentError(f"{where}: expected {module!r} to register {name!r}, got no such environment")
    return env_id


register("SimpleTag-v0", "gpu_envs.mpe.simple_tag")
register("TagContinuous-v0", "gpu_envs.tag.tag_continuous")
register("TagGridworld-v0", "gpu_envs.tag.tag_gridworld")
# MPE
register("Simple-v0", "gpu_envs.mpe.simple")
register("SimpleAdversary-v0", "gpu_envs.mpe.simple_adversary")
register("SimplePush-v0", "gpu_envs.mpe.simple_push")
register("SimpleSpread-v0", "gpu_envs.mpe.simple_spread")
register("SimpleCrypto-v0", "gpu_envs.mpe.simple_crypto")
register("SimpleReference-v0", "gpu_envs.mpe.simple_reference")
register("SimpleSpeakerListener-v0", "gpu_envs.mpe.simple_speaker_listener")
register("SimpleWorldComm-v0", "gpu_envs.mpe.simple_world_comm")
# classic control
register("CartPole-v1", "gpu_envs.classic.cartpole", max_episode_steps=500, reward_threshold=475.0)
register("MountainCar-v0", "gpu_envs.classic.mountain_car", max_episode_steps=200, reward_threshold=-110.0)
register(
    "MountainCarContinuous-v0",
    "gpu_envs.classic.mountain_car_continuous",
    max_episode_steps=999,
    reward_threshold=90.0,
)
register("Pendulum-v1", "gpu_envs.classic.pendulum", max_episode_steps=200)
register("Acrobot-v1", "gpu_envs.classic.acrobot", max_episode_steps=500, reward_threshold=-100.0)
# games
register("ClimbingGame-v0", "gpu_envs.games.climbing_game")
register("ConnectFour-v0", "gpu_envs.games.connect_four")
register("DiscGame-v0", "gpu_envs.games.disc_game")
register("KuhnPoker-v0", "gpu_envs.games.kuhn_poker")
register("LeducPoker-v0", "gpu_envs.games.leduc_poker")
register("MatrixGame-v0", "gpu_envs.games.matrix_game")
register("RockPaperScissors-v0", "gpu_envs.games.rock_paper_scissors")
register("TicTacToe-v0", "gpu_envs.games.tic_tac_toe")
register("TwoStepGame-v0", "gpu_envs.games.two_step_game")
