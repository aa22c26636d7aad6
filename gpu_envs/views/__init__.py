"""Views: the same core through the interfaces of other libraries."""
