"""Who wrote which field: metadata.managedFields after an update, and server-side apply on top of it.

The rules are those of Kubernetes' structured merge (KEP-555): ownership is by field and by entry of keyed lists, an apply
conflicts only where another manager owns a field *and* the value would change, and what a manager applied before and
leaves out now is removed unless somebody else owns it. Pure functions; nothing here may know a kind or write an object
in place.
"""

from dds_lab.api.ownership.managers import applied, updated

__all__ = ["applied", "updated"]
