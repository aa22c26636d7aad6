"""Throughput, memory and compile times; nothing imports this.

``pytest benchmarks`` times the rows of ``cases.py`` one by one; ``python -m benchmarks.report`` measures the targets,
ours and the bound in alternation, and writes ``docs/performance.md``.
"""
