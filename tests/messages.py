"""Messages of errors and output of commands, for tests of several rooms."""

from gpu_envs.cli import main

ERROR = "gpu-envs: error: "


def one_line(info, *words):
    """Assert that the message of a raised error is one line with these words."""
    message = str(info.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def printed(capsys, *argv):
    """Return what --print-config prints."""
    assert main([*map(str, argv), "--print-config"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return output.out


def refused(capsys, *argv):
    """Return the one line that a refused command prints."""
    assert main(list(map(str, argv))) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith(ERROR)
    return line.removeprefix(ERROR)
