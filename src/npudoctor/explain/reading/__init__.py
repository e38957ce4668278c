"""Finds and reads log files: walks folders, opens, unpacks, and spreads the work over processes.

Everything that may block, be hostile or be huge is handled here. `explain.scanning` interprets the bytes.
"""
