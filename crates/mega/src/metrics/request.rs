//! What a client asks for: the head of an HTTP/1 request.

/// The longest head of a request, in bytes. Prometheus sends some 300.
pub(super) const LONGEST: usize = 8192;
/// The most header lines.
const MOST_HEADERS: usize = 64;
/// Where the metrics are.
const PATH: &str = "/metrics";
/// Where it says whether managing goes on.
const HEALTH: &str = "/healthz";

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The metrics.
    Metrics,
    /// Whether managing goes on.
    Health,
    /// Nothing, and why.
    Refusal(Refusal),
}

/// Why a client does not get the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It did not speak HTTP/1.
    NotHttp,
    /// It asked for something else.
    NotFound,
    /// It wanted something else than to read.
    NotGet,
    /// Its request is too long.
    TooLong,
}

impl Refusal {
    /// The whole response.
    pub(super) fn response(self) -> &'static [u8] {
        match self {
            Refusal::NotHttp => {
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Refusal::NotFound => {
                b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 28\r\nConnection: close\r\n\r\nThe metrics are at /metrics\n"
            }
            Refusal::NotGet => {
                b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Refusal::TooLong => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
        }
    }
}

/// The whole response to who asks whether managing goes on.
pub(super) fn health(is_alive: bool) -> &'static [u8] {
    if is_alive {
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
    } else {
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 49\r\nConnection: close\r\n\r\nThe manager has given no sign of life for 3 min.\n"
    }
}

/// The reply to what a client has sent so far; `None` while the head of its request is not complete.
pub(super) fn reply(sent: &[u8]) -> Option<Reply> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let refusal = match request.parse(sent) {
        Ok(httparse::Status::Partial) if sent.len() < LONGEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Refusal::TooLong,
        Err(_) => Refusal::NotHttp,
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some(target)) if path(target) == PATH => return Some(Reply::Metrics),
            (Some("GET"), Some(target)) if path(target) == HEALTH => return Some(Reply::Health),
            (Some("GET"), _) => Refusal::NotFound,
            _ => Refusal::NotGet,
        },
    };
    Some(Reply::Refusal(refusal))
}

/// A request's target without its query.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(refusal: Refusal) -> Option<Reply> {
        Some(Reply::Refusal(refusal))
    }

    #[test]
    fn only_a_get_of_the_metrics_gets_them() {
        for (sent, wanted) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                Some(Reply::Metrics),
            ),
            ("GET /metrics?name=x HTTP/1.0\r\n\r\n", Some(Reply::Metrics)),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", None),
            ("", None),
            ("GET /healthz HTTP/1.1\r\n\r\n", Some(Reply::Health)),
            ("GET / HTTP/1.1\r\n\r\n", refusal(Refusal::NotFound)),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", refusal(Refusal::NotFound)),
            ("POST /metrics HTTP/1.1\r\n\r\n", refusal(Refusal::NotGet)),
            ("\x16\x03\x01\x02\x00", refusal(Refusal::NotHttp)),
            ("GET /metrics HTTP/9.9\r\n\r\n", refusal(Refusal::NotHttp)),
        ] {
            assert_eq!(reply(sent.as_bytes()), wanted, "{sent:?}");
        }
    }

    #[test]
    fn a_request_without_an_end_is_refused() {
        let mut long = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        long.resize(LONGEST, b'x');
        assert_eq!(reply(&long), refusal(Refusal::TooLong));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(reply(many.as_bytes()), refusal(Refusal::TooLong));
    }

    #[test]
    fn every_short_response_says_its_own_length() {
        let refusals = [
            Refusal::NotHttp,
            Refusal::NotFound,
            Refusal::NotGet,
            Refusal::TooLong,
        ];
        let responses = refusals.map(Refusal::response);
        for response in responses.into_iter().chain([health(true), health(false)]) {
            let text = std::str::from_utf8(response).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(
                head.contains(&format!("Content-Length: {}\r\n", body.len())),
                "{head}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_answered_in_the_end(mut sent in prop::collection::vec(any::<u8>(), 0..9000)) {
            if reply(&sent).is_none() {
                sent.resize(LONGEST, b'\n');
                prop_assert!(reply(&sent).is_some());
            }
        }
    }
}
