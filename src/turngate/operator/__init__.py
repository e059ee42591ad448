"""The operator's hand: see what is under way and what was decided, and stop it.

A listener of its own, never the proxy's: whoever can reach the agents' endpoint cannot reach this one.

tokens      who may do what; hashed, in a file of their own beside the ledger
auth        from a request's header to a caller, and how often one may fail
problem     the one shape of every error
messages    what is asked and answered, as types; the OpenAPI document is made from them
control     latches set and lifted, on whatever is under way and in the ledger
figures     how turns ended and how long they waited, for charts
operations  the table of what can be asked: routes and OpenAPI document are read from it
openapi     the document
api         the application
listener    its sockets, and its life beside the gate's
client      the same from the command line
"""
