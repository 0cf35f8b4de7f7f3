// Package tlslayer is the client's side of TLS 1.2 and 1.3 (RFC 5246, RFC 8446). It is a layer of bytes
// ↔ bytes, without I/O. It goes between a socket and a codec such as http1: Open turns what arrived
// into data, Seal turns data into what to send. crypto/tls does the cryptography, on the caller's
// thread.
//
// A Context holds what the connections of one worker share; each connection has a Conn.
//
// # How crypto/tls is used
//
// Below each tls.Conn is a net.Conn that is memory.
//
// An established tls.Conn needs no goroutine. If a read below it returns a net.Error whose Temporary is
// true, tls.Conn.Read returns that error and keeps its state: the part of a record that it has, and the
// part of a handshake message that came in earlier records. The next Read goes on from there. This
// holds for data, for the messages after a TLS 1.3 handshake (tickets, key updates), for alerts and for
// close_notify. A Read may return data and that error together, when the start of a TLS 1.2 alert
// follows the data. All other errors are final. A write below never fails, since it appends to memory,
// so that the writing side is never broken by one. The tests hold crypto/tls to this at each place
// where the bytes can be cut.
//
// A handshake cannot be resumed: whatever error ends tls.Conn.Handshake, it returns that
// one from then on. So a handshake runs in a coroutine (iter.Pull) until it is complete:
// where it would wait for bytes, it gives control back to Open or Start. A coroutine is
// no thread and meets no scheduler: control goes to it and back in 0.07 µs, on a locked
// thread as well. There is one for each handshake under way, and none for a connection
// that is established. This was chosen over two other ways:
//
//   - A pool of goroutines. To wake one from a locked thread and be woken takes 40 µs,
//     twice in a handshake of 120 to 350 µs. A pool that is smaller than the number of
//     handshakes under way makes them wait for each other's round trips. And what it
//     uses of the CPU is on no worker's account, or on no worker's CPU.
//   - tls.QUICConn, which needs no goroutine of its own. It knows TLS 1.3 only, leaves
//     the record layer to be written, insists on ALPN, and on an extension that servers
//     over TCP do not send.
//
// The price: a handshake's CPU time holds up the other connections of its worker, for one call at a
// time: 50 to 250 µs here, plus the time to sign with the client's key. With RSA of 4096 bits that is a
// few milliseconds.
//
// # What it costs
//
// To open a record, crypto/tls copies twice (the ciphertext in, the data out). It allocates 24 bytes
// (the reader in its readFromUntil). Sealing, it copies twice and allocates nothing. An established
// connection keeps about 6 KB, most of it crypto/tls's buffers and keys. A handshake allocates 40 to
// 130 KB.
//
// Whatever a peer sends, a connection keeps at most one record of 18 KB and one message of the
// handshake. That is 64 KiB, or 256 KiB for certificates. It passes over at most 16 records without
// data in a row. How long it may take is the caller's business.
//
// # Kernel TLS
//
// It is not used. crypto/tls gives traffic secrets to a key log only. Later tickets and key updates
// would have to be understood here. The kernel could save the copying of large bodies from files; a
// load generator sends small requests and throws bodies away.
//
// # In an event loop
//
// A connection goes through these states:
//
//   - Connected (writable, no error): Start, and write what it appended. The handshake's
//     time begins here. On an error, as on every later one: write what is pending as far
//     as the socket takes it, which is the alert, Reset, close.
//   - Handshaking, readable: Open what was read. Then, if Pending, Flush and write. If
//     the state is Established now, the handshake's time ends, by the arrival of what
//     was read; Info tells what was agreed on, among it by which protocol (ALPN) to make
//     the codec. Data may have come along already.
//   - Established: Seal a codec's bytes into the connection's buffer and write that.
//     What the socket does not take stays in the buffer. Readable: Open, and hand the
//     data to the codec, in one piece. Then look at Pending: the peer may have asked for
//     new keys. Flush appends after sealed bytes that the socket has not taken, and Seal
//     puts pending bytes first, so that records leave in their order.
//   - Ended: to the codec it is the end of the connection. Data of the same call
//     precedes it.
//   - The peer closed its side: the codec's End first, as its message may be complete
//     without the layer's. If it returns nil because the end completes the message,
//     End here must return nil, too, or the message may be cut short.
//   - Timeout, or no more use: CloseNotify if the peer should know, Reset, close.
//
// Data is complete when its record is. So its arrival is that of the segment that completed the record:
// the time stamp of the read whose bytes Open was given. Data of several records in one read bears the
// last one's stamp, as without TLS.
package tlslayer
