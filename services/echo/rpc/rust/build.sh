#!/usr/bin/env bash
# Build the echo on tonic. The crates are those of Cargo.lock; one of them brings the
# compiler of protocol buffers.
. "$(dirname "$0")/../recipe.sh"
sources=$rpc/rust
begin rust
command -v cargo >/dev/null || missing "there is no cargo: Rust 1.88 or later is needed"
release=$(rustc --version)
minor=$(sed 's/^rustc 1\.\([0-9]*\).*/\1/' <<<"$release")
[ "$minor" -ge 88 ] || missing "$release is too old: 1.88 is needed"

program=$out/target/release/dyno-echo-rust
if current "$program" "$sources" "$rpc/echo.proto" "$rpc/recipe.sh" -- "$release"; then
	runs "$program"
	exit
fi
manifest=(--manifest-path "$sources/Cargo.toml" --locked)
cargo fetch "${manifest[@]}" >>"$out/build.log" 2>&1 9>&- || missing "the crates cannot be fetched: $(tail -n 1 "$out/build.log")"
step cargo build "${manifest[@]}" --release --target-dir "$out/target"
finish "$program"
