"""Host modules of games for populations and leagues: matrix games, poker, board games."""
