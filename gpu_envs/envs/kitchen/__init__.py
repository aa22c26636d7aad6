"""Host modules of the environments in kitchens."""
