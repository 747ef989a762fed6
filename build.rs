//! Generates the service stubs over the message types of the `envelope` crate.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed=migrations");
    let schemas = protox::compile(
        [
            "xmtp/backend/v1/backend.proto",
            "grpc/health/v1/health.proto",
        ],
        [&root],
    )?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .codec_path("crate::api::codec::Bounded")
        // Answers that carry stored envelopes pass their bytes through unparsed.
        .extern_path(".xmtp.backend.v1.QueryResponse", "crate::api::wire::QueryResponse")
        .extern_path(".xmtp.backend.v1.QueryNewestResponse", "crate::api::wire::QueryNewestResponse")
        .extern_path(".xmtp.backend.v1.SubscribeResponse", "crate::api::wire::SubscribeResponse")
        .extern_path(
            ".xmtp.backend.v1.SubscribeStaticResponse",
            "crate::api::wire::SubscribeStaticResponse",
        )
        .extern_path(".xmtp", "::envelope::wire::xmtp")
        .include_file("services.rs")
        .compile_fds(schemas)?;
    Ok(())
}
