//! Compiles the message types of `proto/` into Rust, without an installed protoc.

use std::path::Path;

/// Every schema file whose messages this crate owns.
const SCHEMAS: [&str; 8] = [
    "xmtp/backend/v1/backend.proto",
    "xmtp/identity/associations/association.proto",
    "xmtp/identity/associations/signature.proto",
    "xmtp/identity/credential.proto",
    "xmtp/message_contents/public_key.proto",
    "xmtp/mls/message_contents/commit_log.proto",
    "xmtp/mls/message_contents/welcome_pointer.proto",
    "xmtp/mls/message_contents/wrapper_encryption.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let schemas = protox::compile(SCHEMAS, [&root])?;
    prost_build::Config::new()
        .bytes(["."])
        .include_file("wire.rs")
        .compile_fds(schemas)?;
    Ok(())
}
