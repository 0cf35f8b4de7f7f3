package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// maxNotes bounds the decoded notes of one entry: well above a group's bytes.
const maxNotes = 8 << 20

// packer and unpacker are zstd's (RFC 8878). Both may be used from any goroutine.
var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<18), zstd.WithLowerEncoderMem(true)) // no option is out of range
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxNotes))                                                                  // no option is out of range
)

// packNotes encodes the notes of a group, compressed; nil if it has none. Notes of a group are much alike, so an
// entry takes a few KiB instead of up to 64. etcd's database needs consecutive pages for an entry; after a while few
// of them are free, so large entries made its file grow with every write.
func packNotes(group []*pending) []byte {
	any := false
	for _, p := range group {
		any = any || len(p.request.Note) > 0
	}
	if !any {
		return nil
	}
	text := appendNotes(group)
	return packer.EncodeAll(text, make([]byte, 0, len(text)/4))
}

// unpackNotes decodes the result of packNotes.
func unpackNotes(value []byte) ([][]byte, error) {
	text, err := unpacker.DecodeAll(value, nil)
	if err != nil {
		return nil, fmt.Errorf("journal: entry is damaged: %w", err)
	}
	return decodeNotes(text)
}

// noteBytes estimates the bytes of an entry with notes in the journal.
func noteBytes(notes []byte) int64 {
	if len(notes) == 0 {
		return 0
	}
	return int64(len(notes) + len(journalKey) + nameBytes + overhead)
}

// appendNotes encodes the notes of a group: each with its length before it.
func appendNotes(group []*pending) []byte {
	size := 0
	for _, p := range group {
		size += len(p.request.Note) + binary.MaxVarintLen32
	}
	text := make([]byte, 0, size)
	for _, p := range group {
		text = binary.AppendUvarint(text, uint64(len(p.request.Note)))
		text = append(text, p.request.Note...)
	}
	return text
}

// decodeNotes decodes the result of appendNotes.
func decodeNotes(text []byte) (notes [][]byte, err error) {
	for len(text) > 0 {
		n, w := binary.Uvarint(text)
		if w <= 0 || n > uint64(len(text)-w) {
			return nil, errors.New("journal: entry is cut off")
		}
		notes = append(notes, text[w:w+int(n)]) //nolint:gosec // at most len(text)
		text = text[w+int(n):]                  //nolint:gosec // no option is out of range
	}
	return notes, nil
}
