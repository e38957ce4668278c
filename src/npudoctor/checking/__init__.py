"""What a check is: @check, Skip and Unknown, what must be here before one applies, what it may answer.

Here belongs what concerns a single check. Finding checks is `registry`, running them is `runner`.
"""
