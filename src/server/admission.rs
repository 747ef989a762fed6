//! The question of admission, put to the authenticator; what it says is counted, logged and answered
//! here.
//!
//! A rejection is logged with the request id and the reason, and nothing else: not even the fields
//! of its span, which would name what was asked for. Of a caller only the configured name of an API
//! key is written, into the span (ARC-101).

use std::future::{Ready, ready};
use std::sync::Arc;

use layers::admission::{Attempt, Verify};
use layers::refusal::Refusal;
use layers::request_id::RequestId;
use tracing::{Span, debug, field};

use crate::auth::{Authenticator, Principal, Rejection};
use crate::metrics::Metrics;
use crate::telemetry;

/// Paths that never need a credential: whoever checks health has none, and a client must learn from
/// the public configuration that it needs one.
pub(super) const PUBLIC: &[&str] = &["/grpc.health.v1.", "/xmtp.backend.v1.ConfigurationService/"];

/// The span field with the name of the API key.
const PRINCIPAL: &str = "auth.principal";

/// Judges every request that is not public.
#[derive(Clone, Debug)]
pub(super) struct Gatekeeper {
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) metrics: Arc<Metrics>,
}

impl Verify for Gatekeeper {
    type Principal = Principal;
    type Future = Ready<Result<Principal, Refusal>>;

    fn verify(&self, attempt: Attempt<'_>) -> Self::Future {
        let judged = self.authenticator.judge(attempt.headers);
        match &judged {
            Ok(Principal::ApiKey { name }) => {
                Span::current().record(PRINCIPAL, field::display(name));
            }
            Ok(Principal::Jwt { claims: _ }) => {}
            Err(rejection) => self.refused(*rejection, attempt.extensions.get()),
        }
        ready(judged.map_err(Rejection::refusal))
    }
}

impl Gatekeeper {
    fn refused(&self, rejection: Rejection, id: Option<&RequestId>) {
        let reason = rejection.reason();
        self.metrics.auth_rejected(reason);
        debug!(
            target: telemetry::WITHOUT_SPANS,
            request_id = id.map(field::display),
            reason = reason.name(),
            "request rejected"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use layers::admission::AdmissionLayer;
    use layers::body::OrEmpty;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;
    use crate::auth;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::outbound::Trust;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    async fn gatekeeper() -> Gatekeeper {
        let document = format!(
            "server.identifier = \"org.example.test\"\ndatabase.url = \"postgres://x/y\"\n\
             auth.enabled = true\nauth.api_keys.phone = \"{KEY}\""
        );
        let config = Config::parse(&document, &|_| None).unwrap();
        let metrics = Arc::new(Metrics::new("0"));
        let trust = Trust::Only(Vec::new());
        let access = auth::open(config.auth.as_ref(), Clock::system(), trust, &metrics).await;
        Gatekeeper {
            authenticator: access.unwrap().authenticator().unwrap(),
            metrics,
        }
    }

    /// What a service behind admission found in its request.
    #[derive(Clone, Debug, PartialEq)]
    struct Found(Option<Principal>);

    /// Who a service finds in a request to a path; nothing when the request does not reach it.
    async fn found_behind(
        gatekeeper: Option<Gatekeeper>,
        path: &str,
        credential: &str,
    ) -> Option<Found> {
        let service = service_fn(async |request: Request<()>| {
            let mut response = Response::new(String::new());
            let found = Found(request.extensions().get().cloned());
            response.extensions_mut().insert(found);
            Ok::<_, Infallible>(response)
        });
        let service = AdmissionLayer::new(gatekeeper, PUBLIC).layer(service);
        let request = Request::post(path).header("authorization", credential);
        let answer = service.oneshot(request.body(()).unwrap()).await;
        let answer: Response<OrEmpty<String>> = answer.unwrap();
        answer.extensions().get().cloned()
    }

    /// Goal: whoever was admitted is in the extensions of the request, and nobody is without
    /// authentication or on a public path. Method: table of set-ups in front of a service that looks.
    #[tokio::test]
    async fn the_principal_is_in_the_extensions() {
        let (private, public) = ("/any.Service/Call", "/grpc.health.v1.Health/Check");
        let good = format!("Bearer {KEY}");
        let on = Some(gatekeeper().await);
        let phone = Principal::ApiKey {
            name: "phone".into(),
        };
        let cases = [
            (&on, private, good.as_str(), Some(Found(Some(phone)))),
            (&on, private, "Bearer other", None),
            (&on, public, &good, Some(Found(None))),
            (&on, public, "garbage", Some(Found(None))),
            (&None, private, &good, Some(Found(None))),
        ];
        for (gatekeeper, path, credential, expected) in cases {
            let found = found_behind(gatekeeper.clone(), path, credential).await;
            assert_eq!(found, expected, "{path} {credential}");
        }
    }
}
