"""Which files are read, and how their bytes come in: folders walked, files opened, unpacked, spread over
processes.

Here belongs what may block, be hostile or be huge. What the bytes say is `explain.scanning`.
"""
