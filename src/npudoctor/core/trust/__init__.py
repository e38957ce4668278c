"""Whose is it: what may be loaded, started, read and obeyed, since nobody else could have written it.

Here belongs every such judgement, in one vocabulary: `why_not...` answers None, or the reason as a sentence.
`rule` judges one entry, and it alone says what is wrong with an owner or a mode. On it stand `paths` (a way,
asked of the kernel), `trees` (ways, folders and trees, asked of the files that the caller hands over), `job`
(what a job imports), `configuration` (what ssh, Slurm and ClusterShell obey) and `guard` (what our own start
loads: it runs before anything else, so that this file imports nothing). What the start of another program
loads is followed by `host`, which asks `trees` about each file.
"""
