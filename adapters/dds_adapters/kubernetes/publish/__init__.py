"""The Kubernetes side of the publisher: the objects it reads, the slices and labels it writes, and its Kubernetes Events.

Nothing here decides or asks a fabric.
"""
