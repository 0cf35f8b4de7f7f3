// Package channels carries records from sources to sinks: from sockets, a growing file or
// standard input, to a TCP peer, a file or standard output. Each channel has one source and
// one sink. It keeps its records in order, holds them in a bounded buffer between the two,
// and accounts for every record:
//
//	received = delivered + dropped + pending
//
// at any moment, also during faults.
//
// # Records
//
// A source cuts its bytes into records: lines (without their newline; a carriage return stays), or payloads after a
// length of 4 bytes, big endian. The records of one connection stay in order. Records of different connections are
// interleaved in the order of arrival, and carry their connection's number. A record that is longer than
// max_record_bytes ends its connection; in a file or on standard input it is skipped. Both count as rejected. A
// record that a connection leaves incomplete counts as torn and not as received. The last line of a file that was
// rotated away, and that of standard input, count even without a newline.
//
// On arrival, each record gets the next sequence number of the channel. A dropped record
// has a number too, so a gap of n numbers at the sink means n dropped records.
//
// # When the buffer is full
//
//	block        the source waits; a producer finds its TCP window full. Nothing is lost.
//	drop-oldest  the oldest record that was never given to the sink makes room; if all
//	             were given to it, the new record is dropped instead
//	drop-newest  the new record is dropped
//	disconnect   the new record is dropped and its connection closed
//
// # Formats
//
// A raw sink gets each record's bytes and a newline. A framed sink gets a header, once per
// file or connection,
//
//	 8  "dynorec1"
//	16  stream: identifies the numbering that the sequence numbers belong to
//
// and then frames, all integers big endian,
//
//	4  length of the payload
//	8  sequence number
//	8  number of the connection within its channel; 0 for files and standard input
//	4  CRC32C (Castagnoli, RFC 3720) of the payload followed by the 20 bytes above
//	…  payload
//
// The checksum is made when the record is received, so it also covers the way through the
// channel. Verify reads such a file and reports what is missing.
//
// Over TCP, a framed sink's peer answers the header with the last sequence number that it
// has of the stream: 8 bytes, 0 for none. Later it sends such a number to acknowledge all
// records up to it. After a reconnection the sink continues after the last record that the
// peer has. Records that were sent and not acknowledged stay in the buffer, at most window
// of them.
//
// Such a peer is a channel whose source listens with framing: framed. It acknowledges a record after its own sink has
// it for good, or after it was dropped and counted. It skips records that it had before. So what the first of several
// channels calls delivered is at the end of the last. It remembers the last numbers of 1,024 streams until its
// process ends: of connected ones, and then of the latest.
//
// A sink's file that is synced at intervals is synced sooner if its records came from framed
// peers: after 10 ms, or 512 records, because the peers wait for it.
//
// # What is guaranteed
//
// While the process runs, with block, whatever happens to the sink:
//
//	sink              records reach it
//	tcp, framed       exactly once, to a channel with a framed source that goes on running
//	file, any format  exactly once: a failed write is cut off and repeated. Whether the file
//	                  at the path is still the open one is looked at each second and before
//	                  records count as delivered. If not, what does not count yet is cut off,
//	                  and goes to the file that is at the path then. Who copies or compresses
//	                  the old one in that moment may have it as well
//	tcp, raw          at most once: what the kernel took counts as delivered, and is
//	                  lost if the peer dies. The peer may see the start of a record, and
//	                  then all of it on the next connection.
//	stdout            at most once; if it fails, the channel fails
//
// Across restarts of the process itself:
//
//	source file, sink framed (file, or TCP with a receiver that remembers its last
//	sequence numbers): exactly once, because position, stream and sequence number are
//	saved together and the sink knows what it has;
//	source file, sink file raw: at least once: records that were delivered after the
//	position was last saved are delivered again;
//	sockets and standard input: records that were received and not delivered are lost with
//	the process. They are reported as pending if it ends in an orderly way;
//	framed peers: nothing is lost, since they keep what was not acknowledged. Records
//	that were delivered and whose acknowledgement was lost with the process come twice.
//
// The producer on a socket gets no acknowledgement. Bytes that it wrote and the channel has
// not read do not count as received. The position of a file advances only over records that
// the sink has accepted (for files: written and, by the sync policy, on disk) or that were
// dropped and counted.
//
// A followed file may be rotated by renaming it within its directory, and may be truncated. Files that had the path
// are read in order, also after a restart, if they are still in the directory. A file that was removed is let go once
// it has been read and was quiet for rotate_wait. A file that gets the path and is rotated away while the process is
// not running is never seen. After a crash, this also applies to a file rotated away after the position was last
// saved. A file that is truncated and rotated away while the process is not running counts as gone. A file may be
// truncated, and grow beyond the old position between two checks. Its first 256 bytes distinguish it from one that
// only grew.
//
// A path that cannot be followed or opened for a while is tried again, and counted.
package channels
