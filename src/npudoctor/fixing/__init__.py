"""Mending: steps as data, one engine that applies them, a journal written before anything is touched."""
