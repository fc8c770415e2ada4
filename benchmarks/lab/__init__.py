"""What the benchmark scripts share: the machine, servers as processes, load, rows of results."""
