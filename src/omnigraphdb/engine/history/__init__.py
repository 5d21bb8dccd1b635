"""History: comparing states of the graph, the change feed, exports."""
