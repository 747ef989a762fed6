//! Generates the client stubs over the message types of the `envelope` crate.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let schemas = protox::compile(
        [
            "xmtp/backend/v1/backend.proto",
            "grpc/health/v1/health.proto",
        ],
        [&root],
    )?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(true)
        .bytes(".")
        .extern_path(".xmtp", "::envelope::wire::xmtp")
        .include_file("client.rs")
        .compile_fds(schemas)?;
    Ok(())
}
