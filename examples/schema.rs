//! Prints the JSON Schema of the configuration document (ARC-100).

fn main() {
    print!("{}", xmtp_backend::config::schema());
}
