"""Storage of league runs: database, policies, configuration and presets."""
