"""LiarsDice-v0 (2 agents): Bids on hidden dice, until a player doubts."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import Chance
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import EDGE, FELT, GOLD, PAPER, seats
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import DARK, RED, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import setting
from warp_kernels.games.hidden import liars_dice

FACES_FIRST = "reset-face"  # bidding rule by which bids of one quantity follow each other


@dataclass(frozen=True)
class Config:
    """Settings of LiarsDice-v0, with the names and defaults of OpenSpiel."""

    players: int = setting(2, choices=(2,))
    """Number of players; OpenSpiel's game has two."""
    numdice: int = setting(1, ge=1, le=liars_dice.MOST_BIDS // 2)
    """Number of dice of each player."""
    dice_sides: int = setting(6, ge=1, le=liars_dice.MOST_BIDS // 2)
    """Number of faces of a die. All dice together have at most 62 faces: 2 `numdice` `dice_sides`."""
    bidding_rule: str = setting(FACES_FIRST, choices=(FACES_FIRST, "reset-quantity"))
    """Order of bids. "reset-face": a higher quantity allows every face. "reset-quantity": a higher face allows every
    quantity."""


def quantity_and_face(config: Config, bid: int) -> tuple[int, int]:
    """Return the quantity and the face, from 1, of a bid."""
    if config.bidding_rule == FACES_FIRST:
        return bid // config.dice_sides + 1, bid % config.dice_sides + 1
    total = config.players * config.numdice
    return bid % total + 1, bid // total + 1


def build(config: Config) -> EnvDefinition:
    """Build the environment definition.

    Raises:
        ConfigError: There are more bids than the rules can store.
    """
    total, sides = config.players * config.numdice, config.dice_sides
    bids = total * sides
    if bids > liars_dice.MOST_BIDS:
        raise ConfigError(
            f"expected {config.players} * numdice * dice_sides <= {liars_dice.MOST_BIDS}, got {bids}; "
            "use fewer dice or faces"
        )
    width = liars_dice.observation_width(config.numdice, sides)
    return EnvDefinition(
        **game_roster({"player": 2}, width, spaces.Discrete(bids + 1)),
        rules=liars_dice.rules(config.numdice, sides, config.bidding_rule == FACES_FIRST),
        params={"win_reward": 1.0},
        bounds={"win_reward": (0.0, 1e6)},
        state={
            "dice": integers((total,), 0, sides),  # 0 before the first reset
            "bids": integers((), 0, 2 ** (bids + 1) - 1),
            "last": integers((), -1, bids - 1),
            "mover": integers((), 0, 1),
        },
        zero_sum=True,
        max_episode_steps=bids + 1,  # every bid, then the call
        time_limit_terminates=True,
        chance=_chance(config),
        draw=draw,
        render_fps=1,
    )


def _chance(config: Config) -> Chance:
    """Return the chance of a roll of all dice; the dice of a player are in ascending order."""
    count = math.comb(config.dice_sides + config.numdice - 1, config.numdice) ** config.players
    # bids rise: a history of t actions is a set of t bids, or one of t - 1 bids and then the call
    bids = config.players * config.numdice * config.dice_sides
    return Chance("dice", count, partial(_weights, config), count * math.comb(bids + 1, (bids + 1) // 2))


def _weights(config: Config) -> dict[tuple[int, ...], int]:
    """Return the number of rolls by their sorted dice."""
    rolls = product(range(1, config.dice_sides + 1), repeat=config.numdice)
    of_player = Counter(tuple(sorted(roll)) for roll in rolls)
    hands = product(of_player.items(), repeat=config.players)
    return {sum((roll for roll, _ in hand), ()): math.prod(count for _, count in hand) for hand in hands}


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Player 0's dice below, player 1's above; a frame marks the player to act. Between them the last bid as a quantity
    and a face, red after the call. The highest face is wild and golden.
    """
    config, state = core.config, {name: tensor[envs] for name, tensor in core.world_state.items()}
    count = config.numdice
    half = max(2.0, 0.62 * count + 0.5)
    parts, places = [], []
    assert core.to_move is not None
    always = torch.ones(len(envs), dtype=torch.bool, device=core.device)
    for player, y in enumerate((-1.35, 1.35)):
        center = torch.tensor([0.0, y], device=core.device).expand(len(envs), 1, 2)
        frame = torch.tensor([0.6 * count + 0.12, 0.74])
        parts.append(boxes(center, frame, GOLD, alpha=core.to_move[envs, player, None], line_width=0.09))
        places.append((0.0, y))
        for slot in range(count):
            x = 1.2 * (slot - (count - 1) / 2)
            parts.append(die((x, y), state["dice"][:, player * count + slot], config.dice_sides, always))
    table = torch.tensor([quantity_and_face(config, bid) for bid in range(2 * count * config.dice_sides)])
    bid = table.to(core.device)[state["last"].clamp(min=0)]
    called = (state["bids"] >> (len(table))) & 1
    parts.append(bid_of(bid[:, 0], 2 * count, bid[:, 1], config.dice_sides, state["last"] >= 0, called.bool()))
    return Scene(join(*parts), (-half, -2.3, half, 2.3), background=FELT, border=EDGE, agents=seats(places, envs))


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of all bids and of the call."""
    bids = range(config.players * config.numdice * config.dice_sides)
    return [*("bid {} x {}".format(*quantity_and_face(config, bid)) for bid in bids), "liar"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    faces = [str(face) for face in range(1, config.dice_sides + 1)]
    dice = [f"own die {number}, face one-hot, lowest first" for number in range(config.numdice)]
    return [
        ObservationBlock("own seat, one-hot", width=2),
        *(flags(die, faces) for die in (dice if config.numdice > 1 else ["own die, face one-hot"])),
        flags("bids so far and the call, in the order of actions", action_names(config, row)),
    ]


MOST_PIPS = 6
"""Most pips on a face; dice with more faces show numbers."""
_GRID = 0.27  # distance of pips from the center of a die of width 1
_PIPS = {1: "c", 2: "ab", 3: "acb", 4: "abde", 5: "abcde", 6: "abdefg"}  # places of the pips of a face
_PLACES = {
    **{"a": (-1.0, 1.0), "b": (1.0, -1.0), "c": (0.0, 0.0), "d": (1.0, 1.0), "e": (-1.0, -1.0)},
    **{"f": (-1.0, 0.0), "g": (1.0, 0.0)},
}


def die(
    position: tuple[float, float], face: torch.Tensor, sides: int, is_visible: torch.Tensor, size: float = 1.0
) -> torch.Tensor:
    """Return a die; the highest face is wild and golden.

    Args:
        position: Center of the die [world units].
        face: Face from 1, (W,).
        sides: Number of faces of the die.
        is_visible: Whether the die is visible, (W,) bool.
        size: Width of the die [world units].
    """
    center = torch.tensor(position, device=face.device).expand(len(face), 1, 2)
    wild, plain = (torch.tensor(color, device=face.device) for color in (GOLD, PAPER))
    color = torch.where((face == sides)[:, None], wild, plain)[:, None]
    visible = is_visible[:, None].float()
    parts = [boxes(center, 0.5 * size, EDGE, alpha=visible), boxes(center, 0.46 * size, color, alpha=visible)]
    if sides > MOST_PIPS:
        return join(*parts, numbers(center, face[:, None], 0.7 * size, 0.5 * size, DARK, visible, largest=sides))
    for name, (x, y) in _PLACES.items():
        faces = [number for number, pips in _PIPS.items() if name in pips]
        has_pip = torch.isin(face, torch.tensor(faces, device=face.device))[:, None]
        at = center + _GRID * size * torch.tensor([x, y], device=face.device)
        parts.append(circles(at, 0.095 * size, DARK, alpha=visible * has_pip))
    return join(*parts)


def bid_of(
    quantity: torch.Tensor, count: int, face: torch.Tensor, sides: int, has_bid: torch.Tensor, called: torch.Tensor
) -> torch.Tensor:
    """Return a bid in the middle of the table: quantity, times sign and face, with a red frame after the call.

    Args:
        quantity: Quantity of dice, (W,).
        count: Number of all dice.
        face: Face from 1, (W,).
        sides: Number of faces of a die.
        has_bid: Whether there is a bid, (W,) bool.
        called: Whether the bid was called a lie, (W,) bool.
    """
    device, visible = face.device, has_bid[:, None].float()
    center = torch.zeros((len(face), 1, 2), device=device)
    left, middle = torch.tensor([-0.6, 0.0], device=device), torch.tensor([-0.08, 0.0], device=device)
    arm, other = torch.tensor([0.1, 0.1], device=device), torch.tensor([0.1, -0.1], device=device)
    return join(
        numbers(center + left, quantity[:, None], 0.6, 0.62, PAPER, visible, largest=count),
        lines(center + middle - arm, center + middle + arm, 0.06, PAPER, visible),
        lines(center + middle - other, center + middle + other, 0.06, PAPER, visible),
        die((0.55, 0.0), face, sides, has_bid, 0.78),
        boxes(center, torch.tensor([1.1, 0.54]), RED, alpha=called[:, None], line_width=0.1),
    )
