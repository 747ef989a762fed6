//! What a preflight is, what is answered to one, and what every other response gets.
//!
//! It must never send `access-control-max-age` or allow the credentials mode (ARC-002, ARC-099).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
    ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");

/// The answer mirrors two request headers, so a cache may not give it to another request.
const MIRRORED: HeaderValue =
    HeaderValue::from_static("access-control-request-method, access-control-request-headers");

/// Whether this is a preflight: the method and both headers.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The headers of the answer to a preflight with these request headers.
pub(super) fn preflight_headers(request: &HeaderMap) -> HeaderMap {
    let mut answer = HeaderMap::with_capacity(4);
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    answer.insert(VARY, MIRRORED);
    for method in request.get_all(ACCESS_CONTROL_REQUEST_METHOD) {
        answer.append(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    }
    for names in request.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.append(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    answer
}

/// Adds what lets a browser hand a response to the page; replaces what an inner layer may have said.
pub(super) fn admit_browser(response: &mut HeaderMap, exposed: Option<&HeaderValue>) {
    response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    if let Some(exposed) = exposed {
        response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
    }
}
