"""What is kept of a session to be read: in every state, long after its end."""
