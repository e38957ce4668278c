"""What a check is: @check, Skip and Unknown, what must be here before one applies, what it may answer.

Here belongs what holds for one check by itself. Where checks come from is `registry`, asking them is
`runner`.
"""
