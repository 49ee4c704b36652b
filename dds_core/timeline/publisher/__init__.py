"""Timelines of the publisher: what happened to a pool, a node or a machine of the fabric.

As everything in `dds_core.timeline` it changes nothing and decides nothing.
"""
