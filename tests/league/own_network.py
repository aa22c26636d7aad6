"""A network of a user, named by "own_network:OwnNetwork" in tests of executors, whose workers import it."""

from torch import Tensor, nn


class OwnNetwork(nn.Module):
    """One linear layer."""

    def __init__(self, spec):
        super().__init__()
        self.layer = nn.Linear(spec.width, spec.outputs)

    def forward(self, obs: Tensor, mask: Tensor | None, hidden: Tensor | None):
        """Map (N, D) to (N, outputs)."""
        return self.layer(obs), hidden
