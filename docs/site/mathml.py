"""Renderer of equations as MathML, which browsers show without scripts and screen readers read."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def _visit_math(self, node):
    self.body.append(convert(node.astext()))
    raise SkipNode


def _visit_math_block(self, node):
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def setup(app):
    """Register the renderer and choose it."""
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
