"""Host environments: ordinary Python environments of other libraries, in batches with the interface of a core."""
