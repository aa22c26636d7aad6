"""docs/league.md and its pictures, from recorded results."""

def write(results, claims):
    pass
