"""Reports on runs: tables, figures, ratings and comparisons."""
