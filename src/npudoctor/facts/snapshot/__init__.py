"""All that a person compares of a node: read from the host, read back from a file, and two of them compared.

Here belongs what is a fact and which differences count. How a snapshot is taken beside the checks is
`runner`, what it looks like `render`.
"""
