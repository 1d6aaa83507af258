//! `kelda serve`.

use std::path::PathBuf;

use clap::Args;

use super::{CliError, logging};
use crate::config::{BrokerConfig, ConfigError};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// A server.properties with Kafka's names. Without: a single node on port 9092 with its data in ./kelda-data.
    file: Option<PathBuf>,
    /// Sets one value, over file and environment. May be given several times.
    #[arg(long = "override", value_name = "NAME=VALUE")]
    overrides: Vec<String>,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), CliError> {
        let config = BrokerConfig::load(self.file.as_deref(), &self.overrides).map_err(
            |error| match error {
                ConfigError::Override(_) => CliError::Usage(error.to_string()),
                ConfigError::Read { .. } => CliError::NotFound(error.to_string()),
                ConfigError::Invalid(_) => {
                    CliError::Failed(format!("the configuration is wrong:\n{error}"))
                }
            },
        )?;
        logging::start(config.settings.text("kelda.log.format"));
        for warning in config.settings.warnings() {
            tracing::warn!("{warning}");
        }
        for (name, setting) in config.settings.iter() {
            tracing::debug!(name, origin = %setting.origin, "set");
        }
        run_server(config)
    }
}

/// Runs the broker until it is told to stop.
fn run_server(config: BrokerConfig) -> Result<(), CliError> {
    crate::server::run(config).map_err(|error| CliError::Failed(error.to_string()))
}
