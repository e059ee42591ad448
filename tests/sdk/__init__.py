"""The gate before the official SDKs."""
