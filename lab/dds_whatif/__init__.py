"""What would have happened: a model of a cluster from its log, played under other policies, and real traces as scenarios."""
