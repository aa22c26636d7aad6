"""Marks in images of environments: tags, turns, stacks and payoffs."""

import numpy as np
import pytest
import torch

from gpu_envs.envs.games.scene import rank_strokes
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.envs.mpe.scene import VIEW, Discs, Word, scene
from gpu_envs.rendering.scene import BLUE, DARK, ORANGE, PURPLE, RED, rasterize
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from warp_kernels.drawing.rasterizer import BOX, CIRCLE


def pixels(frame: np.ndarray, color) -> int:
    """Return the number of pixels of approximately one color."""
    rgb = np.array([round(255 * part) for part in color])
    return int((np.abs(frame.astype(int) - rgb).max(-1) < 6).sum())


def drawn(core, size: int) -> np.ndarray:
    """Return frames of all worlds, without the reset that `render_frames` demands and that compiles the rules."""
    return rasterize(core.definition.draw(core, torch.arange(core.num_envs)), size).numpy()


def scene_of(env_id, **settings):
    """Return the scene of a world before its first reset, which needs no kernels."""
    core = make_core(env_id, 1, "cpu", **settings)
    return core.definition.draw(core, torch.arange(1))


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "SimpleWorldComm-v0"])
def test_prey_that_is_touched_has_a_ring(env_id):
    core = make_core(env_id, 2, "cpu", seed=0)
    core.reset()
    hunters = len(core.possible_agents) - len(core.groups["agent"])
    core.world_state["pos"][:] = torch.linspace(-0.9, 0.9, core.world_state["pos"].shape[1])[None, :, None]
    core.world_state["pos"][1, hunters] = core.world_state["pos"][1, 1] + torch.tensor([0.11, 0.0])  # of 0.125
    free, touched = (pixels(frame, ORANGE) for frame in core.render_frames((0, 1), 300))
    assert free == 0
    assert touched > 20


def test_tagged_runner_that_stays_in_the_game_has_a_ring():
    core = make_core("TagContinuous-v0", 2, "cpu", seed=0, num_taggers=2, num_runners=3)
    core.reset()
    core.world_state["caught_by"].zero_()  # of the last step of an earlier episode
    assert [pixels(frame, ORANGE) for frame in core.render_frames((0, 1), 300)] == [0, 0]
    core.step(torch.zeros_like(core.sample_actions()))
    core.world_state["caught_by"].fill_(-1)
    core.world_state["caught_by"][1, 2] = 0
    free, tagged = (pixels(frame, ORANGE) for frame in core.render_frames((0, 1), 300))
    assert free == 0
    assert tagged > 20


def test_tagging_distance_is_drawn_around_bodies():
    """A red ring about the body, or a white one on a body that is drawn larger than that; painted last."""
    core = make_core("TagContinuous-v0", 2, "cpu", seed=0, num_taggers=2, num_runners=3)
    core.reset()
    core.set_params(tagging_margin=torch.tensor([0.3, 2.0]))
    ring = core.definition.draw(core, torch.tensor([0, 1])).shapes[:, -1]
    assert ring[:, 3].tolist() == pytest.approx([0.3, 2.0])
    assert torch.equal(ring[:, 6:9], torch.tensor([(1.0, 1.0, 1.0), RED]))


def test_taggers_on_one_cell_are_stacked():
    core = make_core("TagGridworld-v0", 2, "cpu", seed=0, num_taggers=4)
    core.world_state["cell"][0] = torch.tensor([[1, 1], [1, 1], [1, 1], [5, 5], [9, 9]])
    places = core.definition.draw(core, torch.arange(2)).places
    assert places is not None
    assert torch.equal(places[0, :, :2].floor().int(), core.world_state["cell"][0])  # each inside its cell
    assert len(places[0, :3, :2].unique(dim=0)) == 3
    assert places[0, 3].tolist() == pytest.approx([5.5, 5.5, 0.3])  # alone: in the middle


@pytest.mark.parametrize("env_id", ["TicTacToe-v0", "ConnectFour-v0"])
def test_border_of_a_board_has_the_color_of_the_player_to_act(env_id):
    core = make_core(env_id, 1, "cpu", seed=0, autoreset="disabled")
    core.reset()
    mover = int(core.to_move[0].long().argmax())
    other = BLUE if env_id == "TicTacToe-v0" else (0.98, 0.78, 0.25)
    assert mover == 0
    assert pixels(core.render_frames((0,), 200)[0], RED) > 300
    core.to_move[:] = core.to_move.flip(1)
    frame = core.render_frames((0,), 200)[0]
    assert pixels(frame, other) > 300
    assert pixels(frame, RED) == 0
    core.alive.fill_(False)
    assert pixels(core.render_frames((0,), 200)[0], other) < 50  # the game is over


