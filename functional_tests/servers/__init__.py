"""Real servers, started from temporary folders on free ports, and what stands before them: a proxy, TLS."""
