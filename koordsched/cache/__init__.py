"""What the scheduler believes about the cluster: the node table and its names (`columns`), the nodes and their pods (`nodes`), and the
states of pods between being assumed and being seen bound (`cache`)."""
