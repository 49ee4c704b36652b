"""Controllers of kube-controller-manager for the kinds of apps/v1 and batch/v1: ReplicaSets, Deployments, StatefulSets, Jobs.

They create and delete pods, and act only where objects of these kinds are.
"""
