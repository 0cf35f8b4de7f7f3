// Package echofb holds the messages of unary Echo in FlatBuffers, as flatc generates them from
// echo.fbs. Nothing in it verifies what came from somebody else: to read a damaged message
// panics.
package echofb

//go:generate bash ../../../../scripts/flatbuffers.sh ../echo.fbs ..
