"""Pages and pictures made from recorded results."""
