//! What the crate promises, tested from outside: the cases of the protocol's validation rules, known
//! values, real client payloads, and properties over arbitrary bytes.
//!
//! Comments name cases as `case 12`; the number is that of the rule's row in the table of accept and
//! reject cases that every implementation of the protocol is measured by.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap as the tests themselves may"
)]

mod contract_cases;
mod conversion_cases;
mod history_cases;
mod known_values;
mod legacy_cases;
mod package_cases;
mod parse_cases;
mod passkey_cases;
mod properties;
mod real_payloads;
mod signature_cases;
mod state_cases;
mod support;
