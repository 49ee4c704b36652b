"""Names under which the scaler keeps numbers and instants in its tables `counters` and `fired_deadlines`."""

UNANSWERED = "nudges/unanswered"
"""Counter of nudges in a row after which the operator did nothing for 5 s, although it was not busy with an order."""
WROTE = "operator/wrote"
"""Counter: when the operator last wrote the status of a resource. Its one worker has done nothing else since."""
BUSY, BUSY_SINCE = "operator/busy", "operator/busy since"
"""Counters: how long its worker may have been at work before that in all, and since when it is, 0 if it is not."""
RELISTED, UNGUARDED, UNHELD = ("claims", "relisted"), ("guard", "refused"), ("hold", "refused")
"""Keys of `fired_deadlines` for other instants: when the watch of claims last restarted, and when a step of an exchange or of a
hold was last refused because rights or the guard's policy are missing."""
LET_GO = "let-go"
"""Such a key with the uid of a device: when its hold ended."""
ORDERED = "ordered"
"""Key of `fired_deadlines` with the name of a node: when dds's first order, or the operator's first resource there, was seen."""
UNMADE = "unmade"
"""Such a key with the name of a request: when a resource of it went that the operator, done by its own word, does not replace."""
FIXED = ("fixed", "noted")
"""Key of `fired_deadlines`: when dds first looked which devices belong to the machines."""
