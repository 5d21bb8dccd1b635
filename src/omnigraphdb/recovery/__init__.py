"""Recovery of interrupted operations: gather, classify, act, audit."""
