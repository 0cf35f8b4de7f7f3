// Package websocket is the client's side of WebSocket (RFC 6455) over HTTP/1.1 or HTTP/2 (RFC 8441) without I/O, with
// compression of messages (permessage-deflate, RFC 7692).
//
// A Mux sends messages and awaits the answer to each. Answers are found by their order, or by a text in
// the message that the answer repeats. Messages of the server that answer nothing are counted, pings
// are answered.
//
// It is as strict as package http1, and for the same reason: each rule of the RFC that a server breaks
// is an error of its own.
//
// To read the source: frame.go has the frames, reader.go takes the server's apart, text.go checks UTF-8,
// deflate.go compresses, handshake.go opens a connection, over2.go does so over HTTP/2, conn.go joins them.
// mux.go repeats messages, session.go carries out the steps of a user, stream.go subscribes.
package websocket
