// Package thread places a worker's thread and reads the processor time that threads use.
//
// Only Linux places threads. On macOS the times are sums of user and system, given as User, and
// threads have no number.
package thread
