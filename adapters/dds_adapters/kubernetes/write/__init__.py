"""Turns decisions into API requests: what to write (`tasks_of`), in which order (`Outbox`), the threads that send it (`Writer`),
and the outcomes as facts.

Nothing here decides. A write is not made if the live object no longer matches the decision.
"""
