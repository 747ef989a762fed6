//! Small Tower layers for gRPC servers.
