"""The league's API: messages in, use cases, messages out."""
