"""What the reference shows: Warp's structs and functions as they are written, and fields with their sentences."""

import warp as wp
from sphinx.ext.napoleon import GoogleDocstring


def _as_written(function=None, **_):
    return function if function is not None else lambda function: function


wp.struct = wp.func = wp.kernel = _as_written  # this module is imported before any that uses them


def setup(app):
    """Mend Napoleon."""
    # Napoleon takes the words before a colon for the type of a field; ours are sentences, and types are annotated.
    GoogleDocstring._parse_attribute_docstring = lambda self: [*self._lines]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
