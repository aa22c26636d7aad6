"""Slow reference oracles in plain float32 NumPy, one world at a time, written from the equations alone.

They share no code with the packages under test. Every module offers `Config`, `initial`, `observe` and `step`.
"""
