"""Text to vectors: who embeds, with which model, and how a failure is told."""
