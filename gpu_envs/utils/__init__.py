"""Small tools that know nothing of environments. Each file can be imported alone."""
