"""Measurements of throughput, memory and compile times. No other package imports this one.

``make bench`` runs the comparisons with other libraries and bounds. ``python -m benchmarks.pages.report`` measures the
other targets (``pages/targets.py``), or takes the results of ``make bench``, and writes ``docs/performance.md``.
``make kernels`` records the resources of the GPU kernels in ``docs/kernels.md``.
"""
