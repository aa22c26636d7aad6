"""Helpers for rules: each in a kernel over many worlds, compared with NumPy."""

import itertools

import numpy as np
import pytest
import warp as wp

import warp_kernels
from warp_kernels import helpers, philox

WORLDS = 6000
RADIUS, KINDS = 2, 3


@wp.func
def stream(env: int):
    rng = philox.Stream()
    rng.seed = wp.uint64(7)
    rng.world = wp.uint32(env)
    return rng


@wp.kernel
def orders(values: wp.array2d(dtype=int), samples: wp.array2d(dtype=int)):
    env = wp.tid()
    for index in range(3):
        values[env, index] = index
    helpers.shuffle(values, env, 3, stream(env), philox.RESET, 0)
    helpers.sample_without_replacement(samples, env, 2, 4, stream(env), philox.RESET, 1)


@wp.kernel
def free_cells(grid: wp.array3d(dtype=int), cells: wp.array(dtype=wp.vec2i)):
    env = wp.tid()
    cells[env] = helpers.random_free_cell(grid, env, philox.bits(stream(env), 0, philox.RESET, 0)[0])


@wp.kernel
def draws(numbers: wp.array2d(dtype=float)):
    agent, index = wp.tid()
    part = helpers.split(stream(0), agent, philox.STEP, 0)
    numbers[agent, index] = philox.unit(philox.bits(part, index, philox.STEP, 0)[0])


@wp.kernel
def geometry(
    first: wp.array(dtype=wp.vec2),
    second: wp.array(dtype=wp.vec2),
    third: wp.array(dtype=wp.vec2),
    radius: float,
    contact: wp.array(dtype=wp.vec3),
    disc: wp.array(dtype=float),
    wall: wp.array(dtype=float),
):
    i = wp.tid()
    direction = wp.vec2(0.6, -0.8)
    contact[i] = helpers.disc_contact(first[i], radius, second[i], 0.5)
    disc[i] = helpers.ray_to_disc(first[i], direction, second[i], radius)
    wall[i] = helpers.ray_to_wall(first[i], direction, second[i], third[i])


@wp.kernel
def views(grid: wp.array3d(dtype=int), obs: wp.array3d(dtype=float), ends: wp.array(dtype=int)):
    facing, cell = wp.tid()
    columns = int(grid.shape[2])
    row = cell // columns
    ends[cell] = helpers.write_view(
        obs, facing, cell, 1, grid, row, cell - row * columns, facing, RADIUS, KINDS, KINDS - 1
    )


def launch(kernel, dim, *inputs):
    warp_kernels.start()
    wp.launch(kernel, dim, inputs=list(inputs), device="cpu")


def array(values, dtype):
    return wp.array(values, dtype=dtype, device="cpu")


def assert_equally_likely(outcomes, expected):
    """Check that outcomes are the expected ones, each within five standard deviations of its expected number."""
    counts = dict.fromkeys(expected, 0)
    for outcome in map(tuple, outcomes.tolist()):
        counts[outcome] += 1
    mean = len(outcomes) / len(counts)
    assert max(abs(count - mean) for count in counts.values()) < 5 * mean**0.5


@pytest.fixture(scope="module")
def drawn():
    values, samples = (wp.zeros((WORLDS, width), dtype=int, device="cpu") for width in (3, 2))
    launch(orders, WORLDS, values, samples)
    return values.numpy(), samples.numpy()


def test_every_order_is_equally_likely(drawn):
    assert_equally_likely(drawn[0], itertools.permutations(range(3)))


def test_every_sequence_without_replacement_is_equally_likely(drawn):
    assert_equally_likely(drawn[1], itertools.permutations(range(4), 2))


def test_every_free_cell_is_equally_likely():
    grid = np.array([[0, 1, 0], [2, 0, 1]])
    cells = wp.zeros(WORLDS, dtype=wp.vec2i, device="cpu")
    launch(free_cells, WORLDS, array(np.broadcast_to(grid, (WORLDS, 2, 3)).copy(), int), cells)
    assert_equally_likely(cells.numpy(), zip(*np.nonzero(grid == 0), strict=True))


def test_full_grid_has_no_free_cell():
    cells = wp.zeros(1, dtype=wp.vec2i, device="cpu")
    launch(free_cells, 1, array(np.ones((1, 2, 3)), int), cells)
    assert cells.numpy().tolist() == [[-1, -1]]


