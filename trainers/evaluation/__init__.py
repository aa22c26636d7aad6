"""Play policies against each other: scores, cross-play, videos and recorded episodes."""
