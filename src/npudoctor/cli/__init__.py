"""One file a command; the only place that prints, prompts and exits."""
