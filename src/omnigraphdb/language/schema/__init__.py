"""The schema language: `.pg` text and its tree."""
