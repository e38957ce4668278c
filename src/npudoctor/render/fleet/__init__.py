"""Renders the merged reports of many nodes: which are ready, what is wrong where, what differs."""
