"""Me: all that a client is told about its account, gathered from the services that know it.

A feed is what this replica knows of one account that somebody watches here. It hears what services publish after their
commits, and begins, like whenever something may have been missed, with a snapshot of each service.
"""
