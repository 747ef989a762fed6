//! Key packages (cases 30 to 52).

use envelope::error::KeyPackageError;
use envelope::fixtures::key_package::{self, LeafSource, SUITE_AES_ED25519};
use envelope::fixtures::{Installation, KeyPackageBuilder};
use envelope::payload::KeyPackageFacts;
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::{Error, Reason, TopicKind, Unchecked};

use crate::support::parse;

const NOW_S: u64 = 1_800_000_000;

/// Parses an envelope, which must work, and validates the key package inside.
pub(crate) fn validate(
    envelope: ClientEnvelope,
    now_s: u64,
) -> Result<KeyPackageFacts, KeyPackageError> {
    match parse(envelope).unwrap().unchecked {
        Unchecked::KeyPackage(package) => package.validate(now_s),
        Unchecked::Nothing | Unchecked::IdentityUpdate(_) => panic!("no key package"),
    }
}

fn package() -> KeyPackageBuilder {
    KeyPackageBuilder::new(&Installation::numbered(1), "inbox").lifetime(NOW_S - 10, NOW_S + 10)
}

/// A change to a key package.
type Edit = fn(&mut KeyPackageBuilder);

/// Case 30: what clients upload is valid, and its topic is its signature key.
#[test]
fn a_client_key_package_is_valid() {
    let installation = Installation::numbered(1);
    let parsed = parse(package().envelope()).unwrap();
    assert_eq!(parsed.topic.kind(), TopicKind::KeyPackage);
    assert_eq!(parsed.topic.identifier(), installation.public_key());
    let facts = validate(package().envelope(), NOW_S).unwrap();
    assert_eq!(facts.installation_key, installation.public_key().to_vec());
    assert_eq!(facts.inbox_id, "inbox");
    assert_eq!(
        (facts.not_before_s, facts.not_after_s),
        (NOW_S - 10, NOW_S + 10)
    );
}

/// Cases 40, 42 to 44, 46 and 48: what is deliberately not checked (ARC-013, ARC-092).
#[test]
fn nothing_is_asked_beyond_the_existing_rules() {
    let cases: [(&str, Edit); 9] = [
        ("ten years", |p| p.not_after_s = NOW_S + 315_360_000),
        ("for ever", |p| {
            (p.not_before_s, p.not_after_s) = (0, u64::MAX)
        }),
        ("no extensions, no capabilities", |p| {
            p.extensions.clear();
            p.capabilities = Default::default();
        }),
        (
            "suite, version and credential not in the capabilities",
            |p| {
                p.capabilities[0] = vec![];
                p.capabilities[1] = vec![];
                p.capabilities[4] = vec![];
            },
        ),
        ("empty identity", |p| p.credential = vec![]),
        ("inbox id that is none", |p| {
            p.credential = b"\x0a\x02hi".to_vec()
        }),
        ("unknown field in the identity", |p| {
            p.credential.extend([0x9a, 0x06, 0x01, 0x78]);
        }),
        ("another suite with ed25519", |p| {
            p.suite = SUITE_AES_ED25519
        }),
        ("no extensions in the leaf", |p| p.leaf_extensions.clear()),
    ];
    for (what, edit) in cases {
        let mut package = package();
        edit(&mut package);
        assert!(validate(package.envelope(), NOW_S).is_ok(), "{what}");
    }
}

/// Cases 34 to 37, 41, 45, 47 and 50: each check refuses what only it can refuse.
#[test]
fn each_check_refuses_its_own_fault() {
    let cases: [(&str, Edit, KeyPackageError); 10] = [
        (
            "signed by another key",
            |p| p.signer = Installation::numbered(2),
            KeyPackageError::LeafSignature,
        ),
        ("version 2", |p| p.version = 2, KeyPackageError::Version),
        (
            "init key is the encryption key",
            |p| p.init_key = p.encryption_key.clone(),
            KeyPackageError::InitKeyReused,
        ),
        (
            "leaf of an update",
            |p| p.source = LeafSource::Update,
            KeyPackageError::LeafSource,
        ),
        (
            "leaf of a commit",
            |p| p.source = LeafSource::Commit,
            KeyPackageError::LeafSource,
        ),
        (
            "wrapper extension not in the capabilities",
            |p| {
                p.extensions.push((0xff03, vec![]));
                p.capabilities[2].retain(|extension| *extension != 0xff03);
            },
            KeyPackageError::ExtensionNotInCapabilities,
        ),
        (
            "identity that is no message",
            |p| p.credential = vec![0xff; 3],
            KeyPackageError::CredentialIdentity,
        ),
        (
            "certificate credential",
            |p| (p.credential_type, p.credential) = (2, vec![]),
            KeyPackageError::CredentialType,
        ),
        (
            "unknown credential type",
            |p| p.credential_type = 0xf0f0,
            KeyPackageError::CredentialType,
        ),
        (
            "application id in the package",
            |p| p.extensions.push((0x0001, vec![0])),
            KeyPackageError::ExtensionNotAllowed,
        ),
    ];
    for (what, edit, expected) in cases {
        let mut package = package();
        edit(&mut package);
        let error = validate(package.envelope(), NOW_S).unwrap_err();
        assert_eq!(error, expected, "{what}");
        assert_eq!(Error::from(error).reason(), Some(Reason::InvalidKeyPackage));
    }
}

/// Case 33: any changed byte of the outer signature is noticed.
#[test]
fn a_changed_signature_is_refused() {
    let mut bytes = package().bytes();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(
        validate(key_package::with_bytes(&bytes), NOW_S),
        Err(KeyPackageError::Signature)
    );
}

/// Cases 38 and 39: both ends of the lifetime, in whole seconds, against a given time
/// (ARC-013). The clock of the process has no say.
#[test]
fn the_lifetime_is_judged_at_the_given_time() {
    let (first, end) = (1_000, 2_000);
    let cases = [
        (0, Err(KeyPackageError::NotYetValid)),
        (first - 1, Err(KeyPackageError::NotYetValid)),
        (first, Ok(())),
        (end - 1, Ok(())),
        (end, Err(KeyPackageError::Expired)),
        (end + 1, Err(KeyPackageError::Expired)),
        (u64::MAX, Err(KeyPackageError::Expired)),
    ];
    for (now_s, expected) in cases {
        let envelope = package().lifetime(first, end).envelope();
        assert_eq!(validate(envelope, now_s).map(|_| ()), expected, "{now_s}");
    }
    // A lifetime in the far future of every clock is judged the same way.
    let envelope = package().lifetime(u64::MAX - 1, u64::MAX).envelope();
    assert!(validate(envelope.clone(), u64::MAX - 1).is_ok());
    assert_eq!(validate(envelope, NOW_S), Err(KeyPackageError::NotYetValid));
    // No time at all.
    let envelope = package().lifetime(NOW_S, NOW_S).envelope();
    assert_eq!(validate(envelope, NOW_S), Err(KeyPackageError::Expired));
    let envelope = package().lifetime(0, u64::MAX).envelope();
    assert_eq!(validate(envelope, u64::MAX), Err(KeyPackageError::Expired));
}

/// A fault other than the lifetime is reported whether or not the lifetime is over.
#[test]
fn an_expired_package_with_a_bad_signature_is_badly_signed() {
    let mut package = package().lifetime(1, 2);
    package.signer = Installation::numbered(2);
    assert_eq!(
        validate(package.envelope(), NOW_S),
        Err(KeyPackageError::LeafSignature)
    );
}
