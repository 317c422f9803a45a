"""NodePorts: keeps pods off nodes where a host port that they want is taken (framework.md §10.3)."""
