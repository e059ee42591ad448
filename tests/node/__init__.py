"""The gate before the official Node SDKs."""
