"""Small games solved without sampling: whole trees of our own environments, and policies that are tables."""

from league.exact.table import TablePolicy, tabulate
from league.exact.tree import Profile, Tree

__all__ = ["Profile", "TablePolicy", "Tree", "tabulate"]
