"""Rules of the multi-agent particle environments (MPE), as in mpe2 1.1.1."""
