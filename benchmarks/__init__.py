"""Throughput, memory and compile times; nothing imports this.

``make bench`` plays ours, peers and bounds in alternation (``contests.py``); ``python -m benchmarks.report`` measures
the other targets (``targets.py``), or takes over what ``make bench`` has measured, and writes ``docs/performance.md``.
"""
