"""What a step does to a machine, once its guard has been looked at anew: the only code that changes
anything.

Here belongs one file for each kind of object. Which steps are taken, and in which order, is the plan's
affair.
"""
