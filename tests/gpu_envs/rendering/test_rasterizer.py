"""The rasterizer paints exact areas and colors, alike on all devices; environments draw with it."""

import dataclasses
import importlib
import math

import numpy as np
import pytest
import torch
import warp as wp

import warp_kernels
from gpu_envs.errors import ConfigError
from gpu_envs.rendering import scene as scene_module
from gpu_envs.rendering.scene import Scene, boxes, circles, join, lines, rasterize, rings
from gpu_envs.runtime.factory import make_core
from warp_kernels.drawing import rasterizer

pytestmark = pytest.mark.representative

BOUNDS = (-1.0, -1.0, 1.0, 1.0)
BLACK, WHITE, CRIMSON = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1.0, 0.2, 0.4)  # 0.2 and 0.4 are whole bytes: 51, 102


def plain(shapes: torch.Tensor, bounds=BOUNDS, background=WHITE) -> Scene:
    """Return a scene with the shapes only."""
    return Scene(shapes, bounds, margin=0.0, background=background, surround=background, border=None)


def coverage(shapes: torch.Tensor, size: int = 200) -> float:
    """Area that black shapes cover in a 2 x 2 arena [world units squared]."""
    frame = rasterize(plain(shapes), size)[0, :, :, 0].double()
    return float((255.0 - frame).sum() / 255.0) * (2.0 / size) ** 2


def at(*points: tuple[float, float]) -> torch.Tensor:
    """Return the points of one world, (1, N, 2)."""
    return torch.tensor([points])


def several_worlds(worlds: int = 4) -> Scene:
    """Return random shapes of every kind, some hidden, with bounds that differ by world."""
    generator = torch.Generator().manual_seed(3)
    spots = torch.rand(worlds, 12, 2, generator=generator) * 2.4 - 1.2
    alpha = torch.rand(worlds, 12, generator=generator) * 2.0 - 0.5
    shapes = join(
        circles(spots, 0.1, torch.rand(worlds, 12, 3, generator=generator), alpha),
        boxes(spots.flip(1), (0.2, 0.05), CRIMSON, alpha),
        boxes(spots.flip(2), 0.3, BLACK, line_width=0.02),
        rings(spots.flip(1, 2), 0.2, BLACK, 0.03),
        lines(spots, spots.flip(1), 0.01, CRIMSON),
    )
    return Scene(shapes, torch.tensor([BOUNDS]) * torch.linspace(0.6, 2.0, worlds)[:, None])


@pytest.mark.parametrize("radius", [0.1, 0.33, 0.8])
@pytest.mark.parametrize("center", [(0.0, 0.0), (0.0613, -0.0871)])
def test_circle_covers_its_area(radius, center):
    assert coverage(circles(at(center), radius, BLACK)) == pytest.approx(math.pi * radius**2, rel=0.01)


def test_outlines_boxes_and_lines_have_their_areas():
    center = at((0.0213, -0.0337))
    assert coverage(rings(center, 0.6, BLACK, 0.05)) == pytest.approx(math.tau * 0.6 * 0.05, rel=0.01)
    hair = 0.003  # a third of a pixel
    assert coverage(rings(center, 0.6, BLACK, hair)) == pytest.approx(math.tau * 0.6 * hair, rel=0.03)
    assert coverage(boxes(center, (0.5, 0.2), BLACK)) == pytest.approx(1.0 * 0.4, rel=0.01)
    frame_area = 1.1 * 0.5 - 0.9 * 0.3
    assert coverage(boxes(center, (0.5, 0.2), BLACK, line_width=0.1)) == pytest.approx(frame_area, rel=0.01)
    capsule = 1.0 * 0.1 + math.pi * 0.05**2
    assert coverage(lines(at((-0.3, -0.4)), at((0.3, 0.4)), 0.1, BLACK)) == pytest.approx(capsule, rel=0.01)


def test_colors_are_exact_inside_and_smooth_at_the_edge():
    frame = rasterize(plain(circles(at((0.0, 0.0)), 0.5, CRIMSON), background=BLACK), 64)[0]
    assert frame[32, 32].tolist() == [255, 51, 102]
    assert frame[0, 0].tolist() == [0, 0, 0]
    edge = frame[:, :, 0]
    assert ((edge > 0) & (edge < 255)).sum() > 40
    assert torch.equal(frame, frame.flip(0))
    assert torch.equal(frame, frame.flip(1))


def test_shapes_are_painted_in_order_and_alpha_mixes():
    spot = at((0.0, 0.0))
    below, above = circles(spot, 0.5, CRIMSON), boxes(spot, 0.2, BLACK)
    assert rasterize(plain(join(below, above)), 33)[0, 16, 16].tolist() == [0, 0, 0]
    assert rasterize(plain(join(above, below)), 33)[0, 16, 16].tolist() == [255, 51, 102]
    half = rasterize(plain(circles(spot, 0.5, BLACK, alpha=0.5)), 33)[0, 16, 16]
    assert half.tolist() == [128, 128, 128]
    hidden = circles(spot, 0.5, BLACK, alpha=torch.tensor([[False]]))
    assert rasterize(plain(hidden), 33).min() == 255


def test_y_points_up_and_x_right():
    dark = rasterize(plain(circles(at((0.5, 0.5)), 0.1, BLACK)), 100)[0, :, :, 0] < 128
    rows, columns = torch.nonzero(dark, as_tuple=True)
    assert rows.float().mean() + 0.5 == pytest.approx(25.0, abs=0.3)
    assert columns.float().mean() + 0.5 == pytest.approx(75.0, abs=0.3)
    # Lines keep their slope: this one rises to the right.
    dark = rasterize(plain(lines(at((-0.8, -0.8)), at((0.8, 0.8)), 0.1, BLACK)), 100)[0, :, :, 0] < 128
    assert dark[20, 79]
    assert not dark[20, 20]


