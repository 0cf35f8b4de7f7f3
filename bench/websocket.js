// k6: round trips of 64 bytes, one after the other, on a connection for each of the virtual users. By k6/ws, or with
// API=websockets by k6/websockets.
import ws from 'k6/ws'
import {WebSocket} from 'k6/websockets'

const message = 'm'.repeat(64)
const milliseconds = __ENV.SECONDS_EACH * 1000
export const options = {scenarios: {echo: {executor: 'per-vu-iterations', vus: +__ENV.CONNECTIONS, iterations: 1, maxDuration: '10m'}}}

export default function () {
	if (__ENV.API === 'websockets') {
		const socket = new WebSocket(__ENV.URL)
		socket.onopen = () => {
			socket.send(message)
			setTimeout(() => socket.close(), milliseconds)
		}
		socket.onmessage = () => socket.send(message)
	} else {
		ws.connect(__ENV.URL, socket => {
			socket.on('open', () => socket.send(message))
			socket.on('message', () => socket.send(message))
			socket.setTimeout(() => socket.close(), milliseconds)
		})
	}
}

export const handleSummary = data => ({stdout: `${data.metrics.ws_msgs_received.values.count}\n`})
