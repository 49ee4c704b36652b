"""Faults of a scenario: `world` for fabric and components, in windows or at random; `wire` between clients and the API server."""
