//! Fixed sizes of delivery and transport (ARC-077, ARC-079, ARC-080).
//!
//! They are not configuration keys, but the permitted envelope size is checked against them, and
//! the rooms that deliver use them; so they live on the lowest floor.

/// Target size of one delivery frame, framing included (ARC-079).
pub const FRAME_BYTES: u64 = 2 * 1024 * 1024;

/// Largest request or response that the transport carries, whatever the configured limits say.
pub const TRANSPORT_BYTES: u64 = 25 * 1024 * 1024;

/// Bytes of fetched rows that one stream may hold before they are consumed (ARC-077).
pub const FETCH_BUDGET_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes queued for one subscriber (ARC-080).
pub const OUTBOUND_BYTES: u64 = 16 * 1024 * 1024;

/// Frames queued for one subscriber (ARC-080).
pub const OUTBOUND_FRAMES: usize = 64;

/// Bytes kept beside one envelope for its metadata and framing (ARC-079).
pub const ENVELOPE_ALLOWANCE_BYTES: u64 = 256;

// A frame must pass the transport and fit the queue in front of it.
const _: () = assert!(FRAME_BYTES <= TRANSPORT_BYTES);
const _: () = assert!(FRAME_BYTES <= OUTBOUND_BYTES);
// What was fetched feeds the queue: a queue larger than the fetch budget could never fill.
const _: () = assert!(OUTBOUND_BYTES <= FETCH_BUDGET_BYTES);
// The smallest of the bounds leaves room for an envelope at all.
const _: () = assert!(ENVELOPE_ALLOWANCE_BYTES < FRAME_BYTES);
