"""Summaries and films of environments, in terminals and notebooks."""

import base64
import io
import re
import sys

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence

import gpu_envs
from gpu_envs.errors import ConfigError, MissingExtraError
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.utils.summaries import Summarized, Summary

PREY = "agent: agents 2 (agent_0, agent_1), observation Box(18,), action Discrete(5)"
ALL = f"adversary: agents 3 (adversary_0 to adversary_2), observation Box(20,), action Discrete(5); {PREY}"


def test_batched_environment_and_core_show_worlds_device_settings_agents_and_spaces():
    env = gpu_envs.make("SimpleTag-v0", 1024, "cpu", num_good=2)
    text = f"SimpleTag-v0: worlds=1,024, device=cpu, settings=num_good=2; {ALL}"
    assert repr(env) == f"<BatchedEnv {text}>"
    assert repr(env.core) == f"<Core {text}>"
    env.close()
    assert repr(env) == f"<BatchedEnv {text}>"


def test_views_of_single_worlds_and_rows_show_what_they_control():
    rows = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=4, group="agent", device="cpu", num_good=2)
    assert repr(rows) == f"<RowsEnv SimpleTag-v0: rows=8, worlds=4, device=cpu, settings=num_good=2; {PREY}>"
    single = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0").unwrapped
    assert repr(single).startswith("<SingleAgentEnv SimpleTag-v0: agent=agent_0, device=cpu; agent: agents 1 (agent_0)")
    parallel = gpu_envs.parallel_env("KuhnPoker-v0")
    assert repr(parallel).startswith("<ParallelView KuhnPoker-v0: worlds=1, device=cpu; player: agents 2")
    assert str(parallel) == "KuhnPoker-v0"  # as every environment of PettingZoo


def test_html_has_every_value_and_is_escaped():
    env = gpu_envs.make("SimpleTag-v0", 2, "cpu")
    for part in ("<b>SimpleTag-v0</b>", "BatchedEnv", ">adversary<", ">3 (adversary_0 to adversary_2)<", ">Box(16,)<"):
        assert part in env._repr_html_()
    attack = "<script>alert('x')</script>"

    class Attacked(Summarized):
        def _summary(self):
            return Summary(attack, {attack: attack, "nothing": None}, (attack, attack), [(attack, attack)])

    text = Attacked()._repr_html_()
    assert "<script" not in text
    assert "nothing" not in text
    assert text.count("&lt;script&gt;") == 7
    assert text.count("<tr>") == text.count("</tr>") == 3


def test_long_values_and_tables_are_cut():
    rows = [(f"row{number}", "x" * 1000) for number in range(100)]
    summary = Summary("Long-v0", {"line": "a\nb"}, ("", "value"), rows)
    assert summary.text("Core").startswith("<Core Long-v0: line=a b; row0: value xxx")
    assert summary.text("Core").endswith("; and 94 more>")
    assert len(summary.text("Core")) < 700
    assert "and 70 more" in summary.html("Core")


def test_object_whose_constructor_failed_has_a_repr():
    broken = object.__new__(type(gpu_envs.make("SimpleTag-v0", 1, "cpu")))
    assert repr(broken).startswith("<gpu_envs.views.batched.BatchedEnv object at")


def test_kernel_policy_shows_sizes_instead_of_weights():
    layers = [(torch.zeros(8, 4), torch.zeros(8)), (torch.zeros(2, 8), torch.zeros(2))]
    policy = KernelPolicy.from_tensors(layers, gymnasium.spaces.Discrete(2))
    assert repr(policy).startswith("<KernelPolicy: head=categorical, network=4-8-2+0 tanh, parameters=")


def gif_frames(video) -> list[np.ndarray]:
    """Return the frames of the image in the HTML of a film."""
    match = re.fullmatch(
        r'<img alt="[^"]*" width="\d+" height="\d+" src="data:image/gif;base64,([^"]+)">', video._repr_html_()
    )
    assert match
    image = Image.open(io.BytesIO(base64.b64decode(match[1])))
    return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


def test_film_shows_the_policies_and_leaves_the_environment_unchanged(tmp_path):
    env = gpu_envs.make("Simple-v0", 2, "cpu", seed=0)
    env.reset()
    state = env.core.get_state()
    wait, go = (lambda obs, action=action: torch.full(obs.shape[:2], action) for action in (0, 1))
    static, moving = (env.video(4, {"agent": policy}, size=64) for policy in (wait, go))
    assert all(torch.equal(tensor, state[name]) for name, tensor in env.core.get_state().items())
    assert repr(moving) == "<InlineVideo Simple-v0: 64 x 64 pixels, 4 frames, 0.4 s>"
    assert len(gif_frames(moving)) > 1
    assert len(gif_frames(static)) == 1  # a GIF keeps no frame twice in a row
    assert moving.save(tmp_path / "film.mp4").stat().st_size > 500


def test_film_has_the_parameters_of_the_environment():
    env = gpu_envs.make("SimpleTag-v0", 1, "cpu")
    small = env.video(1, size=64).frames[0]
    env.core.set_params(adversary_size=0.4)
    assert (env.video(1, size=64).frames[0] != small).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: gpu_envs.parallel_env("LeducPoker-v0"),
        lambda: gymnasium.make("gpu_envs/CartPole-v1").unwrapped,
        lambda: gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=2, group="agent", device="cpu"),
        lambda: gpu_envs.make("SimpleTag-v0", 2, "cpu"),
    ],
)
def test_every_view_makes_films(make):
    video = make().video(steps=3, num_envs=4, size=32)
    assert [frame.shape for frame in video.frames] == [(67, 67, 3)] * 3


class Recurrent:
    """Policy that counts the steps of an episode in its hidden state and records the counts."""

    def __init__(self):
        self.hidden_states = []

    def initial_hidden_state(self, *shape):
        return torch.zeros((*shape, 1))

    def act(self, obs, mask=None, hidden_state=None):
        hidden_state += 1
        self.hidden_states.append(int(hidden_state.max()))
        return torch.zeros(obs.shape[:-1], dtype=torch.int64)


def test_film_of_a_recurrent_policy_resets_its_hidden_state():
    policy = Recurrent()
    gpu_envs.make("SimpleTag-v0", 1, "cpu", max_cycles=3).video(9, {"agent": policy}, size=32)
    assert policy.hidden_states == [1, 2, 3, 4, 1, 2, 3, 4, 1]  # with the step in which a world restarts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, r"SimpleTag-v0: steps: expected an int in \[1, 10000\]|steps"),
        ({"num_envs": 65}, "num_envs"),
        ({"policies": {"nobody": print}}, "policies has no 'nobody' to play"),  # prose: ok (a name that does not exist)
        ({"policies": "zoo"}, "policies: expected 'random', a policy or a dict"),
    ],
)
def test_film_refuses_bad_arguments(arguments, message):
    with pytest.raises(ConfigError, match=message):
        gpu_envs.make("SimpleTag-v0", 1, "cpu").video(**arguments)


def test_film_without_imageio_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*('imageio>=|\[train\])"):
        gpu_envs.make("SimpleTag-v0", 1, "cpu").video(1)
