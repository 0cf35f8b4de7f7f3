// Package contentcoding decodes bodies of HTTP messages by their field Content-Encoding (RFC 9110,
// section 8.4): gzip (RFC 1952), deflate (RFC 1950), br (RFC 7932) and zstd (RFC 8878). Some servers
// send deflate without a header (RFC 1951). A field may list several, in the order in which they were
// applied.
//
// The decoded size is bounded: a small body can decode to any size.
package contentcoding
