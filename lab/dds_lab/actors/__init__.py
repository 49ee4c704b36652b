"""The controllers of the simulated cluster, each a client of the API and of nothing else.

None of them imports the API server's insides: what they know of the cluster they have read through `lab.client`.
"""
