"""The window shows frames at its rate, and closes."""

import numpy as np
import pytest
import torch

from gpu_envs.rendering.window import Window


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
