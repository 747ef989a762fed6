//! Which inbox an identifier belongs to (API-120 to API-122, API-270, ARC-022, ARC-065).

use envelope::fixtures::{
    ContractWallet, Installation, Passkey, ScriptedVerifier, Signer as _, UpdateBuilder, Wallet,
    identity, update_envelope,
};
use envelope::wire::xmtp::backend::v1::{
    GetInboxIdsRequest, GetInboxIdsResponse, get_inbox_ids_request::Request,
};
use harness::{TestServer, Transport};
use tonic::{Code, Status};

use crate::reading::publish;
use crate::refusal::{assert_plain, assert_silent_about};

/// Numbers of identifier kinds.
const UNSPECIFIED: i32 = 0;
const ETHEREUM: i32 = 1;
const PASSKEY: i32 = 2;

/// An identifier and its kind.
type Asked = (String, i32);

async fn ask(
    server: &TestServer,
    transport: Transport,
    asked: &[Asked],
) -> Result<Vec<Option<String>>, Status> {
    let request = GetInboxIdsRequest {
        requests: asked
            .iter()
            .map(|(identifier, kind)| Request {
                identifier: identifier.clone(),
                identifier_kind: *kind,
            })
            .collect(),
    };
    let response: GetInboxIdsResponse = transport
        .call(server.address(), "IdentityService/GetInboxIds", &request)
        .await?;
    let echoed: Vec<_> = response
        .responses
        .iter()
        .map(|response| (response.identifier.clone(), response.identifier_kind))
        .collect();
    assert_eq!(echoed, asked, "what was sent comes back, in its order");
    Ok(response
        .responses
        .into_iter()
        .map(|response| response.inbox_id)
        .collect())
}

async fn look_up(server: &TestServer, identifier: &str, kind: i32) -> Option<String> {
    let asked = [(identifier.to_owned(), kind)];
    ask(server, Transport::Native, &asked)
        .await
        .expect("an answer")
        .remove(0)
}

