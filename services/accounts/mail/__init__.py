"""Mail: what is in the outbox goes out, or is marked as given up, and nothing is lost on the way.

The code that a mail carries is not in the outbox: it follows from its id. Neither addresses nor codes are ever logged,
nor what a mail server answers, since that likes to repeat the address.
"""
