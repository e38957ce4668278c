"""Data, not code: compatibility tables, each row with its source."""
