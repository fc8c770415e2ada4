"""One module a route family."""
