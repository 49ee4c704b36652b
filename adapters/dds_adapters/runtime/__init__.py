"""A running scaler or publisher: what listens, what decides and logs, and what writes, put together into one process.

`loop` is what decides and logs, `scaler` and `publisher` what is particular to each; `process` drives one of them with threads,
and `publishing` asks the fabric for the publisher. `serving` runs several in one program; the other modules tell how they do.
"""