def strokes(value: float, width: float = 2.0) -> torch.Tensor:
    rows = numbers(torch.zeros((1, 1, 2)), torch.tensor([[value]]), width, 0.4, DARK)[0]
    return rows[rows[:, 9] > 0]


def test_numbers_are_strokes_in_the_middle():
    for value, count in ((1.0, 2), (8.0, 7), (0.0, 6), (-0.0, 6), (-1.0, 3), (-30.0, 12), (0.5, 6), (10.0, 8)):
        lit = strokes(value)
        assert len(lit) == count, value
    for value in (1.0, 8.0, -30.0, 12.5):
        lit = strokes(value)
        left, right = (lit[:, 1] - lit[:, 3].abs()).min(), (lit[:, 1] + lit[:, 3].abs()).max()
        assert abs(float(left + right)) < 0.2
    narrow = strokes(-30.0, 0.3)
    assert (narrow[:, 1].abs() + narrow[:, 3].abs() <= 0.15 + 1e-6).all()


def test_small_payoff_table_has_numbers_and_a_large_one_has_none():
    small = make_core("MatrixGame-v0", 1, "cpu", seed=0)
    large = make_core("MatrixGame-v0", 1, "cpu", seed=0, payoff=np.zeros((9, 9, 2)).tolist())
    count = [core.definition.draw(core, torch.arange(1)).shapes.shape[1] for core in (small, large)]
    assert count[1] == 3 * 81  # two stripes and a frame a cell
    assert count[0] > 3 * 4 + 8


def lit_strokes(card: int, deck: int) -> torch.Tensor:
    """Return the centers of the strokes of a card's rank, (S, 2)."""
    rows = rank_strokes((0.0, 0.0), torch.tensor([card]), deck, 1.0, DARK)[0]
    return rows[rows[:, 9] > 0.0, 1:3]


def test_highest_cards_are_jack_queen_and_king():
    jack, queen, king = (lit_strokes(card, 3) for card in range(3))
    assert (len(queen), len(king)) == (17, 3)  # a ring with a tail; a stem with two arms
    assert jack[:, 0].max() > 0.1 > 0.0 > jack[1:, 0].min()  # the hook of a J points to the left
    assert queen[:16].norm(dim=1).min() > 0.25
    assert king[0].tolist() == [-0.25, 0.0]
    for deck in (4, 11):
        assert all(torch.equal(lit_strokes(deck - 3 + card, deck), lit_strokes(card, 3)) for card in range(3))
    assert torch.equal(lit_strokes(2, 4), queen)
    assert len(lit_strokes(0, 4)) == 8  # 10


@pytest.mark.parametrize("env_id", ["KuhnPoker-v0", "LeducPoker-v0"])
def test_cards_of_another_rank_look_different(env_id):
    core = make_core(env_id, 3, "cpu", seed=0)
    core.reset()
    suits = 2 if env_id == "LeducPoker-v0" else 1
    core.world_state["card"][:, 0] = suits * torch.arange(3)
    core.world_state["card"][:, 1:] = 0
    frames = core.render_frames(range(3), 128)
    assert len(np.unique(frames, axis=0)) == 3
    assert np.array_equal(frames[0, :64], frames[1, :64])  # the upper half has the other player's card


def test_unit_types_have_different_shapes():
    same = {f"unit_type_{name}": (0.5,) * 6 for name in ("radiuses", "health", "attack_ranges")}
    core = make_core("SMAX-v0", 6, "cpu", seed=0, num_allies=6, num_enemies=6, unit_types=[*range(6)] * 2, **same)
    core.world_state["health"].fill_(0.5)
    core.world_state["pos"][:] = 2.0 * torch.arange(1, 13)[:, None]
    core.world_state["kind"][:] = torch.arange(6)[:, None]
    assert len(np.unique(drawn(core, 128), axis=0)) == 6


