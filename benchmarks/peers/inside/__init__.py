"""Programs that run in the virtual environment of a peer. They import no package of this project but `benchmarks`."""
