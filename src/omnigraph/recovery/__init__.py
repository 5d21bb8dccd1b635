"""Settling what a dead writer left: look, decide, act, record."""
