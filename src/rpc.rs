//! The names of all RPCs, as labels of metrics and spans: one closed set (ARC-098, ARC-099).
//!
//! A path is caller data, so it becomes a label only by matching this list exactly.

/// How the messages of an RPC flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One request, one response.
    Unary,
    /// One request, a stream of responses.
    ServerStream,
    /// A stream of each.
    BidiStream,
}

impl Kind {
    /// The value of `grpc_type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ServerStream => "server_stream",
            Self::BidiStream => "bidi_stream",
        }
    }
}

/// An RPC of the port, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rpc {
    service: &'static str,
    method: &'static str,
    kind: Kind,
    /// Health checks are logged but not measured.
    is_health: bool,
}

const UNKNOWN: Rpc = application("unknown", "unknown", Kind::Unary);

const QUERY: &str = "xmtp.backend.v1.QueryService";
const PUBLISH: &str = "xmtp.backend.v1.PublishService";
const SUBSCRIPTION: &str = "xmtp.backend.v1.SubscriptionService";
const IDENTITY: &str = "xmtp.backend.v1.IdentityService";
const CONFIGURATION: &str = "xmtp.backend.v1.ConfigurationService";
const NOTIFICATION: &str = "xmtp.backend.v1.NotificationService";
const HEALTH: &str = "grpc.health.v1.Health";

/// Every RPC that has a name, whether it is served yet or not.
const RPCS: [Rpc; 14] = [
    application(QUERY, "Query", Kind::Unary),
    application(QUERY, "QueryNewest", Kind::Unary),
    application(PUBLISH, "Publish", Kind::Unary),
    application(SUBSCRIPTION, "Subscribe", Kind::BidiStream),
    application(SUBSCRIPTION, "SubscribeStatic", Kind::ServerStream),
    application(IDENTITY, "GetInboxIds", Kind::Unary),
    application(IDENTITY, "VerifySmartContractWalletSignatures", Kind::Unary),
    application(CONFIGURATION, "GetConfiguration", Kind::Unary),
    application(NOTIFICATION, "Register", Kind::Unary),
    application(NOTIFICATION, "Unregister", Kind::Unary),
    application(NOTIFICATION, "UpdateSubscriptions", Kind::Unary),
    health("Check"),
    health("Watch"),
    health("List"),
];

const fn application(service: &'static str, method: &'static str, kind: Kind) -> Rpc {
    Rpc {
        service,
        method,
        kind,
        is_health: false,
    }
}

const fn health(method: &'static str) -> Rpc {
    Rpc {
        service: HEALTH,
        method,
        kind: Kind::Unary,
        is_health: true,
    }
}

impl Rpc {
    /// The RPC of a raw path; a single unknown one for every path that is not in the list.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        named
            .and_then(|(service, method)| {
                RPCS.iter()
                    .find(|rpc| rpc.service == service && rpc.method == method)
            })
            .copied()
            .unwrap_or(UNKNOWN)
    }

    /// The full name of its service, or `unknown`.
    #[must_use]
    pub const fn service(self) -> &'static str {
        self.service
    }

    /// Its name, or `unknown`.
    #[must_use]
    pub const fn method(self) -> &'static str {
        self.method
    }

    /// How its messages flow.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Whether it is a health check, which no metric measures.
    #[must_use]
    pub const fn is_health(self) -> bool {
        self.is_health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only exact paths have names; whatever a caller makes up shares one label (ARC-098).
    #[test]
    fn a_path_is_known_exactly_or_not_at_all() {
        for rpc in RPCS {
            let path = format!("/{}/{}", rpc.service, rpc.method);
            assert_eq!(Rpc::of_path(&path), rpc);
            for other in [
                &path[1..],
                &format!("/{path}"),
                &format!("{path}/"),
                &path.to_uppercase(),
            ] {
                assert_eq!(Rpc::of_path(other), UNKNOWN, "{other}");
            }
        }
        for path in [
            "",
            "/",
            "*",
            "/unknown/unknown",
            "/xmtp.backend.v1.QueryService/Get",
        ] {
            assert_eq!(Rpc::of_path(path), UNKNOWN, "{path}");
        }
    }
}
