// Package feed reads rows of data for load, such as the users to log in with. It reads CSV files (RFC
// 4180) and JSON Lines, of any size.
//
// Open reads a file once from beginning to end and reports its faults by line and column. So no fault
// is left for the time under load. It keeps where each row begins, in four bytes a row. A Cursor then
// goes through the rows of one shard in one of several orders, without allocating. Positions are dealt
// to shards in turn. So all shards together have each row once in a pass, whatever the order.
//
// A file of up to 4 MiB is kept in memory, a larger one is mapped into it: a row costs no system call
// in any order. Used pages of the mapping count as the process's memory (RssFile in /proc/PID/status).
// But they belong to the page cache, and the kernel takes them back when memory gets scarce. A page
// that is not in the page cache is read from the disk while the cursor waits; Open has just read all of
// them.
//
// If a file in use is changed or cut off, the cursor ends with an error or gives other rows. It does no
// further harm: who reads the mapping survives that the file ends before the mapping does.
package feed
