//! The gRPC echo on tonic.

mod call;
mod options;
mod service;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::codec::CompressionEncoding;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Status};
use tower::ServiceBuilder;
use tower::layer::layer_fn;

use options::Options;
use proto::echo_server::EchoServer;
use service::EchoService;

/// What is made of echo.proto.
mod proto {
    tonic::include_proto!("dyno.echo.v1");

    pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("echo");
}

/// How long calls may go on after SIGTERM, before they are cut.
const DRAIN: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = options.threads {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(serve(options))
}

async fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let incoming = TcpIncoming::bind(options.listen)
        .map_err(|error| format!("listen: {}: {error}", options.listen))?
        .with_nodelay(Some(true)); // as Server has it when it listens by itself
    let address = incoming.local_addr()?;

    let routes = routes(&options).await?;
    let layers = ServiceBuilder::new()
        .layer(layer_fn(call::ReturnMetadata))
        .map_response(call::finish)
        .map_request(call::prepare)
        .into_inner();
    let (end, mut ended) = watch::channel(());
    let server = Server::builder()
        .layer(layers)
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, async move {
            let _ = ended.changed().await;
        });
    println!("listening on {address}");

    let signals = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = end.send(());
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = server => result?,
        () = signals => {}
    }
    Ok(())
}

async fn routes(options: &Options) -> Result<Routes, Box<dyn Error>> {
    let echo = EchoServer::new(EchoService)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(options.max_message);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<EchoServer<EchoService>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::new(echo)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    for _ in 0..options.middleware {
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router.layer(InterceptorLayer::new(counting()));
    }
    Ok(routes)
}

/// A layer around each call: it counts those that go through it.
fn counting() -> impl FnMut(Request<()>) -> Result<Request<()>, Status> + Clone {
    let calls = Arc::new(AtomicU64::new(0));
    move |request| {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok(request)
    }
}
