"""The controllers of the simulated cluster. Each of them knows the cluster only through `dds_lab.client`; none imports the
simulated API server."""
