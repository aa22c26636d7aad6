"""Host modules of the environments: settings, spaces, initial values and rendering."""
