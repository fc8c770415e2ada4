"""Request and response bodies, as clients see them."""
