// Registers an instance of the service "example", reads the configuration "greeting", and prints changes of
// configurations until its standard input ends. It refuses those that are no text:
//
//   node example.js 127.0.0.1:7101,127.0.0.1:7111 1
'use strict';

const { isUtf8 } = require('node:buffer');
const { Client } = require('.'); // as a dependency: require('dyno-control')

async function main(servers, id) {
  const client = new Client(servers.split(','), { name: 'example-' + id });
  const registration = client.register({ address: '127.0.0.1', port: 8080, ttlSeconds: 6 }, 'example', id);
  await registration.ready();
  console.log('registered');
  const greeting = await client.config('greeting');
  console.log('read', greeting.version, greeting.config.content.toString('hex'));
  const watch = client.watch(['config']);
  process.stdin.on('end', () => watch.close()).resume();
  for await (const { changes, resources, current, server } of watch) {
    for (const { before, after } of changes) {
      console.log(after ? 'put' : 'removed', (after ?? before).ref.name, (after ?? before).version);
      if (!after) continue;
      if (isUtf8(after.config.content)) watch.applied(after);
      else watch.refused(after, 'no text');
    }
    console.log(current ? 'current' : 'stale', server, resources.size);
  }
  await registration.close();
  client.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
