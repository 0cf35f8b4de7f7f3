//! The four kinds of call.

use std::pin::Pin;
use std::time::Duration;

use async_stream::try_stream;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::call::{Deadline, too_large};
use crate::proto::echo_server::Echo;
use crate::proto::{CollectResponse, EchoRequest, EchoResponse, ExpandRequest};

type Responses = Pin<Box<dyn Stream<Item = Result<EchoResponse, Status>> + Send>>;

pub struct EchoService;

#[tonic::async_trait]
impl Echo for EchoService {
    type ExpandStream = Responses;
    type ChatStream = Responses;

    async fn echo(&self, request: Request<EchoRequest>) -> Result<Response<EchoResponse>, Status> {
        let limit = Limit::of(&request);
        limit.answer(request.into_inner()).await.map(Response::new)
    }

    async fn collect(
        &self,
        request: Request<Streaming<EchoRequest>>,
    ) -> Result<Response<CollectResponse>, Status> {
        let limit = Limit::of(&request);
        let mut requests = request.into_inner();
        let mut sum = CollectResponse::default();
        while let Some(request) = limit.next(&mut requests).await? {
            let message = limit.answer(request).await?;
            sum.messages += 1;
            sum.bytes += (message.text.len() + message.payload.len()) as u64;
        }
        Ok(Response::new(sum))
    }

    async fn expand(
        &self,
        request: Request<ExpandRequest>,
    ) -> Result<Response<Self::ExpandStream>, Status> {
        let limit = Limit::of(&request);
        let request = request.into_inner();
        let interval = Duration::from_micros(request.interval_us.into());
        Ok(Response::new(Box::pin(try_stream! {
            let answer = limit.answer(request.message.unwrap_or_default()).await?;
            for i in 0..request.count {
                if i > 0 && !interval.is_zero() {
                    limit.sleep(interval).await?;
                }
                yield answer.clone();
            }
        })))
    }

    async fn chat(
        &self,
        request: Request<Streaming<EchoRequest>>,
    ) -> Result<Response<Self::ChatStream>, Status> {
        let limit = Limit::of(&request);
        let mut requests = request.into_inner();
        Ok(Response::new(Box::pin(try_stream! {
            while let Some(request) = limit.next(&mut requests).await? {
                yield limit.answer(request).await?;
            }
        })))
    }
}

/// Ends waits when the call's deadline has passed. A call that is cancelled is dropped, and its
/// waits with it.
#[derive(Clone, Copy)]
struct Limit(Option<Instant>);

impl Limit {
    fn of<T>(request: &Request<T>) -> Self {
        Limit(request.extensions().get().map(|Deadline(at)| *at))
    }

    /// Answers a message after its delay, or ends the call with its status.
    async fn answer(self, request: EchoRequest) -> Result<EchoResponse, Status> {
        if request.delay_ms > 0 {
            self.sleep(Duration::from_millis(request.delay_ms.into()))
                .await?;
        }
        if request.status != 0 {
            let code = i32::try_from(request.status).unwrap_or(i32::MAX);
            return Err(Status::new(Code::from_i32(code), request.text));
        }
        Ok(EchoResponse {
            text: request.text,
            payload: request.payload,
        })
    }

    async fn next(
        self,
        requests: &mut Streaming<EchoRequest>,
    ) -> Result<Option<EchoRequest>, Status> {
        self.within(requests.message()).await?.map_err(too_large)
    }

    async fn sleep(self, duration: Duration) -> Result<(), Status> {
        self.within(sleep(duration)).await
    }

    async fn within<T>(self, future: impl Future<Output = T>) -> Result<T, Status> {
        match self.0 {
            None => Ok(future.await),
            Some(at) => timeout_at(at, future)
                .await
                .map_err(|_| Status::deadline_exceeded("the deadline has passed")),
        }
    }
}
