"""The graph over HTTP: routes that translate requests and results, and decide nothing."""
