"""A live scaler, publisher or autoscaler: listening, deciding, logging and writing, put together into one process.

`loop` decides and logs; `scaler`, `publisher` and `autoscaler` add what is particular to each component. `process` drives one of
them with threads, `serving` runs several in one program. `publishing` and `autoscaling` are the threads that ask the fabric and
the provider of servers. `operation`, `health`, `logs`, `metrics` and `preflight` report on them.
"""
