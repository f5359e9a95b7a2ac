"""The version of client and server alike: they are released together. The only place where it is
written.
"""

VERSION = "0.2.0"
