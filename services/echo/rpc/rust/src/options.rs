//! What the command line says.

use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

pub const USAGE: &str = "\
The gRPC echo, on tonic.

  --listen HOST:PORT    address to listen on; port 0 takes a free one (default 127.0.0.1:9000)
  --middleware N        layers around each call, each of which counts it (default 0)
  --max-message BYTES   longest payload of a message (default 4194304)
  --threads N           threads that serve (default: tokio's, one for each CPU it may use)
  --help                print this";

/// What a message has around its payload: tags, lengths, and a short text.
const FRAMING: usize = 64;

pub struct Options {
    pub listen: SocketAddr,
    pub middleware: usize,
    /// The longest message that is read, in encoded bytes.
    pub max_message: usize,
    /// None leaves it to tokio.
    pub threads: Option<usize>,
}

impl Options {
    /// Returns the options, or None if help is asked for. The error says which option is wrong,
    /// and why.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 9000)),
            middleware: 0,
            max_message: (4 << 20) + FRAMING,
            threads: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let value = match name {
                "--help" | "-h" => return Ok(None),
                "--listen" | "--middleware" | "--max-message" | "--threads" => value
                    .or_else(|| args.next())
                    .ok_or_else(|| format!("{name}: needs a value"))?,
                _ => return Err(format!("{name}: no such option")),
            };
            match name {
                "--listen" => options.listen = address(&value)?,
                "--middleware" => options.middleware = number(name, &value, 0, 1000)?,
                "--max-message" => {
                    options.max_message = number(name, &value, 0, 1 << 30)? + FRAMING;
                }
                _ => options.threads = Some(number(name, &value, 1, 1024)?),
            }
        }
        Ok(Some(options))
    }
}

fn number<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    low: T,
    high: T,
) -> Result<T, String> {
    match value.parse() {
        Ok(number) if number >= low && number <= high => Ok(number),
        _ => Err(format!(
            "{name}: \"{value}\": must be a whole number from {low} to {high}"
        )),
    }
}

fn address(value: &str) -> Result<SocketAddr, String> {
    value
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| format!("--listen: \"{value}\": must be HOST:PORT"))
}
