"""Checks of what collective communication needs: ports, interfaces, firewall and rank tables."""
