"""Permissions that a write needs beyond the one on its path."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GranularCheck:
    """One such permission, in the group of the object's own resource.

    `resource` is synthetic ("resourceclaims/binding"). `verbs` are tried in order and the first that is allowed is enough;
    `associated-node:` verbs count only for a service account whose token names `node`. A refusal is told as a Forbidden
    cause on `field`.
    """

    resource: str
    verbs: tuple[str, ...]
    name: str
    namespace: str
    field: str
    node: str = ""
