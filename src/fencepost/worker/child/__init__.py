"""One worker process: claims, runs and settles jobs. Everything that meets the user's code."""
