"""Kubernetes as the publisher sees it: what it reads of a cluster, the slices and labels that it writes, what it tells people.

Nothing here decides, and nothing here asks a fabric.
"""
