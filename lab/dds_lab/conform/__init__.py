"""Conformance: questions that a real API server has answered, asked of any server, and what differs.

The questions and answers are data (`data/`, of kube-apiserver 1.36.2). Nothing here knows how the lab's server works: it
is asked over HTTP like every other, through a kubeconfig.
"""
