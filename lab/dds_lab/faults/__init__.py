"""Faults that a scenario asks for: `wire` between clients and the API server, `streams` what they do to a watch."""
