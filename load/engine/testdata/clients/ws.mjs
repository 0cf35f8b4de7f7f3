// An echo of WebSocket messages by ws, on one port without TLS and one with. The message "subscribe" has 50 others sent
// in its place. By HTTP, it says what it has counted.
//
//   node ws.mjs PORT TLS-PORT CERTIFICATE KEY
import http from 'node:http'
import https from 'node:https'
import {readFileSync} from 'node:fs'
import {WebSocketServer} from 'ws'

const [port, securePort, certificate, key] = process.argv.slice(2)
const counts = {connections: 0, messages: 0, pushed: 0, closes: 0}
const answer = (request, response) => response.end(JSON.stringify(counts))
const servers = [
	[http.createServer(answer), port],
	[https.createServer({cert: readFileSync(certificate), key: readFileSync(key)}, answer), securePort],
]
for (const [server, port] of servers) {
	new WebSocketServer({server, perMessageDeflate: true}).on('connection', socket => {
		counts.connections++
		socket.on('error', error => console.error(error))
		socket.on('close', code => { if (code === 1000) counts.closes++ })
		socket.on('message', (data, binary) => {
			counts.messages++
			if (data.toString() !== 'subscribe') return socket.send(data, {binary})
			for (let n = 0; n < 50; n++, counts.pushed++) socket.send(`news ${n}`)
		})
	})
	server.listen(port, '127.0.0.1')
}
