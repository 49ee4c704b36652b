"""What the autoscaler has to do with the API server: how it reads nodes and pods, and what its decisions become."""
