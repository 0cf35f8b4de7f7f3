// Package feed reads rows of data for load, such as the users to log in with, from CSV
// files (RFC 4180) and from files of JSON Lines, of any size.
//
// Open reads a file once from beginning to end and reports what is wrong with it, by
// line and column, so that nothing is left to be found out under load. It keeps where
// each row begins, in four bytes a row. A Cursor then goes through the rows of one shard
// in one of several orders, without allocating. Positions are dealt to shards in turn,
// so that all shards together have each row once in a pass, whatever the order.
//
// Files are read and not mapped into memory. Whoever cuts off a mapped file kills the
// process that maps it (SIGBUS), and the pages of a mapping that were touched count as
// the process's memory: with rows in random order soon all of the file. A file of up to
// 4 MiB is kept in memory. Of a larger one, rows in sequence are read 64 KiB at a time,
// and rows in any other order one by one, which costs a system call each. A file that
// is changed or cut off while it is in use ends the cursor with an error, or gives rows of
// other text; it can do no further harm.
package feed
