// Package sse is both client sides of server-sent events over HTTP/1.1, without I/O: a Stream
// subscribes, a Publisher publishes. The format is section 9.2 of the HTML standard (server-sent
// events).
//
// A Parser interprets an event stream, however it is cut into pieces. A Stream is a subscription around
// it: it asks for the events, with the last ID when it comes back. It recognises events that a
// Publisher has stamped (Stamp). A Publisher POSTs them, through any server that passes the body on as
// the event's data. So servers of every make can be measured alike.
package sse
