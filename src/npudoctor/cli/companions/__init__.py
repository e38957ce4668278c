"""What accompanies the program: completion for shells and manual pages, made from its own command line.

The build writes them into share/; `npudoctor completion SHELL` prints one. Nothing here runs while a person
presses Tab: the words stand in the files.
"""
