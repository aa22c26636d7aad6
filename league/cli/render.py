"""The subcommand `gpu-envs league render`: policies of a league at play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from gpu_envs.commands import add_allow_import, add_pictures, command_parser, parse, render_play
from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from gpu_envs.factory import resolve_device
from gpu_envs.paths import check_file
from league.population import Population
from league.store import Store
from trainers.arguments import policy_names
from trainers.evaluate import Cast
from trainers.policy import Plays
from trainers.settings import derived_seed


def render(argv: list[str]) -> int:
    """`gpu-envs league render DIR ...`."""
    example = "gpu-envs league render out/kuhn --worlds 16 --out out/kuhn.mp4"
    parser = command_parser("league render", "Write a picture or a video of a league's policies at play.", example)
    parser.add_argument("run_dir", type=Path, help="the run's folder, which may still be written")
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="SEAT=NAME",
        help="who plays a seat, by the names of gpu-envs league report; repeat it for more; the latest if not given",
    )
    add_pictures(parser)
    parser.add_argument("--greedy", action="store_true", help="take the most probable actions instead of samples")
    add_allow_import(parser)
    args = parse(parser, argv)
    check_file(args.out)
    with Store.open(args.run_dir, write=False) as store:
        device = str(resolve_device(args.device))
        core, act, words = cast(store, policy_names(args.policy), args.worlds, device, args.seed)
    print(f"playing: {words}")
    return render_play(args, core, lambda obs, info: act(obs, info, args.greedy))


def cast(
    store: Store, names: Mapping[str, str], worlds: int, device: str, seed: int
) -> tuple[Core, Callable[..., Tensor], str]:
    """Policies of a league, ready to play.

    Args:
        store: Of the run.
        names: Policy by seat; the latest where there is none.
        worlds: E.
        device: Where they play.
        seed: Of the worlds and the policies' samples.

    Returns:
        A core that shows the ends of episodes too (autoreset "next_step"), act(obs, info, greedy=False), which gives
        the actions of all agents, (E, A) or (E, A, K), and in words who plays.

    Raises:
        ConfigError: No such seat or policy, or no policy yet.
        CheckpointError: A policy is damaged.
    """
    game = store.game
    if unknown := names.keys() - {seat.name for seat in game.seats}:
        seats = ", ".join(seat.name for seat in game.seats)
        raise ConfigError(f"--policy: no seat {min(unknown)!r} in {game.env_id}; there are {seats}")
    core = game.core(worlds, device, seed, autoreset="next_step")
    players: dict[str, Plays | None] = {}
    told = []
    for place, seat in enumerate(game.seats):
        known = store.populations[seat.role]
        if not known.entries:
            raise ConfigError(f"{store.path}: {seat.role}: there is no policy yet; wait until the run has made one")
        population = Population(seat.role, known.folder, device)  # of its own: who plays two seats is there twice
        population.replace(known.entries)
        entry = population.named(names[seat.name]) if seat.name in names else population.entries[-1]
        policy = population.policy(entry.index)
        policy.seed(derived_seed(seed, place))
        players |= dict.fromkeys(seat.members, policy)
        told.append(f"{entry.name} as {seat.name}")
    return core, Cast(core, players).act, f"{', '.join(told)}, of {store.path}"
