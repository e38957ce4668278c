"""What the renderers make of reports."""
