"""What HCCL makes of what the job gives it: its variables together, its whitelist.

Here belongs what follows from HCCL's own rules; each says what is wrong as text or as a `Fault`, and a check
says it with a remedy.
"""
