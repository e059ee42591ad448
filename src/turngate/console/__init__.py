"""The operator's hand in a browser: what is under way, what was decided and why, and two clicks to stop it.

Served by the operator's listener, made on the server, from the same handlers as the interface beside it: it can show and do
nothing that the interface cannot. No script but htmx, which asks for fragments again while a page is open.

sessions    who is logged in, kept here and nowhere else
forms       what a browser sends: its cookies, its fields, and whether this site's own page sent them
rendering   templates, and nothing from the wire that could be mistaken for them
acts        what can be changed: reviewed first, then confirmed
site        the application
"""
