"""The regimes: each a folder with a value that users give to derive(), its limit, its numbers and its claims."""
