//! What each rejection says.

use layers::body::OrEmpty;
use layers::refusal::Protocol;

use super::Rejection;

/// Goal: label, status and text of every reason are the published ones. Method: table of all of
/// them.
#[test]
fn every_reason_has_its_label_status_and_text() {
    let not_bearer = "authorization header is not a bearer token";
    let not_supported = "token is not a supported JWT";
    let cases = [
        (Rejection::Missing, "missing", "16", "missing bearer token"),
        (Rejection::NotBearer, "malformed", "16", not_bearer),
        (Rejection::NotToken, "malformed", "16", not_supported),
        (
            Rejection::UnsupportedAlgorithm,
            "unsupported_alg",
            "16",
            not_supported,
        ),
        (
            Rejection::Untrusted,
            "untrusted",
            "16",
            "token signature is not trusted",
        ),
        (Rejection::Expired, "expired", "16", "token has expired"),
        (
            Rejection::NotYetValid,
            "not_yet_valid",
            "16",
            "token is not yet valid",
        ),
        (
            Rejection::Audience,
            "audience",
            "16",
            "token audience is not allowed",
        ),
        (
            Rejection::Issuer,
            "issuer",
            "16",
            "token issuer is not allowed",
        ),
        (
            Rejection::Scope,
            "scope",
            "7",
            "token is missing a required scope",
        ),
    ];
    for (rejection, label, status, message) in cases {
        assert_eq!(rejection.reason().name(), label);
        let response = rejection
            .refusal()
            .response::<OrEmpty<String>>(Protocol::Grpc);
        assert_eq!(response.headers()["grpc-status"], status, "{label}");
        assert_eq!(response.headers()["grpc-message"], message, "{label}");
    }
}
