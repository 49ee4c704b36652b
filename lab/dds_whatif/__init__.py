"""Derive a model of a cluster from its log, and simulate it under other policies and pools. Real traces as scenarios."""
