// Package channels carries records from sources to sinks: from sockets, a file
// that grows or standard input, to a TCP peer, a file or standard output. Each
// channel has one source and one sink, keeps its records in order, holds them in
// a bounded buffer between the two, and accounts for every one of them:
//
//	received = delivered + dropped + pending
//
// at any moment, also while faults happen.
//
// # Records
//
// A source cuts its bytes into records: lines (without their newline; a carriage
// return stays) or payloads behind a length of 4 bytes, big endian. The order
// of each connection is kept; records of different connections are interleaved
// in the order in which the channel took them, and carry the number of their
// connection. A record that is longer than max_record_bytes ends its connection;
// in a file or on standard input it is skipped. Both are counted as rejected. A
// record that a connection leaves incomplete is counted as torn and not
// received. The last line of a file that was rotated away, and that of standard
// input, count without a newline.
//
// On its way in, each record gets the next sequence number of the channel. A
// dropped record has had its number too, so at the sink a gap of n numbers is n
// records dropped.
//
// # When the buffer is full
//
//	block        the source waits; a producer meets a full window. Nothing is lost.
//	drop-oldest  the oldest record the sink was never given makes room; if it was
//	             given all of them, the new record is dropped instead
//	drop-newest  the new record is dropped
//	disconnect   the new record is dropped and its connection closed
//
// # Formats
//
// A raw sink gets each record's bytes and a newline. A framed sink gets a
// header, once per file or connection,
//
//	 8  "dynorec1"
//	16  stream: which numbering the sequence numbers belong to
//
// and then frames, all integers big endian,
//
//	4  length of the payload
//	8  sequence number
//	8  number of the connection within its channel; 0 for files and standard input
//	4  CRC32C (Castagnoli, RFC 3720) of the payload followed by the 20 bytes above
//	…  payload
//
// The checksum is made when the record is received, so it covers the way
// through the channel too. Verify reads such a file and tells what is missing.
//
// Over TCP, a framed sink's peer (see Receiver) answers the header with the last
// sequence number it has of that stream, 8 bytes, 0 for none, and later sends
// the same to acknowledge all records up to it. After a reconnection the sink
// goes on behind what the peer has. Records that were sent and not
// acknowledged stay in the buffer, at most window of them.
//
// # What is guaranteed
//
// While the process runs, with block, whatever happens to the sink:
//
//	sink              records reach it
//	tcp, framed       exactly once after Receiver's deduplication
//	file, any format  exactly once: a failed write is cut off and repeated
//	tcp, raw          at most once: what the kernel took counts as delivered, and a
//	                  peer that dies loses it. It may see the start of a record, and
//	                  then all of it on the next connection.
//	stdout            at most once; when it fails, the channel fails
//
// Across restarts of the process itself:
//
//	source file, sink framed (file, or TCP whose receiver remembers its last
//	sequence numbers): exactly once, because position, stream and sequence number are
//	saved together and the sink knows what it has;
//	source file, sink file raw: at least once: what was delivered since the position was
//	last saved is delivered again;
//	sockets and standard input: what was received and not delivered is lost with the
//	process, and reported as pending when it ends in an orderly way.
//
// A socket's producer gets no acknowledgement; what it wrote and the channel has not
// read is not received. The position of a file advances only over records that
// the sink has accepted (for files: written and, by the sync policy, on disk) or
// that were dropped and counted.
//
// A followed file may be rotated by renaming it within its directory, and be
// truncated. Files that had the path while the channel was following are read in
// their order, also after a restart, if they are still in the directory. A file
// that gets the path and is rotated away while the process is not running is never
// seen; after a crash, neither is one that was rotated away since the position
// was last saved and followed by another. A file that is truncated and rotated
// away while the process is not running is taken for gone. A file truncated and
// grown beyond the old position between two looks is indistinguishable from one
// that grew.
package channels
