"""NodeGeneration: keeps pods off hardware that is too old for them, and newer hardware free for those that need it."""
