//! Compiles the message types of `proto/` into Rust, without an installed protoc, and writes down
//! what decoding each of them can allocate (see `src/weight.rs`).

use std::fmt::Write as _;
use std::path::Path;

use heck::{ToSnakeCase, ToUpperCamelCase};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

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

/// The large variants of oneofs. An enum is as large as its largest variant, so without a box an
/// empty element of a list would take as much memory as the fullest one.
const BOXED: [&str; 9] = [
    "xmtp.backend.v1.ClientEnvelope.payload.welcome_message",
    "xmtp.backend.v1.ClientEnvelope.payload.identity_update",
    "xmtp.backend.v1.ClientEnvelope.payload.commit_log_entry",
    "xmtp.identity.associations.IdentityAction.kind.create_inbox",
    "xmtp.identity.associations.IdentityAction.kind.add",
    "xmtp.identity.associations.IdentityAction.kind.revoke",
    "xmtp.identity.associations.IdentityAction.kind.change_recovery_address",
    "xmtp.identity.associations.Signature.signature.delegated_erc_191",
    "xmtp.identity.associations.Signature.signature.passkey",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let schemas = protox::compile(SCHEMAS, [&root])?;
    let shapes = Path::new(&std::env::var("OUT_DIR")?).join("shapes.rs");
    std::fs::write(shapes, shapes_of(&schemas))?;
    let mut config = prost_build::Config::new();
    config.bytes(["."]).include_file("wire.rs");
    for path in BOXED {
        config.boxed(format!(".{path}"));
    }
    config.compile_fds(schemas)?;
    Ok(())
}

/// An implementation of `Shaped` for every message.
fn shapes_of(schemas: &FileDescriptorSet) -> String {
    let mut out = String::new();
    for file in &schemas.file {
        for message in &file.message_type {
            shape(&mut out, &format!(".{}", file.package()), message);
        }
    }
    out
}

fn shape(out: &mut String, parent: &str, message: &DescriptorProto) {
    let name = format!("{parent}.{}", message.name());
    let _ = writeln!(out, "impl Shaped for {} {{", rust_type(&name));
    let _ = writeln!(
        out,
        "    const SHAPE: &'static Shape = &Shape::new::<Self>(&["
    );
    for field in &message.field {
        if let Some(holds) = holds(&name, message, field) {
            let _ = writeln!(out, "        ({}, {holds}),", field.number());
        }
    }
    out.push_str("    ]);\n}\n");
    for nested in &message.nested_type {
        shape(out, &name, nested);
    }
}

/// What an occurrence of the field allocates; nothing for a singular number or byte string.
fn holds(parent: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> Option<String> {
    let kind = field.r#type();
    let is_repeated = field.label() == Label::Repeated;
    let holds = if kind == Type::Message {
        let shape = format!("<{} as Shaped>::SHAPE", rust_type(field.type_name()));
        if is_repeated {
            format!("Element({shape})")
        } else if is_boxed(parent, message, field) {
            format!("Boxed({shape})")
        } else {
            format!("Inline({shape})")
        }
    } else if kind == Type::String {
        (if is_repeated { "Strings" } else { "Text" }).to_owned()
    } else if !is_repeated {
        return None;
    } else if kind == Type::Bytes {
        "ByteStrings".to_owned()
    } else {
        "Numbers".to_owned()
    };
    Some(format!("Holds::{holds}"))
}

fn is_boxed(parent: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> bool {
    let oneof = field
        .oneof_index
        .and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?));
    oneof.is_some_and(|oneof| {
        let path = format!("{parent}.{}.{}", oneof.name(), field.name());
        BOXED.contains(&path.trim_start_matches('.'))
    })
}

/// The path of a message's type, as prost names it: packages and enclosing messages are modules.
fn rust_type(name: &str) -> String {
    let (modules, name) = name
        .trim_start_matches('.')
        .rsplit_once('.')
        .expect("every schema has a package");
    let modules: Vec<String> = modules.split('.').map(ToSnakeCase::to_snake_case).collect();
    format!(
        "crate::wire::{}::{}",
        modules.join("::"),
        name.to_upper_camel_case()
    )
}
