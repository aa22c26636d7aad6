"""Training loops of other libraries."""
