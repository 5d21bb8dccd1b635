"""Bulk work over Arrow: reading, shaping and checking what a load brings; knows no Spark."""
