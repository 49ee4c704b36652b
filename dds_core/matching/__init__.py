"""Which device could serve a claim, and which one the scheduler takes.

`likely` is the rules' quick guess. Everything else re-states the device choice of Kubernetes 1.36 (structured allocator of the
DynamicResources plugin): `Allocator` in `allocator`, what it reads in `objects` and `claims`, what is taken in `usage`.
Nothing here reads a clock or draws lots; a CEL library is loaded when the first selector is compiled, not before.
"""

from __future__ import annotations

from dds_core.matching.likely import could_satisfy, excludes

__all__ = ["could_satisfy", "excludes"]
