"""Decisions to API requests: what each one means (`plan`), in which order they are sent (`Outbox`), who sends them (`Writer`),
and what came of them, as facts.

Nothing here decides anything: a write that the live object does not bear out any more is not made.
"""
