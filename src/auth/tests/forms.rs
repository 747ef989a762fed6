//! The form of the header.

use super::{
    API, BOT, Rejection, assert_verdict, authenticator, both, judge_values, jwt, reference,
};

/// Values of the header, and what is found wrong with them.
type Row = (&'static str, Vec<Vec<u8>>, Option<Rejection>);

/// Goal: what counts as a bearer credential. Method: table of header values; the token in them is
/// good, so only the form decides.
#[tokio::test]
async fn a_credential_is_bearer_and_one_token() {
    use Rejection::{Missing, NotBearer, NotToken};
    let who = authenticator(&jwt()).await;
    let token = reference();
    let t = token.as_str();
    let cases: [Row; 17] = [
        ("4 absent", vec![], Some(Missing)),
        ("5 empty", vec![b"".to_vec()], Some(NotBearer)),
        ("6 no space", vec![b"Bearer".to_vec()], Some(NotBearer)),
        (
            "7 only spaces",
            vec![b"Bearer    ".to_vec()],
            Some(NotBearer),
        ),
        (
            "7 a space and a tab",
            vec![b"Bearer \t ".to_vec()],
            Some(NotBearer),
        ),
        (
            "8 basic",
            vec![b"Basic dXNlcjpwdw==".to_vec()],
            Some(NotBearer),
        ),
        ("9 lower case", vec![format!("bearer {t}").into()], None),
        ("10 upper case", vec![format!("BEARER {t}").into()], None),
        ("11 two spaces", vec![format!("Bearer  {t}").into()], None),
        (
            "11 blanks around",
            vec![format!("Bearer \t{t} \t").into()],
            None,
        ),
        (
            "12 a tab",
            vec![format!("Bearer\t{t}").into()],
            Some(NotBearer),
        ),
        ("13 no scheme", vec![t.into()], Some(NotBearer)),
        (
            "14 two headers",
            vec![format!("Bearer {t}").into(); 2],
            Some(NotBearer),
        ),
        (
            "15 not ASCII",
            vec![[b"Bearer ", t.as_bytes(), &[0xe9]].concat()],
            Some(NotBearer),
        ),
        (
            "16 two in one",
            vec![format!("Bearer {t}, Bearer {t}").into()],
            Some(NotToken),
        ),
        (
            "a longer scheme",
            vec![format!("Bearers {t}").into()],
            Some(NotBearer),
        ),
        (
            "a space in front",
            vec![format!(" Bearer {t}").into()],
            Some(NotBearer),
        ),
    ];
    for (row, values, expected) in cases {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        assert_verdict(row, judge_values(&who, &values), expected);
    }
}

/// Goal: the longest credential that is looked at has 8192 bytes, whatever is configured. Method: at
/// and one above, for every combination of mechanisms; the verdict about a shorter one is about what
/// it says.
#[tokio::test]
async fn a_credential_has_at_most_8192_bytes() {
    let cases = [
        (API.to_owned(), Rejection::Untrusted),
        (jwt(), Rejection::NotToken),
        (both(), Rejection::NotToken),
    ];
    for (lines, at_bound) in cases {
        let who = authenticator(&lines).await;
        let value = |bytes: usize| format!("Bearer {}", "x".repeat(bytes));
        let at = judge_values(&who, &[value(8192).as_bytes()]);
        assert_verdict("17, 18 at", at, Some(at_bound));
        let above = judge_values(&who, &[value(8193).as_bytes()]);
        assert_verdict("17, 18 above", above, Some(Rejection::NotToken));
        // Blanks around it do not count.
        let padded = format!("{}   ", value(8192));
        let padded = judge_values(&who, &[padded.as_bytes()]);
        assert_verdict("17, 18 padded", padded, Some(at_bound));
    }
}

/// Goal: a key is found only as the whole credential. Method: a key with a word behind it.
#[tokio::test]
async fn a_credential_is_compared_whole() {
    let who = authenticator(API).await;
    for value in [format!("Bearer {BOT} x"), format!("Bearer x {BOT}")] {
        let verdict = judge_values(&who, &[value.as_bytes()]);
        assert_verdict(&value, verdict, Some(Rejection::Untrusted));
    }
}
