// Servers whose capacity is known by construction: node capacity.js KIND PORT
const http = require('http'), [, , kind, port] = process.argv
// c workers that take a time each, as a calculation: when the answer to a request that arrives now is due.
const workers = (c, service) => {
  const free = new Array(c).fill(0)
  return now => {
    const i = free.indexOf(Math.min(...free))
    return free[i] = Math.max(now, free[i]) + service()
  }
}
let n = 0, tokens = 0, filled = 0
const due = {
  slow: now => now + 50, // any number at once
  tail: workers(20, () => ++n % 20 ? 5 : 200), // 20 / 14.75 ms
  bimodal: workers(10, () => ++n % 2 ? 2 : 20), // 10 / 11 ms
  closes: workers(5, () => 5), // and no connection is kept
  limited: now => now + 10, // on 20 connections
  pauses: (() => { // one worker of 1 ms, which does nothing for the first 100 ms of each second
    let work = 0
    return now => {
      work = Math.max(work, now)
      if (work % 1000 < 100) work += 100 - work % 1000
      return work += 1
    }
  })(),
  refuses: now => { // more than 700 a second
    tokens = Math.min(70, tokens + (now - filled) * 0.7)
    filled = now
    return tokens < 1 ? -1 : (tokens--, now + 1)
  },
  streams: now => now + 20,
}[kind]
const answer = (q, s) => {
  const now = performance.now(), at = due(now)
  if (at < 0) { s.statusCode = 503; return s.end() }
  if (kind === 'closes') s.setHeader('Connection', 'close')
  setTimeout(() => s.end('ok\n'), at - now)
}
const server = kind === 'streams' ? require('http2').createServer({settings: {maxConcurrentStreams: 4}}, answer) : http.createServer(answer)
if (kind === 'limited') server.maxConnections = 20
server.listen(+port, '127.0.0.1', 65535)
