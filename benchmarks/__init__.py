"""Measurements side by side with other libraries. Nothing here is a test, and no test reads a time from here."""
