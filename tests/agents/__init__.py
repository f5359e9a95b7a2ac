"""Agents of other packages. Without this file the package ``agents`` of OpenAI would be found in
its place.
"""
