#!/usr/bin/env bash
# Build the echo on grpc-java. JAVA_OPTS goes to the virtual machine when it runs.
. "$(dirname "$0")/../recipe.sh"
sources=$rpc/java
begin java
need javac default-jdk-headless
need mvn maven
release=$(javac -version 2>&1)
major=$(sed 's/^javac \([0-9]*\).*/\1/' <<<"$release")
[ "$major" -ge 17 ] || missing "$release is too old: 17 is needed"
java=$(dirname "$(readlink -f "$(command -v javac)")")/java

program=$out/echo
if current "$program" "$sources" "$rpc/echo.proto" "$rpc/recipe.sh" -- "$release" "$java"; then
	runs "$program"
	exit
fi
if ! mvn --quiet --batch-mode -f "$sources/pom.xml" -Ddyno.build="$out/target" package >>"$out/build.log" 2>&1 9>&-; then
	if grep -q -e 'Could not transfer' -e 'Unknown host' -e 'Cannot access' "$out/build.log"; then
		missing "Maven does not reach its repository, and has not all of the packages"
	fi
	tail -n 30 "$out/build.log" >&2
	echo "java: mvn package failed" >&2
	exit 1
fi
cat >"$program" <<RUN
#!/bin/sh
exec "$java" \$JAVA_OPTS -jar "$out/target/dyno-echo-java.jar" "\$@"
RUN
chmod +x "$program"
finish "$program"
