//! What the crate promises, tested from outside: the cases of the protocol's validation rules, known
//! values, real client payloads, and properties over arbitrary bytes.
//!
//! Comments name cases as `case 12`; the number is that of the rule's row in the table of accept and
//! reject cases that every implementation of the protocol is measured by.

mod contract_cases;
mod known_values;
mod legacy_cases;
mod package_cases;
mod parse_cases;
mod properties;
mod real_payloads;
mod signature_cases;
mod state_cases;
mod support;