def test_pixels_stay_square():
    scene = plain(circles(at((2.0, 0.0)), 0.9, BLACK), bounds=(0.0, -1.0, 4.0, 1.0))
    for size in (100, (60, 200), (200, 90)):
        dark = rasterize(scene, size)[0, :, :, 0] < 128
        rows, columns = torch.nonzero(dark, as_tuple=True)
        assert abs(int(rows.max() - rows.min()) - int(columns.max() - columns.min())) <= 1
        assert rows.float().mean() == pytest.approx((dark.shape[0] - 1) / 2, abs=0.1)
        assert columns.float().mean() == pytest.approx((dark.shape[1] - 1) / 2, abs=0.1)


def test_arena_has_a_border_and_a_surround():
    scene = Scene(torch.zeros(1, 0, 10), BOUNDS, margin=0.1, background=WHITE, surround=BLACK, border=CRIMSON)
    frame = rasterize(scene, 120)[0]
    assert frame.shape == (120, 120, 3)
    assert frame[60, 60].tolist() == [255, 255, 255]
    assert frame[60, 2].tolist() == [0, 0, 0]
    # The arena starts at 10 of 120 pixels; its line is one pixel wide, half on either side.
    assert frame[60, 9].tolist() == pytest.approx([127.5, 25.5, 51.0], abs=1.0)
    assert frame[60, 10].tolist() == pytest.approx([255.0, 153.0, 178.5], abs=1.0)
    assert frame[60, 8].tolist() == [0, 0, 0]


def test_world_of_a_batch_equals_a_single_world():
    scene = several_worlds()
    frames = rasterize(scene, 64)
    assert frames.shape == (4, 64, 64, 3)
    assert frames.dtype == torch.uint8
    for world in range(4):
        alone = Scene(scene.shapes[world : world + 1], scene.bounds[world : world + 1])
        assert torch.equal(rasterize(alone, 64)[0], frames[world])
    assert not torch.equal(frames[0], frames[1])


def test_one_pixel_per_thread_paints_equal_bytes(monkeypatch):
    """A GPU launches one thread per pixel, a CPU one per frame."""
    scene = several_worlds()
    expected = rasterize(scene, (50, 64))
    launch = wp.launch

    def per_pixel(kernel, dim, inputs, **options):
        inputs = [*inputs[:-1], wp.vec2i(1, 1)]
        return launch(kernel, dim=(dim[0], 50, 64), inputs=inputs, **options)

    monkeypatch.setattr(scene_module.wp, "launch", per_pixel)
    assert torch.equal(rasterize(scene, (50, 64)), expected)


def test_shapes_far_outside_or_not_finite_are_harmless():
    odd = at((1e30, 0.0), (math.nan, 0.0), (math.inf, 1.0), (-1e9, 1e9))
    assert rasterize(plain(join(circles(odd, 0.5, BLACK), lines(odd, -odd, 0.1, BLACK)[:, 1:3])), 16).min() == 255


def test_invalid_scenes_raise():
    with pytest.raises(ValueError, match=r"shapes: expected \(W, M, 10\) float32, got \(1, 3, 9\)"):
        Scene(torch.zeros(1, 3, 9), BOUNDS)
    with pytest.raises(ValueError, match="float64"):
        Scene(torch.zeros(1, 3, 10, dtype=torch.float64), BOUNDS)
    with pytest.raises(ValueError, match=r"bounds: expected 4 numbers or a \(2, 4\) tensor, got \(3, 4\)"):
        Scene(torch.zeros(2, 3, 10), torch.zeros(3, 4))
    with pytest.raises(ConfigError, match="size"):
        rasterize(several_worlds(), 0)


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [("TagGridworld-v0", {}), ("TagContinuous-v0", {"num_runners": 1, "starting_directions": (0, 1)})],
)
def test_worlds_are_drawn_with_their_own_parameters(env_id, settings):
    """A square made smaller in one world looks as one that was made that small."""
    start = {"num_taggers": 1, "starting_location_x": (1, 2), "starting_location_y": (2, 3)}

    def core(size):
        core = make_core(env_id, 2, "cpu", grid_length=size, **start, **settings)
        core.reset()
        return core

    mixed, small, large = core(8), core(4), core(8)
    mixed.set_params(grid_length=torch.tensor([4, 8]))
    if env_id == "TagContinuous-v0":
        mixed.set_params(tagging_margin=torch.tensor([0.08, 0.16]))
    np.testing.assert_array_equal(mixed.render_frames((0,), 64), small.render_frames((0,), 64))
    np.testing.assert_array_equal(mixed.render_frames((1,), 64), large.render_frames((1,), 64))
    assert mixed.render_frames((1, 0), 32).shape == (2, 32, 32, 3)


@pytest.mark.slow
def test_kernel_compiles_for_cuda_without_a_gpu(tmp_path):
    warp_kernels.start()
    module = importlib.import_module(rasterizer.__name__)
    for arch in (80, 90, wp.get_cuda_supported_archs()[-1]):
        wp.compile_aot_module(module, device=None, arch=arch, module_dir=tmp_path / str(arch))
        assert any(file.suffix in (".ptx", ".cubin") for file in (tmp_path / str(arch)).iterdir())


@pytest.mark.gpu
def test_gpu_frames_equal_cpu_frames():
    scene = several_worlds()
    expected = rasterize(scene, 64).int()
    on_gpu = dataclasses.replace(scene, shapes=scene.shapes.cuda())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        frames = rasterize(on_gpu, 64)
    stream.synchronize()
    assert frames.is_cuda
    assert (frames.cpu().int() - expected).abs().max() <= 2  # contracted multiply-adds
