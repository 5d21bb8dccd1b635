"""Bulk work over Arrow without Spark: reading, shaping and checking the rows of a load."""
