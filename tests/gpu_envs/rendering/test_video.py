"""Files of frames: .mp4, .gif, .webp and .png, their errors, and frames side by side."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from gpu_envs.errors import ConfigError, GpuEnvsError, MissingExtraError
from gpu_envs.rendering import scene as scene_module
from gpu_envs.rendering import video
from gpu_envs.rendering.scene import Scene, circles, rasterize
from gpu_envs.rendering.video import tile, write_video
from gpu_envs.rendering.window import Window

BOUNDS = (-1.0, -1.0, 1.0, 1.0)


def test_tile_lays_frames_out_row_by_row():
    frames = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 4, 6, 3).contiguous()
    picture = tile(frames, gap=2)
    assert picture.shape == (2 * 4 + 2, 3 * 6 + 2 * 2, 3)
    for number, (row, column) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]):
        cell = picture[row * 6 : row * 6 + 4, column * 8 : column * 8 + 6]
        assert (cell == number).all()
    assert (picture[4:6] == 255).all()
    assert (picture[6:, 16:] == 255).all()
    assert np.array_equal(tile(frames.numpy(), gap=2), picture.numpy())
    assert torch.equal(tile(frames[3:4]), frames[3])
    with pytest.raises(ValueError, match="at least one"):
        tile(frames[:0])


def moving_dot(steps: int, size: int | tuple[int, int]) -> torch.Tensor:
    spots = torch.stack([torch.linspace(-0.8, 0.8, steps), torch.zeros(steps)], dim=1)[:, None]
    return rasterize(Scene(circles(spots, 0.2, scene_module.RED), BOUNDS), size)


@pytest.mark.parametrize("suffix", [".mp4", ".gif", ".webp", ".png"])
@pytest.mark.parametrize("count", [1, 7])
def test_files_hold_every_frame(tmp_path, suffix, count):
    iio = pytest.importorskip("imageio.v3")
    frames = moving_dot(count, (48, 64))
    path = write_video(tmp_path / "new" / f"dot{suffix}", frames, fps=10)
    assert [entry.name for entry in path.parent.iterdir()] == [f"dot{suffix}"]
    read = iio.imread(path, index=...)[..., :3]
    assert read.shape == tuple(frames.shape)
    error = np.abs(read.astype(int) - frames.numpy().astype(int))
    assert error.mean() <= {".png": 0.0, ".webp": 0.0, ".gif": 1.0, ".mp4": 2.5}[suffix]
    if suffix != ".mp4" and count > 1:
        with Image.open(path) as image:
            image.load()
            assert image.info["duration"] == 100  # [ms]


def test_gif_of_many_colors_keeps_areas_and_has_similar_colors_elsewhere(tmp_path):
    iio = pytest.importorskip("imageio.v3")
    frame = np.full((64, 128, 3), (131, 7, 77), np.uint8)
    frame[:, 64:, :2] = 4 * np.stack(np.meshgrid(np.arange(64), np.arange(64)), -1)  # 4,096 colors
    read = iio.imread(write_video(tmp_path / "many.gif", [frame], fps=10), index=0)[..., :3].astype(int)
    assert np.array_equal(read[:, :64], frame[:, :64])
    assert np.abs(read - frame)[:, 64:].mean() < 8.0


def test_mp4_of_odd_size_is_padded_and_keeps_its_rate(tmp_path):
    iio = pytest.importorskip("imageio.v3")
    frames = (frame.numpy() for frame in moving_dot(6, (47, 65)))
    path = write_video(tmp_path / "odd.MP4", frames, fps=12.5)
    read = iio.imread(path, plugin="FFMPEG")
    assert read.shape == (6, 48, 66, 3)
    assert read[:, -1].min() > 200  # the padding repeats the light edge
    assert iio.immeta(path, plugin="FFMPEG")["fps"] == pytest.approx(12.5)


def test_failed_write_keeps_the_old_file(tmp_path):
    pytest.importorskip("imageio")
    path = tmp_path / "video.mp4"
    path.write_bytes(b"old")
    frames = [np.zeros((16, 16, 3), np.uint8), np.zeros((16, 18, 3), np.uint8)]
    with pytest.raises(ValueError, match=r"all of shape \(16, 16, 3\), got \(16, 18, 3\)"):
        write_video(path, frames, fps=10)
    with pytest.raises(ValueError, match=r"expected \(height, width, 3\) uint8, got \(16, 16, 3\) float64"):
        write_video(path, [frames[0].astype(float)], fps=10)
    with pytest.raises(ValueError, match="at least one"):
        write_video(path, [], fps=10)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".mp4", ".png"])
def test_write_errors_are_one_line(tmp_path, monkeypatch, suffix):
    pytest.importorskip("imageio")
    frames = [np.zeros((16, 16, 3), np.uint8)]
    (tmp_path / "file").touch()
    (tmp_path / f"folder{suffix}").mkdir()
    for name, why in ((f"file/x{suffix}", "Not a directory|File exists"), (f"folder{suffix}", "Is a directory")):
        with pytest.raises(GpuEnvsError, match=f"^cannot write {tmp_path / name}: ({why}); choose another place$"):
            write_video(tmp_path / name, frames, fps=10)
    monkeypatch.setattr(video, "_write_mp4", lambda *_: None)
    if suffix == ".mp4":
        with pytest.raises(GpuEnvsError, match=f"^cannot write {tmp_path}/x.mp4: the encoder returned no data"):
            write_video(tmp_path / "x.mp4", frames, fps=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", f"folder{suffix}"]


def test_invalid_arguments_and_missing_libraries_are_named(tmp_path, monkeypatch):
    frames = [np.zeros((16, 16, 3), np.uint8)]
    with pytest.raises(ConfigError, match=r"with the suffix \.mp4, \.gif, \.webp, \.png, got 'video.avi'"):
        write_video(tmp_path / "video.avi", frames, fps=10)
    with pytest.raises(ConfigError, match="fps"):
        write_video(tmp_path / "video.gif", frames, fps=0)
    for name in ("imageio", "imageio_ffmpeg", "pygame"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"imageio: pip install .*('imageio>=|\[train\])"):
        write_video(tmp_path / "video.mp4", frames, fps=10)
    with pytest.raises(MissingExtraError, match=r"pygame: pip install .*('pygame-ce>=|\[human\])"):
        Window().show(frames[0])
    assert list(tmp_path.iterdir()) == []


def test_window_shows_a_frame_and_closes(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    pygame = pytest.importorskip("pygame")
    window = Window("dot", fps=1000.0)
    assert not pygame.display.get_init()  # opens lazily
    frame = torch.arange(40 * 60 * 3).remainder(251).to(torch.uint8).reshape(40, 60, 3)
    window.show(frame)
    picture = pygame.surfarray.array3d(pygame.display.get_surface())
    assert np.array_equal(picture.swapaxes(0, 1), frame.numpy())
    window.show(frame[:20])
    assert pygame.display.get_surface().get_size() == (60, 20)

    pygame.event.post(pygame.event.Event(pygame.QUIT))
    window.show(frame)
    assert window.closed
    assert not pygame.display.get_init()
    window.show(frame)
    assert not pygame.display.get_init()  # what the user closed stays closed
    window.close()


def test_window_keeps_its_rate(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    window = Window(fps=50.0)
    frame = np.zeros((16, 16, 3), np.uint8)
    window.show(frame)
    clock = window._clock
    for _ in range(3):
        window.show(frame)
        assert clock.get_time() >= 18  # [ms]
    window.close()
