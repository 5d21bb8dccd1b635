"""What we rely on in Lance, Spark and Arrow: an upgrade that changes one of these fails here first."""
