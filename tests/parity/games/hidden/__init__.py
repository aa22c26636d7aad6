"""Games with hidden information or simultaneous moves compared with OpenSpiel."""
