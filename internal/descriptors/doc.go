// Package descriptors makes room for file descriptors before there are many.
package descriptors

// Many is enough for all connections of a server on one machine. The table takes half a mebibyte then, because an entry is a
// pointer.
const Many = 1 << 16
