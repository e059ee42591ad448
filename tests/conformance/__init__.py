"""The kit finds what it is for, and nothing else."""
