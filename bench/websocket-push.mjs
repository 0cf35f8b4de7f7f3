// A WebSocket server that pushes to all its connections, one message for each POST, and says by HTTP how many connections
// it has and how many messages it has sent.
//
//   node bench/websocket-push.mjs PORT
import http from 'node:http'
import {WebSocketServer} from '../load/engine/testdata/clients/node_modules/ws/wrapper.mjs'

let sent = 0
const server = http.createServer((request, response) => {
	if (request.method === 'POST') for (const socket of sockets.clients) socket.send(`message ${++sent}`)
	response.end(`${sockets.clients.size} ${sent}\n`)
})
const sockets = new WebSocketServer({server})
server.listen({port: +process.argv[2], host: '127.0.0.1', backlog: 4096})
