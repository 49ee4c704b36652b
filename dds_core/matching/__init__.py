"""Which device could serve a claim, and which one the scheduler takes.

`likely` is the rules' quick guess. Everything else re-states the device choice of Kubernetes 1.36 (structured allocator of the
DynamicResources plugin), and `from dds_core.matching.allocator import …` has all that a caller needs: ask an `Allocator`;
`Slice`, `DeviceClass`, `TaintRule`, `Claim` and `Node` are made from the API's JSON by `from_object`, and `InUse` holds what is
taken. The rules do not use it, so `import dds_core` does not load it; and a CEL library is loaded when the first selector is
compiled, not before. Nothing here reads a clock or draws lots.
"""

from __future__ import annotations

from dds_core.matching.likely import could_satisfy, excludes

__all__ = ["could_satisfy", "excludes"]
