"""The handle users hold, and the results it gives."""
