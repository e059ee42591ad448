"""`python -m turngate`."""

from __future__ import annotations

from turngate.cli.main import main

if __name__ == "__main__":
    main()
