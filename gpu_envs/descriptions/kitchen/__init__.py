"""Descriptions of the environments in kitchens."""
