"""Steps of environments recorded and compared, for tests of several rooms."""

import torch


def play(core, steps, seed=None, actions=None):
    """Reset and play; returns every step's results, cloned."""
    core.reset(seed)
    history = []
    for t in range(steps):
        action = core.sample_actions() if actions is None else actions[t]
        obs, reward, terminated, truncated, info = core.step(action)
        done = terminated | truncated
        for name in ("final_obs", "episode_return", "episode_length"):  # defined only where done
            info[name] = torch.where(done[..., None] if name == "final_obs" else done, info[name], 0)
        history.append(
            {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "action": action, **info}
        )
    return history


def assert_same(left, right, rows=slice(None)):
    """Bit for bit, step by step (NaN never appears, so equality is enough)."""
    for t, (a, b) in enumerate(zip(left, right, strict=True)):
        for name in a:
            assert torch.equal(a[name][rows], b[name]), f"step {t}: {name} differs"
