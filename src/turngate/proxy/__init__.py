"""The proxy: sockets, clocks and disks around the core.

app      routes a request to our own endpoints or to an upstream
relay    carries one request to its upstream and its reply back; the only interpreter of the core's actions
reply    how the client's side of one reply is written
record   what the ledger and the log say of a turn
front    the hardened HTTP server side
headers  which header fields cross
server   composes all of it and runs it until a signal
"""
