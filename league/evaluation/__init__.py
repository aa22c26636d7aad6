"""Evaluation of meta-strategies: payoff tables, NashConv and exploitability."""
