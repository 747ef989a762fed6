//! Contract wallets: who is asked, and how many questions one request may put.
//!
//! This room never opens a transaction, and nothing in it knows a database (ARC-011).

mod wallets;

pub use wallets::{Error, Question, Wallets};
