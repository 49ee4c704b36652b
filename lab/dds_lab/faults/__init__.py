"""Faults of a scenario: `world` for fabric and components, planned or random; `wire` between clients and the API server."""
