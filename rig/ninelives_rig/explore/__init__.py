"""Runs the store's operations against each other in every order of their statements, on a real server.

`tests/model` explores the protocol as a model, and `sabotage` meets races by chance. Here the store's own code sends
its own statements; only when each of them is sent is decided here, one at a time, until every order has been run.
"""
