//! Integration tests: real PostgreSQL, a real port, real HTTP (ARC-110).
