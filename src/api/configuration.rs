//! `ConfigurationService`: what this deployment is and which limits it enforces (API-260).

use envelope::wire::xmtp::backend::v1::auth_configuration::SigningKey;
use envelope::wire::xmtp::backend::v1::{
    AuthConfiguration, GetConfigurationRequest, GetConfigurationResponse, LimitsConfiguration,
    MlsConfiguration, RetentionConfiguration,
};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::generated::xmtp::backend::v1::configuration_service_server::ConfigurationService;
use crate::auth::PublishedKey;
use crate::config::Config;

/// Bytes that the public configuration may have when encoded. Bounds the lists in it.
const MAX_PUBLIC_CONFIGURATION_BYTES: usize = 64 * 1024;

/// The public configuration would not be accepted by clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the public configuration has {bytes} bytes when encoded, more than {MAX_PUBLIC_CONFIGURATION_BYTES}"
)]
pub struct TooLarge {
    bytes: usize,
}

/// Serves `ConfigurationService`: one answer, built at startup, for the life of the process.
#[derive(Clone, Debug)]
pub struct ConfigurationApi {
    response: GetConfigurationResponse,
}

impl ConfigurationApi {
    /// Publishes the public part of the configuration, and the keys that verify tokens now.
    ///
    /// # Errors
    ///
    /// [`TooLarge`].
    pub fn new(config: &Config, keys: &[PublishedKey], version: &str) -> Result<Self, TooLarge> {
        let response = public_configuration(config, keys, version);
        let bytes = response.encoded_len();
        if bytes > MAX_PUBLIC_CONFIGURATION_BYTES {
            return Err(TooLarge { bytes });
        }
        Ok(Self { response })
    }
}

#[tonic::async_trait]
impl ConfigurationService for ConfigurationApi {
    async fn get_configuration(
        &self,
        _: Request<GetConfigurationRequest>,
    ) -> Result<Response<GetConfigurationResponse>, Status> {
        Ok(Response::new(self.response.clone()))
    }
}

fn public_configuration(
    config: &Config,
    keys: &[PublishedKey],
    version: &str,
) -> GetConfigurationResponse {
    GetConfigurationResponse {
        identifier: config.server.identifier.clone(),
        server_version: version.to_owned(),
        min_libxmtp_version: config
            .server
            .min_libxmtp_version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        auth: Some(auth(config, keys)),
        retention: Some(RetentionConfiguration {
            group_message_seconds: config.retention.group_message_seconds,
            welcome_seconds: config.retention.welcome_seconds,
            key_package_seconds: config.retention.key_package_seconds,
        }),
        limits: Some(limits(config)),
        mls: Some(MlsConfiguration {
            max_group_members: config.mls.max_group_members,
            max_installations_per_inbox: config.mls.max_installations_per_inbox,
            commit_log_enabled: Some(config.mls.commit_log_enabled),
        }),
        smart_contract_wallet_chains: chains(config),
    }
}

/// Empty unless authentication is on; a loaded configuration holds the table only then.
fn auth(config: &Config, keys: &[PublishedKey]) -> AuthConfiguration {
    let Some(auth) = &config.auth else {
        return AuthConfiguration::default();
    };
    AuthConfiguration {
        enabled: true,
        keys: keys
            .iter()
            .map(|key| SigningKey {
                kid: key.kid.clone(),
                alg: key.algorithm.name().to_owned(),
            })
            .collect(),
        audiences: auth.audiences.clone().unwrap_or_default(),
        issuers: auth.issuers.clone().unwrap_or_default(),
        required_scopes: auth.required_scopes.clone(),
    }
}

/// Only the names; sorted as text, whatever their numbers.
fn chains(config: &Config) -> Vec<String> {
    let mut names: Vec<_> = config.chains.keys().map(ToString::to_string).collect();
    names.sort_unstable();
    names
}

/// Field by field, so that a new limit cannot be forgotten here.
fn limits(config: &Config) -> LimitsConfiguration {
    let limits = &config.limits;
    LimitsConfiguration {
        max_envelope_bytes: limits.max_envelope_bytes,
        max_request_bytes: limits.max_request_bytes,
        max_response_bytes: limits.max_response_bytes,
        max_publish_topics: limits.max_publish_topics,
        max_query_topics: limits.max_query_topics,
        max_query_limit: limits.max_query_limit,
        default_query_limit: limits.default_query_limit,
        max_newest_metadata_topics: limits.max_newest_metadata_topics,
        max_newest_full_topics: limits.max_newest_full_topics,
        max_update_adds: limits.max_update_adds,
        max_update_removes: limits.max_update_removes,
        max_stream_topics: limits.max_stream_topics,
        max_static_topics: limits.max_static_topics,
        max_lookup_identifiers: limits.max_lookup_identifiers,
        max_scw_signatures: limits.max_scw_signatures,
        max_identity_entries: limits.max_identity_entries,
        max_update_frames_per_second: limits.max_update_frames_per_second,
        max_update_burst: limits.max_update_burst,
        max_ping_frames_per_second: limits.max_ping_frames_per_second,
        max_ping_burst: limits.max_ping_burst,
    }
}
