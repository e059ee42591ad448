"""The offline checker: documents and captures in, reports out. Nothing here opens a socket or runs a tool."""
