#!/usr/bin/env bash
# Install JMeter from Maven Central, for tests of what it sends. Java and Maven are needed.
#
#   scripts/jmeter.sh FOLDER      writes FOLDER/jmeter, which runs a test plan without a window: jmeter -n -t PLAN
set -euo pipefail
version=5.6.3
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>jmeter</groupId><artifactId>jmeter</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
$(for part in config core components functions http; do
	echo "<dependency><groupId>org.apache.jmeter</groupId><artifactId>ApacheJMeter_$part</artifactId><version>$version</version></dependency>"
done)
</dependencies></project>
X
mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/lib"
home=$out/jmeter-home
rm -rf "$home"
mkdir -p "$home/lib/ext" "$home/lib/junit"
(cd "$home" && jar xf "$work/lib/ApacheJMeter_config-$version.jar" bin)
mv "$work/lib/ApacheJMeter-$version.jar" "$home/bin/ApacheJMeter.jar"
mv "$work"/lib/ApacheJMeter_*.jar "$home/lib/ext/"
mv "$work"/lib/*.jar "$home/lib/"
cat >"$out/jmeter" <<J
#!/bin/sh
exec java -Xmx256m -Djava.awt.headless=true -jar "$home/bin/ApacheJMeter.jar" "\$@"
J
chmod +x "$out/jmeter"
