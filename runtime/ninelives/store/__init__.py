"""The store: every operation of the protocol is one exchange with PostgreSQL, and so one transaction."""
