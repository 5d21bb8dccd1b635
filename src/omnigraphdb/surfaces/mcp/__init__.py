"""The Model Context Protocol: tools and resources of a graph for agents, over HTTP and over stdio."""
