"""Scripts that run in a child of the job's own interpreter. They import nothing of ours, are of Python 3.7's
syntax, and answer with one line of JSON; `start` is put before each. A check of the group `deep` asks for
them."""
