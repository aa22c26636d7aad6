"""Rules of GatherTradeBuild-v0."""
