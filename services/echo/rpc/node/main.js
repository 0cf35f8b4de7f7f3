// The gRPC echo on grpc-js.

import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { HealthImplementation, protoPath as healthProto } from 'grpc-health-check';

import { WrongOption, parse, usage } from './options.js';
import * as service from './service.js';

const name = 'dyno.echo.v1.Echo';

/** How long calls may go on after SIGTERM, before they are cut: milliseconds. */
const drain = 3000;

function main() {
  let options;
  try {
    options = parse(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof WrongOption)) {
      throw error;
    }
    console.error(error.message);
    process.exitCode = 2;
    return;
  }
  if (options === null) {
    console.log(usage);
    return;
  }
  serve(options);
}

function serve(options) {
  const server = new grpc.Server({
    'grpc.max_receive_message_length': options.maxMessage,
    interceptors: Array.from({ length: options.middleware }, counting),
  });
  const proto = fileURLToPath(new URL('../echo.proto', import.meta.url));
  const definition = protoLoader.loadSync([proto, healthProto], {
    keepCase: true,
    defaults: true,
  });
  server.addService(definition[name], {
    Echo: service.echo,
    Collect: service.collect,
    Expand: service.expand,
    Chat: service.chat,
  });
  new HealthImplementation({ '': 'SERVING', [name]: 'SERVING' }).addToServer(server);
  new ReflectionService(definition).addToServer(server);

  server.bindAsync(options.listen, grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) {
      console.error(`listen: ${error.message}`);
      process.exit(1);
    }
    const host = options.listen.slice(0, options.listen.lastIndexOf(':'));
    console.log(`listening on ${host}:${port}`);
  });
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => {
      server.tryShutdown(() => process.exit(0));
      setTimeout(() => process.exit(0), drain);
    });
  }
}

/** Returns a layer around each call: it counts those that go through it. */
function counting() {
  let calls = 0;
  return (method, call) => {
    calls++;
    return new grpc.ServerInterceptingCall(call);
  };
}

main();
