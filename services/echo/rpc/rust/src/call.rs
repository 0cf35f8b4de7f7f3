//! What the contract says of every call, below the messages: metadata that comes back,
//! compression, deadlines, and the status of a message that is too large.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;

const INITIAL: HeaderName = HeaderName::from_static("x-grpc-test-echo-initial");
const TRAILING: HeaderName = HeaderName::from_static("x-grpc-test-echo-trailing-bin");

/// When a call's deadline passes: an extension of its request.
#[derive(Clone, Copy)]
pub struct Deadline(pub Instant);

/// Prepares a request for the handlers.
pub fn prepare(mut request: Request<Body>) -> Request<Body> {
    // tonic compresses whatever the caller accepts. Here an answer is compressed only if the
    // question was.
    let gzip = request
        .headers()
        .get("grpc-encoding")
        .is_some_and(|encoding| encoding == "gzip");
    if !gzip {
        request.headers_mut().remove("grpc-accept-encoding");
    }
    // tonic's own timer ends calls with CANCELLED, and does not end streams.
    let timeout = request
        .headers()
        .get("grpc-timeout")
        .and_then(parse_timeout);
    if let Some(at) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
        request.extensions_mut().insert(Deadline(at));
    }
    request
}

/// Reads one to eight digits and a unit: "Timeout" in the specification of gRPC over HTTP/2.
fn parse_timeout(value: &HeaderValue) -> Option<Duration> {
    let (digits, unit) = value.to_str().ok()?.split_at_checked(value.len() - 1)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// Gives the status of a message over the limit, for which tonic has OUT_OF_RANGE.
pub fn too_large(status: Status) -> Status {
    if is_too_large(&status) {
        Status::resource_exhausted(status.message())
    } else {
        status
    }
}

/// Does the same for a response of tonic's own.
pub fn finish(mut response: Response<Body>) -> Response<Body> {
    let own = response.extensions().get::<Status>();
    if own.is_some_and(is_too_large) {
        let code = HeaderValue::from(Code::ResourceExhausted as u16);
        response.headers_mut().insert(Status::GRPC_STATUS, code);
    }
    response
}

fn is_too_large(status: &Status) -> bool {
    status.code() == Code::OutOfRange
        && status
            .message()
            .starts_with("Error, decoded message length too large")
}

/// Sends back metadata: one key in the header, one in the trailers.
#[derive(Clone)]
pub struct ReturnMetadata<S>(pub S);

impl<S> Service<Request<Body>> for ReturnMetadata<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let initial = values(request.headers(), &INITIAL);
        let trailing = values(request.headers(), &TRAILING);
        let call = self.0.call(request);
        if initial.is_empty() && trailing.is_empty() {
            return Either::Left(call);
        }
        let response = async move {
            let mut response = call.await?;
            append(response.headers_mut(), &INITIAL, &initial);
            if response.headers().contains_key(Status::GRPC_STATUS) {
                // There are no trailers: the header is the end of the call.
                append(response.headers_mut(), &TRAILING, &trailing);
                return Ok(response);
            }
            Ok(response.map(|body| {
                Body::new(body.map_frame(move |mut frame| {
                    if let Some(trailers) = frame.trailers_mut() {
                        append(trailers, &TRAILING, &trailing);
                    }
                    frame
                }))
            }))
        };
        Either::Right(response.boxed())
    }
}

fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderValue> {
    headers.get_all(name).iter().cloned().collect()
}

fn append(headers: &mut HeaderMap, name: &HeaderName, values: &[HeaderValue]) {
    for value in values {
        headers.append(name, value.clone());
    }
}
