#!/usr/bin/env bash
# Build the client on grpc-java. The echo's own jar has the library and the generated messages.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
"$rpc/java/build.sh" >/dev/null || exit
begin client-java
jar=$cache/java/target/dyno-echo-java.jar
run=("$(dirname "$(readlink -f "$(command -v javac)")")/java" -cp "$jar:$out/classes" EchoClient)
if current "$out/classes/EchoClient.class" "$here" "$rpc/java" -- "${run[*]}"; then
	runs "${run[@]}"
	exit
fi
step javac -cp "$jar" -d "$out/classes" "$here/EchoClient.java"
finish "${run[@]}"
