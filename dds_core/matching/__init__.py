"""Which device could serve a claim, and which one the scheduler takes.

It re-states the device choice of Kubernetes 1.36 (structured allocator of the DynamicResources plugin), and `from
dds_core.matching.allocator import …` has all that a caller needs: ask an `Allocator`; `Slice`, `DeviceClass`, `TaintRule`,
`Claim` and `Node` are made from the API's JSON by `from_object`, and (in `records`) from what the state holds; `InUse` holds
what is taken. A CEL library is loaded when the first selector is compiled. Nothing here reads a clock or draws lots.
"""
