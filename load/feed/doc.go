// Package feed reads rows of data for load, such as the users to log in with, from CSV
// files (RFC 4180) and from files of JSON Lines, of any size.
//
// Open reads a file once from beginning to end and reports what is wrong with it, by
// line and column, so that nothing is left to be found out under load. It keeps where
// each row begins, in four bytes a row. A Cursor then goes through the rows of one shard
// in one of several orders, without allocating. Positions are dealt to shards in turn,
// so that all shards together have each row once in a pass, whatever the order.
//
// A file of up to 4 MiB is kept in memory, a larger one is mapped into it: a row costs no
// system call in any order. The pages of the mapping that rows were taken from count as
// the process's memory (RssFile in /proc/PID/status), but they are the page cache's, and
// the kernel takes them back when memory gets scarce. A page that is not in the page cache
// is read from the disk while the cursor waits; Open has just read all of them.
//
// A file that is changed or cut off while it is in use ends the cursor with an error, or
// gives rows of other text. It does no further harm: who reads the mapping survives that the
// file ends before the mapping does.
package feed
