"""Starts the job as a child of ours, stands in for it, and lets the ranks of a node share one answer."""
