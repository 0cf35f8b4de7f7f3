//! Makes Rust of echo.proto, by the compiler of protocol buffers that a crate brings along.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from("..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut prost = tonic_prost_build::Config::new();
    prost.protoc_executable(protoc_bin_vendored::protoc_bin_path()?);
    tonic_prost_build::configure()
        .build_client(false)
        .file_descriptor_set_path(out.join("echo.bin"))
        .compile_with_config(prost, &[folder.join("echo.proto")], &[folder])?;
    Ok(())
}
