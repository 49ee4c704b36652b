"""Which devices could serve a claim, and which ones the scheduler takes.

A reimplementation of the device choice of Kubernetes 1.36 (structured allocator of the DynamicResources plugin). Import
everything from `dds_core.matching.allocator`. `Allocator` answers; `Slice`, `DeviceClass`, `TaintRule`, `Claim` and `Node` are
its input, made from the API's JSON by `from_object` or from the state by `records`; `InUse` holds the devices in use. The CEL
library is loaded when the first selector is compiled. Nothing here reads a clock or a random number.
"""
