"""Conformance: sends recorded requests ("questions") to any API server, and compares the answers with those of a real one; and
compares recordings of whole runs (`recordings`).

Requests and answers are data (`data/`, recorded from kube-apiserver 1.36.2). The lab's server is asked over HTTP through a
kubeconfig, like any other server.
"""
