"""Bodies: what a GRU remembers and forgets, and what a CNN sees."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from trainers.bodies import BodyConfig, Network


def network(outputs: int = 3, width: int = 5, **settings) -> Network:
    spec = BodyConfig(**{"hidden": (8, 6), **settings}).spec(width)
    return Network(spec, outputs, 1.0, torch.Generator().manual_seed(0))


def test_steps_of_a_gru_are_its_unrolling():
    net, generator = network(body="gru"), torch.Generator().manual_seed(1)
    x = torch.randn((7, 4, 5), generator=generator)
    memory = torch.randn((4, net.memory_width), generator=generator)
    begins = torch.rand((7, 4), generator=generator) < 0.3
    whole, now = net.unroll(x, memory, begins), memory
    for t in range(7):
        out, now = net.step(x[t], now.masked_fill(begins[t].unsqueeze(-1), 0.0))
        torch.testing.assert_close(out, whole[t])


def test_a_gru_forgets_where_an_episode_begins():
    net = network(body="gru")
    x, memory = torch.ones((3, 2, 5)), torch.zeros((2, 6))
    begins = torch.tensor([[False, False], [False, True], [False, False]])
    changed = x.clone()
    changed[0] += 1.0  # before the second world's episode begins
    one, two = net.unroll(x, memory, begins), net.unroll(changed, memory, begins)
    assert not torch.allclose(one[2, 0], two[2, 0])
    assert torch.equal(one[2, 1], two[2, 1])


def test_a_cnn_sees_neighbours_and_what_follows_the_picture():
    net = network(body="cnn", width=2 * 3 * 4 + 1, image=(2, 3, 4), filters=(4,))
    x = torch.randn((6, 5, 25), generator=torch.Generator().manual_seed(2), requires_grad=True)
    assert net(x).shape == (6, 5, 3)
    net(x).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())
    rows = net(x[2, 3])
    torch.testing.assert_close(net(x)[2, 3], rows)


@pytest.mark.parametrize("image", [(), (3, 3), (1, 3, 3)])
def test_a_picture_that_does_not_fit_is_refused(image):
    with pytest.raises(ConfigError, match=r"learner.image = .* at most the 5 numbers"):
        network(body="cnn", image=image)


def test_the_memory_of_a_gru_needs_a_width():
    with pytest.raises(ConfigError, match=r"learner.hidden = .*: expected at least one width"):
        network(body="gru", hidden=())
