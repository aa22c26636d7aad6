"""Rules of the environments in kitchens."""
