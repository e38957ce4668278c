"""The first minute of a job in miniature: what a job asks of the kernel is asked, and given back.

`parts` has the scripts that run in a child of the job's interpreter, with its variables, limits, control
group and working directory; `trials` starts them and reads what they say. Nothing here judges.
"""
