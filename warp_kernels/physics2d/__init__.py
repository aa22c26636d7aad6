"""Physics in two dimensions: bodies and joints as data, and the phases and functions that move and measure them."""
