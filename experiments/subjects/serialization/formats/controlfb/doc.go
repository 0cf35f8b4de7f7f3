// Package controlfb holds resources and events in FlatBuffers, as flatc generates them from
// control.fbs. Nothing in it verifies what came from somebody else: to read a damaged message
// panics, and package formats recovers from that.
package controlfb

//go:generate bash ../../../../../scripts/flatbuffers.sh ../control.fbs ..
