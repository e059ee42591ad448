"""The ledger: what was decided about every turn and call, durable before release."""
