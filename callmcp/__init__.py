"""CallMCP: a self-hosted MCP server that lets an AI agent place a real outbound phone call."""

__version__ = "0.1.0"
