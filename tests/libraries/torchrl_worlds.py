"""Small worlds as environments of TorchRL, for several test files."""

from small_environments import SMALL

from gpu_envs.views.torchrl import TorchRLEnv


def make(env_id, num_envs=5, device="cpu", **settings):
    """Return a batch of worlds of the small configuration."""
    return TorchRLEnv(env_id, num_envs, device, **{"seed": 0, **SMALL[env_id], **settings})
