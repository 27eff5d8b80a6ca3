"""Asks a server of the Model Context Protocol with the client of the package `mcp`: SERVER TRACE."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(server: str, trace: str) -> None:
    parameters = StdioServerParameters(command=server, args=["mcp"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        print("tools:", *(tool.name for tool in tools))
        answer = await session.call_tool("gap", {"files": [trace]})
        print(answer.content[0].text)
        refused = await session.call_tool("gap", {"files": ["missing.sqlite"]})
        print("error:", refused.is_error, refused.content[0].text)


asyncio.run(main(*sys.argv[1:]))
