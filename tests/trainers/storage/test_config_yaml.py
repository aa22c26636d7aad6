"""Configuration files as YAML: plain values survive a round trip, and anything else is refused in one line."""

import os
from pathlib import Path

import pytest
import yaml

from gpu_envs.definition import id_modules
from gpu_envs.errors import ConfigError
from trainers.storage.config_yaml import CONFIG_FILE, MAX_BYTES, format_config, read_config, write_config

VALUES = {
    "number_as_text": "1e-3", "small": 1e-5, "large": 1e300, "tenth": 0.1, "int": -3, "big": 2**62, "true": True,
    "words": ["yes", "null", "~", "nan", "None", "true", "inf", ".inf", "0x1f", ".5", "1_000", "2020-01-01", "+1"],
    "interpolation": ["${oc.env:HOME}", "\\${x}", "a${b}", "???"], "marks": ["- a", "[1]", "a: b # c", "!!x", " lead"],
    "none": None, "empty": {}, "no_text": "", "lines": "a\nb", "unicode": "é☃", "nested": {"a.b": {"c": [1, 2.5]}},
}  # fmt: skip


def refused(path, text):
    """Return the message about a file with this text."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    return message


def test_plain_values_survive_a_round_trip(tmp_path):
    (tmp_path / "a.yaml").write_text(format_config(VALUES))
    values = read_config(tmp_path / "a.yaml")
    assert values == VALUES
    assert [type(value) for value in values.values()] == [type(value) for value in VALUES.values()]


def test_tuples_and_paths_are_written_as_lists_and_text(tmp_path):
    (tmp_path / "a.yaml").write_text(format_config({"sizes": (64, 32), "file": Path("a/b")}))
    assert read_config(tmp_path / "a.yaml") == {"sizes": [64, 32], "file": "a/b"}


def test_numbers_with_exponents_and_interpolations_are_read(tmp_path):
    text = "rate: 1e-3\nlearner:\n  learning_rate: ${rate}\n"
    (tmp_path / "a.yaml").write_text(text)
    assert read_config(tmp_path / "a.yaml") == {"rate": 0.001, "learner": {"learning_rate": 0.001}}
    assert yaml.safe_load("rate: 1e-3") == {"rate": "1e-3"}  # the reason for OmegaConf's rules


def test_empty_file_has_no_settings(tmp_path):
    (tmp_path / "a.yaml").write_text("# only a comment\n")
    assert read_config(tmp_path / "a.yaml") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1\n- 2\n", "expected a mapping such as 'seed: 1', got a list"),
        ("seed", "expected a mapping such as 'seed: 1', got a single value"),
        ("5", "expected a mapping such as 'seed: 1', got a single value"),
        (
            "a: 1\nseed: [1, 2\nb: 3\n",
            "line 3, column 2: expected YAML with plain values, got an error: expected",
        ),
        ("seed: 1\nseed: 2\n", "found duplicate key seed"),
        ("seed: ${none}\n", "Interpolation key 'none' not found"),
        ("seed: !python 1\n", "could not determine a constructor for the tag '!python'"),
        ("a:\n  b: [!!python/object/apply:pathlib.PosixPath [x]]\n", "a.b.0: expected a plain value, got a PosixPath"),
        (f"seed: {'[' * 1000}{']' * 1000}", "expected YAML with plain values, got values that are nested too deeply"),
        (f"seed: {'1' * MAX_BYTES}", "expected a YAML file of at most 1,000,000 bytes"),
    ],
)
def test_invalid_file_is_refused_in_one_line(tmp_path, text, words):
    assert words in refused(tmp_path / "a.yaml", text)


def test_tag_in_a_file_runs_no_code(tmp_path):
    marker = tmp_path / "marker"
    for tag in ("object/apply:os.mkdir", "object/new:os.mkdir", "name:os.mkdir", "module:antigravity"):
        assert "tag" in refused(tmp_path / "a.yaml", f"seed: !!python/{tag} ['{marker}']\n"), tag
    assert not marker.exists()


def test_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("none.yaml", "file is missing"), (".", "expected a YAML file"), ("bytes.yaml", "utf-8"),
                        ("pipe", "expected a YAML file")):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            read_config(tmp_path / name)


def test_written_file_names_the_command_and_the_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(id_modules, "_named", dict.fromkeys(("meet", "mine", "other")))
    settings = {"env_id": "meet:Meet-v0", "algorithm": "mine:Learner", "train_overrides": {"algorithm": "other:A"}}
    path = write_config(tmp_path, "league train", settings)
    assert path == tmp_path / CONFIG_FILE
    line = path.read_text().splitlines()[1]
    modules = "--allow-import meet --allow-import mine --allow-import other"
    assert line == f"#   gpu-envs league train --config {path} {modules}"
    assert read_config(path) == settings
    assert [file.name for file in tmp_path.iterdir()] == [CONFIG_FILE]


def test_folder_with_a_line_break_does_not_end_the_comment(tmp_path):
    folder = tmp_path / "a\nseed: 5"
    folder.mkdir()
    write_config(folder, "train", {"env_id": "CartPole-v1"})
    assert read_config(folder / CONFIG_FILE) == {"env_id": "CartPole-v1"}
