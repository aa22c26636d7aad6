"""Populations that learn against each other: PSRO, AlphaStar-style leagues, and what they are judged by."""
