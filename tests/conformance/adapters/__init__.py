"""Each adapter tells what its library does."""
