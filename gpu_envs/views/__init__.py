"""Thin views over one core: the same worlds through the interfaces that libraries expect. No logic of their own."""
