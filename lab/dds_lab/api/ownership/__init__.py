"""Field ownership: metadata.managedFields after an update, and server-side apply.

The rules are those of Kubernetes' structured merge (KEP-555). Fields and entries of keyed lists have owners. An apply conflicts
only if another manager owns a field *and* its value would change. A field that a manager applied before and now leaves out is
removed, unless another manager owns it. All functions are pure.
"""

from dds_lab.api.ownership.managers import applied, updated

__all__ = ["applied", "updated"]
