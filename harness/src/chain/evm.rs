//! The state of a chain, block by block, and simulated creations on it.

use std::fmt;

use revm::context::result::{ExecutionResult, Output};
use revm::context::{Context, TxEnv};
use revm::database::{CacheDB, EmptyDB};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Address, Bytes, TxKind};
use revm::state::{AccountInfo, Bytecode};
use revm::{ExecuteEvm as _, MainBuilder as _, MainContext as _};

type State = CacheDB<EmptyDB>;

/// What nodes commonly grant a simulated call.
const GAS: u64 = 50_000_000;

/// A chain of which every block's state is kept.
#[derive(Clone)]
pub struct TestChain {
    blocks: Vec<State>,
}

impl TestChain {
    /// A chain of one empty block, number 0.
    pub fn new() -> Self {
        Self {
            blocks: vec![State::default()],
        }
    }

    /// The number of the newest block.
    pub fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    /// Adds a block in which these accounts have this code, and returns its number.
    pub fn block(&mut self, code: &[([u8; 20], &[u8])]) -> u64 {
        let mut state = self.blocks.last().expect("a first block").clone();
        for (address, code) in code {
            let code = Bytecode::new_raw(Bytes::copy_from_slice(code));
            let account = AccountInfo::from_bytecode(code);
            state.insert_account_info(Address::from(*address), account);
        }
        self.blocks.push(state);
        self.head()
    }

    /// Adds empty blocks until the newest has this number.
    pub fn mine_to(&mut self, number: u64) {
        while self.head() < number {
            self.block(&[]);
        }
    }

    /// What the init code returns when a contract is created with it at a block; `None` when that
    /// reverts, the code is longer than the chain takes (EIP-3860), or there is no such block.
    pub(super) fn create(&self, init_code: Vec<u8>, block: u64) -> Option<Vec<u8>> {
        let state = self.blocks.get(usize::try_from(block).ok()?)?;
        let mut evm = Context::mainnet()
            .with_db(state.clone())
            .modify_cfg_chained(|cfg| cfg.set_spec_and_mainnet_gas_params(SpecId::CANCUN))
            .modify_block_chained(|block| block.gas_limit = GAS)
            .build_mainnet();
        let transaction = TxEnv::builder()
            .kind(TxKind::Create)
            .data(init_code.into())
            .gas_limit(GAS)
            .build()
            .expect("a simulation");
        match evm.transact(transaction).ok()?.result {
            ExecutionResult::Success {
                output: Output::Create(returned, _),
                ..
            } => Some(returned.to_vec()),
            ExecutionResult::Success { .. }
            | ExecutionResult::Revert { .. }
            | ExecutionResult::Halt { .. } => None,
        }
    }
}

impl Default for TestChain {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestChain")
            .field("head", &self.head())
            .finish_non_exhaustive()
    }
}
