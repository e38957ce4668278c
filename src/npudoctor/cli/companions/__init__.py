"""Makes completion scripts and manual pages from the declarations of the command line.

The build writes them into share/; `npudoctor completion SHELL` prints one. npudoctor does not run when a
person presses Tab: the scripts contain all words.
"""
