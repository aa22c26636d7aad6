"""Messages of errors, for tests of several rooms."""


def one_line(info, *words):
    """Assert that the message of a raised error is one line with these words."""
    message = str(info.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
