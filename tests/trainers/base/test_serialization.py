"""Reading files: damaged JSON, tensors that are not finite, and paths that cannot be written."""

import json
import math
import os
import threading

import pytest

from gpu_envs.errors import CheckpointError
from trainers.base import serialization
from trainers.base.serialization import MAX_JSON_DEPTH, parse_json, read_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON, got Expecting value"),
        ('{"a": 1', "expected JSON, got Expecting ',' delimiter"),
        ('{"a": NaN}', "expected JSON, got NaN, which is not a finite number"),
        ("[-Infinity]", "expected JSON, got -Infinity, which is not a finite number"),
        ("1e999", "expected JSON, got 1e999, which is not a finite number"),
        ("1" * 5000, "expected JSON, got a number of 5000 characters, 11111111111111111111"),
        ("-" + "1" * 30, "expected JSON, got a number of 31 characters"),
        (str(2**63), "expected JSON, got a number of 19 characters"),
        ("[" * 100_000 + "]" * 100_000, "expected JSON of at most 64 levels, got more"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "expected JSON of at most 64 levels, got more"),
        ("[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1), "expected JSON of at most 64 levels, got more"),
    ],
)
def test_damaged_json_raises_a_one_line_error(text, message):
    with pytest.raises(CheckpointError) as caught:
        parse_json(text, "here")
    assert str(caught.value).startswith(f"here: {message}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_valid_json_is_read():
    deep = "[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH
    for text in ("{}", "[1, -2.5, null, true]", '"é"', deep, str(2**63 - 1), str(-(2**63)), '{"a": {"b": [0.0]}}'):
        assert parse_json(text, "here") == json.loads(text)
    values = parse_json("[NaN, -Infinity]", "here", finite=False)
    assert math.isnan(values[0])
    assert values[1] == -math.inf


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe{}", "expected JSON in UTF-8, got 'utf-8' codec can't decode"),
        (b"\x00\x00", "expected JSON, got Expecting value"),
        (b"[]", "expected a JSON object, got list"),
    ],
)
def test_damaged_json_file_is_named(tmp_path, content, message):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{file}: {message}"):
        read_json(file)
    for path in (tmp_path, tmp_path / "none", tmp_path / "\0", tmp_path / ("x" * 300)):
        with pytest.raises(CheckpointError, match="expected a readable file, got"):
            read_json(path)


@pytest.mark.parametrize(
    "read", [serialization.read_bytes, serialization.read_json, serialization.read_tensors, serialization.sha256]
)
def test_pipe_is_refused_in_place_of_a_file(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)  # so that a reader does not block forever
    os.write(writer, b"{}")
    threading.Timer(1, os.close, [writer]).start()
    with pytest.raises(CheckpointError, match="pipe: expected a file, got a pipe or a device"):
        read(tmp_path / "pipe")
