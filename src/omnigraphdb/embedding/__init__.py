"""Text to vectors: which service embeds, with which model, and which errors it raises."""
