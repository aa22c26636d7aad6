"""Rules of economies."""
