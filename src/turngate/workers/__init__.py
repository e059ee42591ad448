"""Several processes on one host that take turns together, and are stopped together.

messages    what the supervisor and a worker say to each other
channel     the line between them: one Unix socket pair, messages in order
supervisor  the parent: the one writer of the ledger, the operators' listener, signals
pool        all workers, as operators see them: one latch, one list of turns, one page of figures
seat        one worker as its supervisor sees it: a process, its channel, and what it has not finished
worker      the child: a gate behind the inherited listener
distant     what a gate shares with its siblings, at the other end of its channel
"""
