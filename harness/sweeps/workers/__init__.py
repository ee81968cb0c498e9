"""Code of workers: jobs, their limits, their files and their shares of a GPU."""
