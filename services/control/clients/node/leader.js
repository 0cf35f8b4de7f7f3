// Waits to be elected leader, counts elections, and leads until its standard input ends or it is not the leader any more:
//
//   node leader.js 127.0.0.1:7101,127.0.0.1:7111 10.0.0.9:80
'use strict';

const { Client, LostError } = require('.'); // as a dependency: require('dyno-control')

async function elect(session, address) {
  try {
    return await session.lock('leader', { value: address, timeout: 100 });
  } catch (error) {
    if (error.code !== 'ETIMEDOUT') throw error;
    console.log('waits');
    return session.lock('leader', { value: address });
  }
}

async function main(servers, address) {
  const client = new Client(servers.split(','));
  const session = await client.begin(address, { ttlSeconds: 8 });
  const lock = await elect(session, address);
  console.log('leads', lock.token, await client.add('elections', 1));
  await new Promise((ended) => {
    process.stdin.on('end', ended).resume();
    lock.lost.addEventListener('abort', ended);
  });
  process.stdin.destroy();
  try {
    lock.check();
  } catch (error) {
    if (!(error instanceof LostError)) throw error;
    console.log(error.message);
  }
  await lock.unlock();
  await session.close();
  client.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
