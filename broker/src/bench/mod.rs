//! `kelda bench`.

use clap::Args;

use crate::cli::CliError;

/// Loads a broker.
#[derive(Debug, Args)]
pub struct Bench {}

impl Bench {
    /// Runs it.
    ///
    /// # Errors
    /// Always, for now.
    pub fn run(self) -> Result<(), CliError> {
        Err(CliError::Failed("not built yet".to_owned()))
    }
}
