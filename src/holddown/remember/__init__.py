"""What we learned: records of deployments, and what they say about the next one."""
