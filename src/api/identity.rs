//! `IdentityService`.

use std::sync::Arc;

use envelope::wire::xmtp::backend::v1::{
    GetInboxIdsRequest, GetInboxIdsResponse, VerifySmartContractWalletSignaturesRequest,
    VerifySmartContractWalletSignaturesResponse, get_inbox_ids_request, get_inbox_ids_response,
    verify_smart_contract_wallet_signatures_request as verify_request,
    verify_smart_contract_wallet_signatures_response as verify_response,
};
use tonic::{Request, Response, Status};

use super::generated::xmtp::backend::v1::identity_service_server::IdentityService;
use super::status::Statuses;
use crate::identity::{Question, Wallets};
use crate::query::{LookupRequest, Queries};

/// Serves `IdentityService`.
#[derive(Debug)]
pub(super) struct IdentityApi {
    queries: Arc<Queries>,
    wallets: Wallets,
    statuses: Statuses,
}

impl IdentityApi {
    /// Looks identifiers up through these queries, and asks these wallets.
    #[must_use]
    pub(super) fn new(queries: Arc<Queries>, wallets: Wallets, statuses: Statuses) -> Self {
        Self {
            queries,
            wallets,
            statuses,
        }
    }
}

#[tonic::async_trait]
impl IdentityService for IdentityApi {
    async fn get_inbox_ids(
        &self,
        request: Request<GetInboxIdsRequest>,
    ) -> Result<Response<GetInboxIdsResponse>, Status> {
        let requests: Vec<_> = request
            .into_inner()
            .requests
            .into_iter()
            .map(lookup)
            .collect();
        let inbox_ids = self
            .queries
            .inbox_ids(&requests)
            .await
            .map_err(|error| self.statuses.of_query(&error))?;
        let responses = requests
            .into_iter()
            .zip(inbox_ids)
            .map(|(request, inbox_id)| get_inbox_ids_response::Response {
                identifier: request.identifier,
                identifier_kind: request.kind,
                inbox_id: inbox_id.map(hex::encode),
            })
            .collect();
        Ok(Response::new(GetInboxIdsResponse { responses }))
    }

    async fn verify_smart_contract_wallet_signatures(
        &self,
        request: Request<VerifySmartContractWalletSignaturesRequest>,
    ) -> Result<Response<VerifySmartContractWalletSignaturesResponse>, Status> {
        let questions = request
            .into_inner()
            .signatures
            .into_iter()
            .map(question)
            .collect();
        let verdicts = self
            .wallets
            .verify(questions)
            .await
            .map_err(|error| self.statuses.of_wallets(&error))?;
        let responses = verdicts
            .into_iter()
            .map(|verdict| verify_response::Response {
                is_valid: verdict.is_valid,
                block_number: Some(verdict.block_number),
                error: None,
            })
            .collect();
        Ok(Response::new(VerifySmartContractWalletSignaturesResponse {
            responses,
        }))
    }
}

fn lookup(request: get_inbox_ids_request::Request) -> LookupRequest {
    LookupRequest {
        identifier: request.identifier,
        kind: request.identifier_kind,
    }
}

fn question(signature: verify_request::Signature) -> Question {
    Question {
        account_id: signature.account_id,
        hash: signature.hash.into(),
        signature: signature.signature.into(),
        block_number: signature.block_number,
    }
}
