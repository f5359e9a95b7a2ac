"""The queue of tasks that workers pull from."""
