"""Checks that run something of the job: asked by --profile deep, or by name."""
