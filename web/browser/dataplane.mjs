// A data plane as the control plane sees one: a client of gRPC that asks over xDS, and reports whom it calls. Its messages are
// written by hand, as there are few.

import { connect } from "node:http2";
import { createServer } from "node:net";

/** A port of this machine that is free. */
export async function freePort() {
  const server = createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  return Buffer.from([...bytes, n]);
}

/** A field of a message: a number, a text, or a message. */
function field(number, value) {
  if (typeof value === "number") return Buffer.concat([varint(number * 8), varint(value)]);
  const bytes = Buffer.from(value);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

const message = (...fields) => Buffer.concat(fields);

function framed(bytes) {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Connects a client of gRPC that belongs to a service, until end is called. */
export async function dataPlane(port, service, calls) {
  const session = connect(`http://127.0.0.1:${port}`);
  const node = message(field(1, `${service}-1`), field(2, service), field(6, "gRPC Go"));
  const open = async (path, ...messages) => {
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" });
    for (const m of messages) stream.write(framed(m));
    await new Promise((answered, failed) => { stream.once("data", answered); stream.once("error", failed); stream.once("end", () => failed(new Error(`${path} ended`))); });
    stream.on("error", () => {});
    stream.resume();
  };
  await open("/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", message(field(2, node), field(4, "type.googleapis.com/envoy.config.listener.v3.Listener")));
  const stats = calls.map(([to, requests, errors]) => field(2, message(
    field(1, `${to}.default`), field(2, message(field(3, 1), field(4, errors), field(8, requests))), field(4, message(field(1, 1))))));
  await open("/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats", message(field(1, node)), message(...stats));
  return () => session.destroy();
}
