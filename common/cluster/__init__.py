"""Distributed training: the tasks of a cluster, collective ops, coordinated shutdown."""
