"""The accounts service's API: messages in, use cases, messages out."""
