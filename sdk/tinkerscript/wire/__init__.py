"""Every JSON shape that crosses a process. Imports pydantic and nothing else."""
