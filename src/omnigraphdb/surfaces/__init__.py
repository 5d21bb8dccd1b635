"""Surfaces translate requests and results; they decide nothing."""
