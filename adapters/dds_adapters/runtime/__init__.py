"""The running scaler: what listens, what decides and logs, and what writes, put together into one process.

`Scaler` is the part that decides and logs, without threads or a clock; `process` runs it against a cluster.
"""
