"""Adapters: one package for each outside system that the core talks to. They carry out and never decide."""
