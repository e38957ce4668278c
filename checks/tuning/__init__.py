"""Advice: settings that cost speed and break nothing. Information only; never decides a verdict."""
