"""Networks: hidden states of a GRU, inputs of a CNN, and blocks of a ResNet."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from trainers.base.learner_spec import ObservationLayout
from trainers.models.networks import Network, NetworkConfig, mlp, with_block


def network(outputs: int = 3, width: int = 5, **settings) -> Network:
    spec = NetworkConfig(**{"hidden_sizes": (8, 6), **settings}).spec(width)
    return Network(spec, outputs, 1.0, torch.Generator().manual_seed(0))


def test_gru_steps_equal_unrolling():
    net, generator = network(network="gru"), torch.Generator().manual_seed(1)
    x = torch.randn((7, 4, 5), generator=generator)
    hidden_state = torch.randn((4, net.hidden_width), generator=generator)
    begins = torch.rand((7, 4), generator=generator) < 0.3
    unrolled, now = net.unroll(x, hidden_state, begins)[0], hidden_state
    for t in range(7):
        out, now = net.step(x[t], now.masked_fill(begins[t].unsqueeze(-1), 0.0))
        torch.testing.assert_close(out, unrolled[t])


def test_gru_resets_at_episode_starts():
    net = network(network="gru")
    x, hidden_state = torch.ones((3, 2, 5)), torch.zeros((2, 6))
    begins = torch.tensor([[False, False], [False, True], [False, False]])
    changed = x.clone()
    changed[0] += 1.0  # before the second world's episode starts
    first, second = (net.unroll(rows, hidden_state, begins)[0] for rows in (x, changed))
    assert not torch.allclose(first[2, 0], second[2, 0])
    assert torch.equal(first[2, 1], second[2, 1])


def test_cnn_uses_adjacent_pixels_and_entries_after_the_image():
    net = network(network="cnn", width=2 * 3 * 4 + 1, image=(2, 3, 4), conv_filters=(4,))
    x = torch.randn((6, 5, 25), generator=torch.Generator().manual_seed(2), requires_grad=True)
    assert net(x).shape == (6, 5, 3)
    net(x).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())
    rows = net(x[2, 3])
    torch.testing.assert_close(net(x)[2, 3], rows)


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({}, 32 * 11 * 11),
        ({"conv_strides": (2,)}, 32 * 3 * 3),
        ({"conv_strides": (2, 1)}, 32 * 6 * 6),
        ({"conv_pools": (2,)}, 32 * 2 * 2),
        ({"conv_strides": (2, 1), "conv_pools": (1, 3)}, 32 * 2 * 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["cnn", "resnet"])
def test_strides_and_pools_shrink_the_features_of_a_view_of_11_x_11_cells(kind, settings, features):
    net = network(network=kind, width=605 + 2, image=(5, 11, 11), **settings)
    assert net.module.body[0].weight.shape == (8, features + 2)
    assert net(torch.zeros(4, 607)).shape == (4, 3)


def test_resnet_adds_two_residual_blocks_to_each_convolution_as_impala():
    net = network(network="resnet", width=32, image=(2, 4, 4), conv_filters=(3, 5), conv_pools=(2, 1))
    image = torch.randn((6, 32), generator=torch.Generator().manual_seed(2))
    layers = [layer for layer in net.module.convolutions.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels) for layer in layers] == [
        (2, 3),
        *[(3, 3)] * 4,
        (3, 5),
        *[(5, 5)] * 4,
    ]
    x = image.view(6, 2, 4, 4)
    for section in (layers[:5], layers[5:]):
        x = section[0](x)
        x = torch.nn.functional.max_pool2d(x, 2) if len(x[0]) == 3 else x  # only the first pools
        for first, second in (section[1:3], section[3:5]):
            x = x + second(first(x.tanh()).tanh())
    torch.testing.assert_close(net(image), net.module.body(x.tanh().flatten(1)))


def test_cnn_sees_the_same_image_in_both_orders_of_its_axes():
    image = torch.randn((6, 3, 4, 2), generator=torch.Generator().manual_seed(2))  # height, width, channels
    settings = {"network": "cnn", "width": 24, "image": (2, 3, 4), "conv_strides": (2, 1)}
    last, first = network(channels_last=True, **settings), network(**settings)
    torch.testing.assert_close(last(image.flatten(1)), first(image.permute(0, 3, 1, 2).flatten(1)))


def test_every_image_among_named_blocks_has_convolutions_of_its_own():
    blocks = {"speed": (2,), "view": (3, 4, 2), "bag": (1,), "map": (2, 3, 1)}
    config = NetworkConfig(network="cnn", hidden_sizes=(8,), conv_filters=(4, 5), conv_strides=(2, 1))
    spec = config.spec(33, ObservationLayout(blocks, channels_last=True))
    net = Network(with_block(spec, "agent", 1), 3, 1.0)
    x = torch.randn((6, 34), generator=torch.Generator().manual_seed(2), requires_grad=True)
    speed, view, bag, chart, index = x.split([2, 24, 1, 6, 1], -1)
    first, second = net.module.convolutions[:5], net.module.convolutions[5:]
    features = [speed, first(view.view(6, 3, 4, 2).permute(0, 3, 1, 2)), bag]
    features += [second(chart.view(6, 2, 3, 1).permute(0, 3, 1, 2)), index]
    torch.testing.assert_close(net(x), net.module.body(torch.cat(features, -1)))
    assert [part.shape[1] for part in features] == [2, 5 * 2 * 2, 1, 5 * 1 * 2, 1]
    net(x).sum().backward()
    assert bool((x.grad != 0).all())


@pytest.mark.parametrize("name", ["agent", "action"])
def test_block_of_an_observation_with_the_name_of_an_added_one_is_refused(name):
    spec = NetworkConfig().spec(3, ObservationLayout({"speed": (2,), name: (1,)}))
    assert with_block(spec, name, 0) == spec
    with pytest.raises(
        ConfigError, match=f"^observation space: expected another name than '{name}', which networks add"
    ):
        with_block(spec, name, 2)


def test_image_of_the_space_is_the_image_of_the_setting():
    x = torch.randn((6, 24), generator=torch.Generator().manual_seed(2))
    layout = ObservationLayout({"observation": (2, 3, 4)})
    first, other = (
        Network(NetworkConfig(network="cnn", image=image).spec(24, layout), 3, 1.0, torch.Generator().manual_seed(0))
        for image in ((), (2, 3, 4))
    )
    assert torch.equal(first(x), other(x))
    assert [*first.state_dict()][:2] == ["convolutions.0.weight", "convolutions.0.bias"]


def test_pools_and_strides_that_do_not_fit_are_refused():
    image = {"network": "cnn", "width": 9, "image": (1, 3, 3)}
    with pytest.raises(ConfigError, match=r"learner.conv_pools: expected windows that leave at least one cell"):
        network(**image, conv_pools=(2,))
    with pytest.raises(ConfigError, match=r"learner.conv_strides: expected one number, or one for each of 2 conv"):
        network(**image, conv_strides=(1, 2, 1))


def test_specification_of_an_earlier_version_has_no_strides():
    spec = NetworkConfig(network="cnn", image=(1, 3, 3)).spec(9)
    earlier = {
        name: value for name, value in spec.items() if name not in ("conv_strides", "conv_pools", "channels_last")
    }
    nets = [Network(layers, 3, 1.0, torch.Generator().manual_seed(0)) for layers in (spec, earlier)]
    assert torch.equal(nets[0](torch.ones(9)), nets[1](torch.ones(9)))


@pytest.mark.parametrize("image", [(), (3, 3), (1, 3, 3)])
def test_image_larger_than_observation_is_refused(image):
    with pytest.raises(ConfigError, match=r"learner.image: expected .* at most the 5 numbers"):
        network(network="cnn", image=image)


def test_gru_without_hidden_width_is_refused():
    with pytest.raises(ConfigError, match=r"learner.hidden_sizes: expected at least the width of the GRU, got .*"):
        network(network="gru", hidden_sizes=())


def test_initial_weights_do_not_depend_on_the_number_of_threads():
    """LAPACK computes other bits with several threads."""
    weights, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            weights.append(mlp([64, 64, 2], "tanh", 1.0, torch.Generator().manual_seed(0))[0].weight)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*weights)