/// Addresses are found in any case, and as of unspecified kind; passkeys by their hexadecimal key
/// in any case; each only as what it is. Answers stand where the questions stood, repeats included.
#[tokio::test]
async fn identifiers_are_found_in_every_spelling_of_their_kind() {
    let server = TestServer::start().await;
    let wallet = Wallet::numbered(1);
    let passkey = Passkey::numbered(1);
    let installation = Installation::numbered(1);
    let update = identity::create_inbox(&wallet, &installation);
    let by_wallet = update.inbox_id.clone();
    let by_passkey = identity::inbox_of(&passkey, 0);
    let creation = UpdateBuilder::creating(&passkey, 0).build();
    publish(
        &server,
        vec![update_envelope(update), update_envelope(creation)],
    )
    .await;

    let address = wallet.address();
    let upper = format!("0x{}", address[2..].to_uppercase());
    let mixed = format!("0X{}{}", address[2..20].to_uppercase(), &address[20..]);
    let key = hex::encode(passkey.public_key(false));
    let none = None;
    let (wallet_inbox, passkey_inbox) = (Some(by_wallet), Some(by_passkey));
    let cases = [
        ((address.clone(), ETHEREUM), &wallet_inbox),
        ((upper.clone(), ETHEREUM), &wallet_inbox),
        ((mixed, ETHEREUM), &wallet_inbox),
        ((address.clone(), UNSPECIFIED), &wallet_inbox),
        ((upper, UNSPECIFIED), &wallet_inbox),
        ((address.clone(), ETHEREUM), &wallet_inbox),
        ((key.clone(), PASSKEY), &passkey_inbox),
        ((key.to_uppercase(), PASSKEY), &passkey_inbox),
        ((address.clone(), PASSKEY), &none),
        ((address[2..].to_owned(), PASSKEY), &none),
        ((key.clone(), ETHEREUM), &none),
        ((key, UNSPECIFIED), &none),
        ((hex::encode(installation.public_key()), ETHEREUM), &none),
        ((hex::encode(installation.public_key()), PASSKEY), &none),
        ((Wallet::numbered(2).address(), ETHEREUM), &none),
        ((address, ETHEREUM), &wallet_inbox),
    ];
    let (asked, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    for transport in Transport::ALL {
        let answered = ask(&server, transport, &asked).await.unwrap();
        for ((answer, expected), asked) in answered.iter().zip(&expected).zip(&asked) {
            assert_eq!(answer, *expected, "{asked:?} over {transport:?}");
        }
    }
    server.stop().await;
}

/// What is not well formed for its kind is not found, and does not disturb what stands beside it:
/// not as a failure, and not by shifting answers.
#[tokio::test]
async fn malformed_identifiers_are_not_found() {
    let server = TestServer::start().await;
    let wallet = Wallet::numbered(1);
    let update = identity::create_inbox(&wallet, &Installation::numbered(1));
    let inbox = Some(update.inbox_id.clone());
    publish(&server, vec![update_envelope(update)]).await;

    let address = wallet.address();
    let malformed = [
        String::new(),
        "0x".to_owned(),
        address[..41].to_owned(),
        format!("{address}0"),
        format!(" {address}"),
        format!("{address}\n"),
        format!("{address}\0"),
        "\0".to_owned(),
        "g".repeat(40),
        "abc".to_owned(),
        "é".to_owned(),
        "%".to_owned(),
        "' OR true --".to_owned(),
        "a".repeat(10_000),
    ];
    for kind in [UNSPECIFIED, ETHEREUM, PASSKEY] {
        let mut asked = vec![(address.clone(), ETHEREUM)];
        asked.extend(malformed.iter().map(|text| (text.clone(), kind)));
        asked.push((address.clone(), UNSPECIFIED));
        for transport in Transport::ALL {
            let answered = ask(&server, transport, &asked).await.unwrap();
            let last = answered.len() - 1;
            assert_eq!((&answered[0], &answered[last]), (&inbox, &inbox));
            for (answer, asked) in answered.iter().zip(&asked).take(last).skip(1) {
                assert_eq!(*answer, None, "{asked:?} over {transport:?}");
            }
        }
        for (text, kind) in &asked[1..asked.len() - 1] {
            assert_eq!(look_up(&server, text, *kind).await, None, "{text:?}");
        }
    }
    server.stop().await;
}

/// One identifier may be live in several inboxes; the one that associated it last answers, and
/// revoking it there exposes the one before (ARC-065).
#[tokio::test]
async fn revoking_the_newest_association_exposes_the_one_before() {
    let server = TestServer::start().await;
    let shared = Wallet::numbered(1);
    let owners: Vec<_> = (10..13).map(Wallet::numbered).collect();
    let inboxes: Vec<_> = owners
        .iter()
        .map(|owner| identity::inbox_of(owner, 0))
        .collect();
    let address = shared.address();
    assert_eq!(look_up(&server, &address, ETHEREUM).await, None);
    for (owner, inbox) in owners.iter().zip(&inboxes) {
        let update = UpdateBuilder::creating(owner, 0)
            .add(owner, &shared)
            .build();
        publish(&server, vec![update_envelope(update)]).await;
        assert_eq!(
            look_up(&server, &address, ETHEREUM).await.as_ref(),
            Some(inbox)
        );
        let own = look_up(&server, &owner.address(), ETHEREUM).await;
        assert_eq!(own.as_ref(), Some(inbox));
    }
    let revoke = |place: usize| {
        let owner = &owners[place];
        let update = UpdateBuilder::new(&inboxes[place]).revoke(owner, shared.member());
        update_envelope(update.build())
    };
    // Not the newest: nothing changes. Then one after the other.
    for (revoked, exposed) in [(1, Some(2)), (2, Some(0)), (0, None)] {
        publish(&server, vec![revoke(revoked)]).await;
        let found = look_up(&server, &address, ETHEREUM).await;
        assert_eq!(found, exposed.map(|place: usize| inboxes[place].clone()));
    }

    // Associated again, it is live again, with the new id: above one that was not revoked.
    for place in [1, 0] {
        let update = UpdateBuilder::new(&inboxes[place]).at(identity::TIMESTAMP_NS + 5_000_000_000);
        let update = update.add(&owners[place], &shared).build();
        publish(&server, vec![update_envelope(update)]).await;
        assert_eq!(
            look_up(&server, &address, ETHEREUM).await.as_ref(),
            Some(&inboxes[place])
        );
    }
    server.stop().await;
}

/// A contract wallet is found by its address, like any other.
#[tokio::test]
async fn a_contract_wallet_is_found_by_its_address() {
    let wallets = ScriptedVerifier::always(Ok(true));
    let server = TestServer::builder().wallets(wallets).start().await;
    let wallet = ContractWallet::numbered(1, 1);
    let update = UpdateBuilder::creating(&wallet, 0).build();
    let inbox = update.inbox_id.clone();
    publish(&server, vec![update_envelope(update)]).await;
    let account = wallet.account_id();
    let address = account.rsplit(':').next().unwrap();
    assert_eq!(look_up(&server, address, ETHEREUM).await, Some(inbox));
    assert_eq!(look_up(&server, &account, ETHEREUM).await, None);
    server.stop().await;
}

/// Entries are bounded, repeats counted; none is an empty answer (API-121).
#[tokio::test]
async fn entries_of_a_lookup_are_bounded() {
    let server = TestServer::builder()
        .table("limits", "max_lookup_identifiers = 3")
        .start()
        .await;
    for transport in Transport::ALL {
        let of = |count| vec![(Wallet::numbered(1).address(), ETHEREUM); count];
        assert_eq!(ask(&server, transport, &of(0)).await.unwrap(), []);
        assert_eq!(
            ask(&server, transport, &of(3)).await.unwrap(),
            [None, None, None]
        );
        let status = ask(&server, transport, &of(4)).await.unwrap_err();
        assert_plain("one past", &status, Code::InvalidArgument);
        assert_silent_about(
            "one past",
            &status,
            &[Wallet::numbered(1).address().as_bytes()],
        );
    }
    server.stop().await;
}

/// A kind that does not exist refuses the whole request (inferred).
#[tokio::test]
async fn an_unknown_kind_refuses_the_whole_request() {
    let server = TestServer::start().await;
    let address = Wallet::numbered(1).address();
    for kind in [3, 100, -1, i32::MAX, i32::MIN] {
        for transport in Transport::ALL {
            let asked = [(address.clone(), ETHEREUM), (address.clone(), kind)];
            let status = ask(&server, transport, &asked).await.unwrap_err();
            assert_plain(&format!("kind {kind}"), &status, Code::InvalidArgument);
            assert_silent_about("unknown kind", &status, &[address.as_bytes()]);
        }
    }
    server.stop().await;
}
