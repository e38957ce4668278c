"""Data, not code: compatibility tables, each row with its source; what a site adds; how rows are compared.

Here belongs what is published about versions, variables and failures. What is installed here the host says.
"""