def treasure_worlds(holding: list[int], kind: int) -> Core:
    """Return worlds of a collector in the middle with a treasure to its left and deposits below."""
    core = make_core("CollectTreasure-v0", len(holding), "cpu", seed=0, num_collectors=1, num_treasures=1)
    core.world_state["pos"][:] = torch.tensor([[0.0, 0.0], [-0.6, -0.6], [0.6, -0.6], [-0.6, 0.0]])
    core.world_state["holding"][:] = torch.tensor(holding)[:, None]
    core.world_state["kind"].fill_(kind)
    return core


def test_carried_treasure_is_a_gem_in_its_color_above_the_collector():
    frames = drawn(treasure_worlds([0, 1, 2], kind=0), 300)  # 125 pixels per meter, the collector at (150, 150)
    above, left, below = frames[:, 128:141, 140:160], frames[:, 140:160, 60:90], frames[:, 200:250]
    assert [[pixels(frame, color) > 20 for color in (BLUE, ORANGE)] for frame in above] == [
        [False, False],
        [True, False],
        [False, True],
    ]
    assert len(np.unique(left)) <= 3  # of the background: there is no treasure on the ground
    for side, color in ((slice(0, 150), BLUE), (slice(150, 300), ORANGE)):
        assert all(pixels(frame[:, side], color) > 300 for frame in below)  # the chests


def test_treasure_on_the_ground_is_a_gem_in_its_color():
    gone, gem = (drawn(treasure_worlds([0], kind), 300)[0, 140:160, 60:90] for kind in (0, 2))
    assert pixels(gem, ORANGE) > 40
    assert pixels(gem, BLUE) == 0
    widths = (gone != gem).any(-1).sum(1)
    assert widths[5:9].mean() > 1.5 * widths[13:17].mean() > 3.0  # no disc: it is wide above and pointed below


def test_smallest_shape_in_the_middle_of_a_collector_or_deposit_has_its_color():
    """The page of `gpu-envs watch` colors trails like this shape, and paints them below it."""
    core = treasure_worlds([0, 1, 2], kind=1)
    scene = core.definition.draw(core, torch.arange(3))
    assert scene.agents is not None
    for shapes, agents in zip(scene.shapes, scene.agents, strict=True):
        filled = shapes[(shapes[:, 0] <= BOX) & (shapes[:, 5] == 0.0) & (shapes[:, 9] > 0.0)]
        for agent in agents:
            central = filled[(filled[:, 1:3] - agent[1:3]).abs().amax(-1) < 1e-4]
            assert torch.equal(central[central[:, 3].argmin(), 6:9], agent[6:9])


def test_panel_of_gather_trade_build_shows_coin_rates_and_prices():
    """Bars are as high as shares of coin and as rates; numbers do not change how many shapes there are."""
    core = make_core("GatherTradeBuild-v0", 2, "cpu", seed=0)
    state = core.world_state
    state["coin"].zero_()
    state["coin"][1, :4] = torch.tensor([0.0, 30.0, 60.0, 1200.0])
    state["rates"][:] = torch.tensor([[0.0], [0.5]])
    empty, full = core.definition.draw(core, torch.arange(2)).shapes
    assert len(full) == len(empty)
    dark = torch.tensor((0.25, 0.30, 0.36))
    rates = [shapes[(shapes[:, 6:9] - dark).abs().amax(-1) < 1e-6] for shapes in (empty, full)]
    assert [len(bars) for bars in rates] == [7, 7]
    heights = [bars[:, 4] for bars in rates]
    assert heights[0].abs().max() == 0.0
    assert heights[1].unique().tolist() == pytest.approx([0.25 * 0.82 * 0.26 * 25])
    none, richest = (pixels(frame[340:], PURPLE) for frame in drawn(core, 400))
    assert none == 0
    assert richest > 300  # the bar of the richest agent


@pytest.mark.parametrize(("grid", "radius"), [("A.O.B", 0.4), ("A|O|B", 0.4), (".....|.AOB.", 0.6)])
def test_circle_of_the_pitch_is_within_the_pitch(grid, radius):
    pitch, *shapes = scene_of("MarkovSoccer-v0", grid=grid).shapes[0].tolist()
    circles = [shape for shape in shapes if shape[0] == CIRCLE and shape[1:3] == pitch[1:3] and shape[5] > 0]
    assert [shape[3] for shape in circles] == pytest.approx([radius])
    assert radius <= min(pitch[3:5])


