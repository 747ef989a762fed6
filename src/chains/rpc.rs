//! JSON-RPC 2.0 as far as it is needed: one question, one answer, hexadecimal results.
//!
//! An answer is read into exactly these fields, so whatever else a node sends costs no memory.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::error::Failure;

/// What a node can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question<'q> {
    /// The number of the newest block.
    BlockNumber,
    /// The simulated creation of a contract.
    Call {
        /// Init code with its arguments.
        data: &'q [u8],
        /// The block whose state it sees.
        block: u64,
    },
}

#[derive(Serialize)]
struct Envelope<'q, P> {
    jsonrpc: &'q str,
    id: u64,
    method: &'q str,
    params: P,
}

#[derive(Serialize)]
struct Creation {
    data: String,
}

#[derive(Deserialize)]
struct Answer {
    id: u64,
    error: Option<IgnoredAny>,
    result: Option<String>,
}

impl Question<'_> {
    /// The question under a number that its answer repeats.
    pub(super) fn encode(self, id: u64) -> Bytes {
        let encoded = match self {
            Self::BlockNumber => encode(id, "eth_blockNumber", [(); 0]),
            Self::Call { data, block } => {
                let data = format!("0x{}", hex::encode(data));
                let block = format!("{block:#x}");
                encode(id, "eth_call", (Creation { data }, block))
            }
        };
        encoded.into()
    }
}

fn encode(id: u64, method: &str, params: impl Serialize) -> Vec<u8> {
    let envelope = Envelope {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    serde_json::to_vec(&envelope).expect("strings and numbers are JSON")
}

/// The result in the answer to the question of that number.
pub(super) fn result(answer: &[u8], id: u64) -> Result<String, Failure> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|_| Failure::Answer)?;
    if answer.id != id {
        return Err(Failure::Answer);
    }
    if answer.error.is_some() {
        return Err(Failure::Refusal);
    }
    answer.result.ok_or(Failure::Answer)
}

/// A result of bytes.
pub(super) fn bytes(result: &str) -> Result<Vec<u8>, Failure> {
    let digits = result.strip_prefix("0x").ok_or(Failure::Result)?;
    hex::decode(digits).map_err(|_| Failure::Result)
}

/// A result that is a number.
pub(super) fn quantity(result: &str) -> Result<u64, Failure> {
    let digits = result.strip_prefix("0x").ok_or(Failure::Result)?;
    // A sign would parse, too.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::Result);
    }
    u64::from_str_radix(digits, 16).map_err(|_| Failure::Result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions as nodes know them: no target, and the block as a number without leading zeros.
    #[test]
    fn questions_are_json_rpc() {
        let text = |question: Question<'_>| String::from_utf8(question.encode(7).into()).unwrap();
        assert_eq!(
            text(Question::BlockNumber),
            r#"{"jsonrpc":"2.0","id":7,"method":"eth_blockNumber","params":[]}"#
        );
        for (block, written) in [(0, "0x0"), (16, "0x10"), (u64::MAX, "0xffffffffffffffff")] {
            let data = &[0xab, 0x00];
            assert_eq!(
                text(Question::Call { data, block }),
                format!(
                    r#"{{"jsonrpc":"2.0","id":7,"method":"eth_call","params":[{{"data":"0xab00"}},"{written}"]}}"#
                )
            );
        }
    }

    /// Goal: only a result under our number is one. Method: table of everything else a node may say.
    #[test]
    fn only_an_answer_to_the_question_is_an_answer() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"result":"0x01"}"#, Ok("0x01")),
            (r#"{"id":7,"result":"","error":null,"x":[[{}]]}"#, Ok("")),
            (r#"{"id":8,"result":"0x01"}"#, Err(Failure::Answer)),
            (r#"{"id":"7","result":"0x01"}"#, Err(Failure::Answer)),
            (r#"{"id":null,"result":"0x01"}"#, Err(Failure::Answer)),
            (r#"{"result":"0x01"}"#, Err(Failure::Answer)),
            (r#"{"id":7}"#, Err(Failure::Answer)),
            (r#"{"id":7,"result":null}"#, Err(Failure::Answer)),
            (r#"{"id":7,"result":1}"#, Err(Failure::Answer)),
            (r#"{"id":7,"result":"0x01","id":7}"#, Err(Failure::Answer)),
            (r#"[{"id":7,"result":"0x01"}]"#, Err(Failure::Answer)),
            (r#"{"id":7,"result":"0x01"} {}"#, Err(Failure::Answer)),
            (r#"{"id":7,"result":"0x01"#, Err(Failure::Answer)),
            ("", Err(Failure::Answer)),
            (
                r#"{"id":7,"error":{"code":3,"message":"execution reverted"}}"#,
                Err(Failure::Refusal),
            ),
            (
                r#"{"id":7,"error":"no","result":"0x01"}"#,
                Err(Failure::Refusal),
            ),
        ];
        for (answer, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(result(answer.as_bytes(), 7), expected, "{answer}");
        }
        let deep = [r#"{"id":7,"x":"#, &"[".repeat(100_000)].concat();
        assert_eq!(result(deep.as_bytes(), 7), Err(Failure::Answer));
    }

    /// Hexadecimal with its prefix, whole bytes for bytes and up to 64 bits for numbers.
    #[test]
    fn results_are_hexadecimal() {
        let cases = [
            ("0x", Some(vec![]), None),
            ("0x01", Some(vec![1]), Some(1)),
            ("0x1", None, Some(1)),
            ("0xAb", Some(vec![0xab]), Some(0xab)),
            ("0xffffffffffffffff", Some(vec![0xff; 8]), Some(u64::MAX)),
            ("0x10000000000000000", None, None),
            ("01", None, None),
            ("0x0g", None, None),
            ("0x+1", None, None),
            ("", None, None),
        ];
        for (text, as_bytes, as_number) in cases {
            assert_eq!(bytes(text).ok(), as_bytes, "{text}");
            assert_eq!(quantity(text).ok(), as_number, "{text}");
        }
    }
}
