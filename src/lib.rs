//! The XMTP backend: publish, read and stream envelopes over gRPC and gRPC-Web, on PostgreSQL.
