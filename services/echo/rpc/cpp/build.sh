#!/usr/bin/env bash
# Build the echo on gRPC's C++ library, as Debian packages it.
. "$(dirname "$0")/../recipe.sh"
sources=$rpc/cpp
begin cpp
need cmake cmake
need g++ g++
need protoc protobuf-compiler
need grpc_cpp_plugin protobuf-compiler-grpc
[ -e /usr/include/grpcpp/ext/proto_server_reflection_plugin.h ] || missing "there is no gRPC for C++ (Debian: apt-get install libgrpc++-dev)"

build=$out/build
program=$build/dyno-echo-cpp
if current "$program" "$sources" "$rpc/echo.proto" "$rpc/standard" "$rpc/recipe.sh" -- "$(g++ --version | head -n 1)" "$(protoc --version)"; then
	runs "$program"
	exit
fi
# CMake builds in a folder for the sources that it was made for, and for no others. The cache may
# be of several checkouts.
if ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$sources" "$build/CMakeCache.txt"; then
	rm -rf "$build"
fi
step cmake -S "$sources" -B "$build" -DCMAKE_BUILD_TYPE=Release
step cmake --build "$build"
finish "$program"
