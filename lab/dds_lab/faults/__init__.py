"""Faults that a scenario asks for: `world` on the fabric, in components and at random, `wire` between clients and the server."""