def test_agent_draws_more_than_256_independent_numbers():
    numbers = wp.zeros((3, 2000), dtype=float, device="cpu")
    launch(draws, (3, 2000), numbers)
    rows = numbers.numpy()
    assert len(np.unique(rows)) > 5990  # of 2^24 numbers, some are equal
    np.testing.assert_allclose(rows.mean(1), 0.5, atol=5 / np.sqrt(12 * 2000))
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 5 / np.sqrt(2000)


def measure(first, second, third=((0.0, 0.0),), radius=1.0):
    """Return contacts, distances to discs and distances to walls; the ray points to (0.6, -0.8)."""
    points = [array(np.array(rows, dtype=np.float32), wp.vec2) for rows in (first, second, third)]
    contact = wp.zeros(len(first), dtype=wp.vec3, device="cpu")
    disc, wall = (wp.zeros(len(first), dtype=float, device="cpu") for _ in range(2))
    launch(geometry, len(first), *points, radius, contact, disc, wall)
    return contact.numpy(), disc.numpy(), wall.numpy()


@pytest.mark.parametrize(
    ("center", "other", "expected"),
    [
        ((3.0, 0.0), (0.0, 4.0), (0.6, -0.8, -3.5)),
        ((3.0, 4.0), (3.0, 3.0), (0.0, 1.0, 0.5)),
        ((3.0, 4.0), (3.0, 4.0), (1.0, 0.0, 1.5)),
    ],
    ids=["apart", "overlap", "equal centers"],
)
def test_contact_of_discs_is_normal_and_overlap(center, other, expected):
    np.testing.assert_allclose(measure([center], [other])[0], [expected], atol=1e-6)


@pytest.mark.parametrize(
    ("center", "expected"),
    [
        ((3.0, -4.0), 4.0),
        ((3.0 + 0.8 * 0.6, -4.0 + 0.6 * 0.6), 5.0 - 0.8),  # 0.6 to the side
        ((3.0 + 0.8 * 1.1, -4.0 + 0.6 * 1.1), np.inf),  # 1.1 to the side
        ((-3.0, 4.0), np.inf),  # behind
        ((-0.3, 0.4), 0.0),  # around the origin
    ],
)
def test_ray_reaches_the_near_side_of_a_disc(center, expected):
    np.testing.assert_allclose(measure([(0.0, 0.0)], [center])[1], [expected], atol=1e-5)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ((3.0, -10.0), (3.0, 10.0), 5.0),
        ((3.0, 10.0), (3.0, -10.0), 5.0),
        ((-9.0, -8.0), (30.0, -8.0), 10.0),
        ((3.0, -3.9), (3.0, 10.0), np.inf),  # beside it
        ((-3.0, -10.0), (-3.0, 10.0), np.inf),  # behind
        ((1.0, 0.0), (7.0, -8.0), np.inf),  # parallel
    ],
)
def test_ray_reaches_a_wall(start, end, expected):
    np.testing.assert_allclose(measure([(0.0, 0.0)], [start], [end])[2], [expected], atol=1e-5)


def test_view_is_turned_so_that_the_agent_looks_ahead():
    grid = np.random.default_rng(0).integers(0, KINDS, (4, 3))
    cells, width = grid.size, 2 * RADIUS + 1
    obs = wp.full((4, cells, 2 + width * width * KINDS), 9.0, dtype=float, device="cpu")
    ends = wp.zeros(cells, dtype=int, device="cpu")
    launch(views, (4, cells), array(np.broadcast_to(grid, (4, 4, 3)).copy(), int), obs, ends)
    padded = np.pad(grid, RADIUS, constant_values=KINDS - 1)
    for cell, (row, column) in enumerate(np.ndindex(*grid.shape)):
        square = padded[row : row + width, column : column + width]
        for facing in range(4):  # turning the world to the left is turning to the right in it
            expected = np.eye(KINDS)[np.rot90(square, facing)].ravel()
            np.testing.assert_array_equal(obs.numpy()[facing, cell, 1:-1], expected)
    assert (obs.numpy()[..., [0, -1]] == 9.0).all()
    assert (ends.numpy() == 1 + width * width * KINDS).all()
