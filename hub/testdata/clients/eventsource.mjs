// Subscribes by the npm package eventsource and prints each event as a line of JSON,
// up to the one that says "end". Reconnecting is the package's business.
import { EventSource } from 'eventsource'

const source = new EventSource(process.argv[2])
const seen = (event) => {
  console.log(JSON.stringify({ id: event.lastEventId, type: event.type, data: event.data }))
  if (event.data === 'end') source.close()
}
for (const type of ['message', 'named', 'gap']) source.addEventListener(type, seen)
