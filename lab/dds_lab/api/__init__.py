"""An API server of Kubernetes' kind: objects, versions, patches, watches, access rules. It does no I/O and reads no clock.

It knows what a ResourceClaim may look like, and nothing of what devices are for: no scheduler, no fabric, no operator.
"""
