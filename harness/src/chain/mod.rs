//! A chain with contract wallets: real bytecode on a real virtual machine, behind a real node.

mod code;
mod evm;
mod node;

pub use code::{creation, factory, owned_wallet, wallet_by_first_byte};
pub use evm::TestChain;
pub use node::{Asked, ChainNode, Fault};
