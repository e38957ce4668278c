"""Installations of CANN: where they are, what they are made of, what their set_env.sh would set.

What is published about versions is `knowledge`; whether these fit is said by checks.
"""