@pytest.mark.parametrize(
    ("settings", "columns"),
    [({}, 1), ({"players": 10, "num_cards": 31}, 3), ({"players": 10, "num_cards": 4}, 2)],
    ids=str,
)
def test_many_hands_are_side_by_side(settings, columns):
    """A column of ten hands is too high to be read."""
    scene = scene_of("Goofspiel-v0", **settings)
    left, bottom, right, top = scene.bounds
    assert 0.6 < (right - left) / (top - bottom) < 1.6
    seats = scene.agents[0, :, 1:3]
    assert len(seats[:, 0].unique()) == columns
    assert len(seats.unique(dim=0)) == len(seats)
    assert left < scene.shapes[..., 1].min() < scene.shapes[..., 1].max() < right
    assert bottom < scene.shapes[..., 2].min() < scene.shapes[..., 2].max() < top


PLACES = ("SimpleReference-v0", "SimpleSpeakerListener-v0", "SimpleWorldComm-v0")


def area(frame, color):
    """Return the number of pixels of approximately one color."""
    rgb = np.array([round(255 * part) for part in color])
    return int((np.abs(frame.astype(int) - rgb).max(-1) < 4).sum())


@pytest.mark.parametrize("rescaling", [True, False])
def test_camera_zooms_out(rescaling):
    core = make_core("SimpleSpeakerListener-v0", 3, "cpu", seed=0, dynamic_rescaling=rescaling)
    core.reset()
    gray = (0.66, 0.68, 0.71)
    core.world_state["pos"].zero_()
    core.world_state["pos"][:, 0, 0] = torch.tensor([0.0, 1.0, 2.6])  # the speaker; the listener stays in the middle
    near, edge, far = (area(frame, gray) for frame in core.render_frames((0, 1, 2), 400))
    assert near < edge  # uncovered by the listener
    assert edge == pytest.approx(np.pi * (0.075 / (2.0 * VIEW) * 400) ** 2, rel=0.25)
    zoom = 1.04 * 2.675 / VIEW
    assert far == pytest.approx(edge / zoom**2 if rescaling else edge, rel=0.25)


def test_letter_opacity_equals_loudness():
    core = make_core("SimpleWorldComm-v0", 3, "cpu", seed=0, continuous_actions=True)
    core.world_state["pos"].fill_(0.9)
    core.world_state["said"].copy_(torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [0.5, 1, 1, 1]])[:, None])
    core.alive.fill_(True)
    drawn = rasterize(core.definition.draw(core, torch.arange(3)), 500).numpy()
    dark = [int((frame.max(-1) < 90).sum()) for frame in drawn]
    assert dark[0] < dark[1] < dark[2]


@pytest.mark.parametrize("row", [0.0, 30.0, -30.0])
def test_messages_stay_in_the_frame(row):
    core = make_core("SimpleReference-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"].fill_(row)
    everyone, word = Discs(slice(0, 5), 0.05, (0.0, 0.0, 0.0)), Word(0, core.world_state["said"][:, 0])
    silent, picture = (scene(core, torch.tensor([0]), *parts) for parts in ((everyone,), (everyone, word)))
    bubble = picture.shapes[0, silent.shapes.shape[1]]
    assert (bubble[1:3].abs() + bubble[3:5] <= picture.bounds[0, 3] + 1e-4).all()
    assert (bubble[3:5] > 0).all()


@pytest.mark.parametrize("env_id", PLACES)
def test_distant_discs_are_visible(env_id):
    few = {"num_adversaries": 1, "num_good": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 0}
    core = make_core(env_id, 2, "cpu", seed=0, **(few if env_id == "SimpleWorldComm-v0" else {}))
    core.reset()
    core.world_state["pos"][1] *= 1000.0
    frames = core.render_frames((0, 1), 128)
    assert all(len(np.unique(frame)) > 3 for frame in frames)


def test_crypto_scene_shows_goal_key_and_messages():
    core = make_core("SimpleCrypto-v0", 1, "cpu", seed=0)
    core.reset()
    state, frames = core.world_state, []
    for goal, key, letter in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        state["goal"].fill_(goal)
        state["key"].fill_(key)
        state["said"].zero_()
        state["said"][..., letter] = 1.0
        frames.append(core.render_frames((0,), 128)[0].tobytes())
    assert len(set(frames)) == 4
