"""History: exports of what was visible at one time."""
