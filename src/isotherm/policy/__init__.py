"""Which sampling values apply to a request, who decided them, and what fits into the context. Pure."""
