// A client of the gRPC echo on grpc-js. README.md in the folder above has its options and figures.
'use strict';

const fs = require('fs');
const process = require('process');
const { performance } = require('perf_hooks');

async function main() {
  const options = { '--warm': 'none', '--calls': '20000', '--flight': '16' };
  for (let i = 2; i + 1 < process.argv.length; i += 2) {
    options[process.argv[i]] = process.argv[i + 1];
  }
  const [calls, flight] = [Number(options['--calls']), Number(options['--flight'])];
  const target = options['--target'];
  const grpc = require('@grpc/grpc-js'); // what it takes to load is not the first call's

  let began = performance.now();
  const client = new grpc.Client(target, grpc.credentials.createSsl(null, null, null, { rejectUnauthorized: false }));
  const message = Buffer.concat([Buffer.from([0x0a, 0x10]), Buffer.from('0123456789abcdef')]);
  const same = (bytes) => bytes;
  const call = () =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest('/dyno.echo.v1.Echo/Echo', same, same, message, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
  const repeat = async (atOnce, each) => {
    const times = [];
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        for (let n = 0; n < each; n++) {
          const at = performance.now();
          await call();
          times.push(performance.now() - at);
        }
      }),
    );
    return times.sort((a, b) => a - b);
  };
  if (options['--warm'] === 'connect') {
    await new Promise((resolve, reject) =>
      client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve())),
    );
  } else if (options['--warm'] === 'calls') {
    await repeat(1, 1000);
  }
  if (options['--warm'] !== 'none') {
    began = performance.now();
  }
  await call();
  const answered = performance.now();
  await call();
  const second = performance.now();
  const times = await repeat(flight, Math.floor(calls / flight));
  const took = performance.now() - second;
  console.log(
    JSON.stringify({
      first_seconds: (answered - began) / 1e3,
      second_seconds: (second - answered) / 1e3,
      p50_seconds: times[Math.floor(times.length / 2)] / 1e3,
      p99_seconds: times[Math.floor((times.length * 99) / 100)] / 1e3,
      calls_per_second: (times.length * 1e3) / took,
      connections: connections(target),
    }),
  );
  client.close();
}

// connections counts this machine's open connections to a target of its own, by the kernel's tables.
function connections(target) {
  const port = Number(target.slice(target.lastIndexOf(':') + 1));
  const end = ':' + port.toString(16).toUpperCase().padStart(4, '0');
  return ['/proc/net/tcp', '/proc/net/tcp6']
    .flatMap((table) => fs.readFileSync(table, 'utf8').split('\n'))
    .map((line) => line.trim().split(/\s+/))
    .filter((field) => field[2]?.endsWith(end) && field[3] === '01').length;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
