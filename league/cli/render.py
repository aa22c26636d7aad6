"""The command `gpu-envs league render`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor
from tyro.conf import UseAppendAction, arg

from gpu_envs.cli.options import parse
from gpu_envs.cli.render import VideoOptions, render_play
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import check_file
from league.cli.options import RunOptions
from league.policies.population import Population
from league.storage.run_store import RunStore
from trainers.base.seeding import derive_seed
from trainers.cli.options import policy_names
from trainers.evaluation.policy_runner import PolicyRunner
from trainers.models.policy import PolicyProtocol

__all__ = ["LeagueRenderOptions", "load_players", "render_command"]


@dataclass(frozen=True, kw_only=True)
class LeagueRenderOptions(VideoOptions, RunOptions):
    """Render policies of a league to a video or a picture.

    Example: gpu-envs league render out/kuhn --num-envs 16 --output out/kuhn.mp4
    """

    policy: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SEAT=NAME")] = ()
    """Policy of a seat, named as in gpu-envs league report; repeatable. Default: the latest of each seat."""


def render_command(argv: list[str]) -> int:
    """Render policies of a run and return the exit code."""
    args = parse(LeagueRenderOptions, "league render", argv)
    check_file(args.output)
    with RunStore.open(args.run_dir, write=False) as store:
        device = str(resolve_device(args.device))
        core, act, words = load_players(store, policy_names(args.policy), args.num_envs, device, args.seed)
    print(f"playing: {words}")
    return render_play(args, core, lambda obs, info: act(obs, info, args.greedy))


def load_players(
    store: RunStore, names: Mapping[str, str], worlds: int, device: str, seed: int
) -> tuple[Core, Callable[..., Tensor], str]:
    """Load policies of a league and make its environment.

    Args:
        store: Store of the run.
        names: Policy name by seat; the latest policy for the other seats.
        worlds: Number of environments, E.
        device: Device of the environments and the policies.
        seed: Random seed of the environments and the actions.

    Returns:
        A core with autoreset "next_step", a function `act(obs, info, greedy=False)` that returns the actions of all
        agents, (E, A) or (E, A, K), and a description of the policies.

    Raises:
        ConfigError: A seat or policy is unknown, or a seat has no policy yet.
        CheckpointError: A policy file is damaged.
    """
    game = store.game
    if unknown := names.keys() - {seat.name for seat in game.seats}:
        seats = ", ".join(seat.name for seat in game.seats)
        raise ConfigError(f"--policy: no seat {min(unknown)!r} in {game.env_id}; there are {seats}")
    core = game.core(worlds, device, seed, autoreset="next_step")
    players: dict[str, PolicyProtocol | None] = {}
    descriptions = []
    for index, seat in enumerate(game.seats):
        stored = store.populations[seat.role]
        if not stored.entries:
            raise ConfigError(f"{store.path}: {seat.role}: no policy yet; wait until the run has trained one")
        population = Population(seat.role, stored.folder, device)  # one per seat: seeds differ
        population.replace(stored.entries)
        entry = population.named(names[seat.name]) if seat.name in names else population.entries[-1]
        policy = population.policy(entry.index)
        policy.seed(derive_seed(seed, index))
        players |= dict.fromkeys(seat.members, policy)
        descriptions.append(f"{entry.name} as {seat.name}")
    return core, PolicyRunner(core, players).act, f"{', '.join(descriptions)}, of {store.path}"
