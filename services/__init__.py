"""The services. None imports another: they call over gRPC or hear over NATS."""
