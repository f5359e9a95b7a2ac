"""The queue that workers pull from."""
