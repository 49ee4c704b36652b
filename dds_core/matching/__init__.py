"""Which devices could serve a claim, and which ones the scheduler takes.

A reimplementation of the device choice of Kubernetes 1.36 (structured allocator of the DynamicResources plugin). `Allocator`
(`dds_core.matching.allocator`) answers from the records of `dds_core.model`, which a state holds or which `objects` reads from
the API's JSON; `InUse` holds the devices in use; `results` writes status.allocation. The CEL library is loaded when the first
selector is compiled. Nothing here reads a clock or a random number.
"""
