"""Which of all that was found is the cause: what ended the job, what only echoes it, and what nobody
knows.

Here belongs judgement over all logs together. It reads no file.
"""
