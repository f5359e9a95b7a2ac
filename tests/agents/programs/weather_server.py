"""The tool as a server of the Model Context Protocol, over standard input and output."""

from mcp.server.mcpserver import MCPServer
from weather import get_weather

server = MCPServer("weather")
server.tool()(get_weather)
server.run("stdio")
