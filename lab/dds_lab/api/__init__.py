"""A simulated Kubernetes API server. It does no I/O and reads no clock: its owner gives it the time.

`server` is the entry. `responding` turns HTTP requests into calls; `access` authenticates and authorises; `reading`, `writing`,
`deleting` and `posted` carry out the verbs; `strategies` and `rules` hold what is special to a kind; `policies` enforces
admission policies; `store` keeps objects and their history; `watches` streams changes. The package knows the schemas of
objects, but no behaviour: no scheduler, fabric or operator.
"""
