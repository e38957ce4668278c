"""Reports and answers as text and as JSON."""
