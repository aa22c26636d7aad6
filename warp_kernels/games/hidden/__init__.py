"""Rules of games with hidden information or simultaneous moves, as in OpenSpiel."""
