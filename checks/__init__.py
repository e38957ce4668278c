"""The built-in checks: one file is one check and its manual page, a folder is a group."""
