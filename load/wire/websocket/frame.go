package websocket

import "encoding/binary"

// An opcode says what a frame is (RFC 6455, section 5.2).
type opcode uint8

const (
	opContinuation opcode = 0x0
	opText         opcode = 0x1
	opBinary       opcode = 0x2
	opClose        opcode = 0x8
	opPing         opcode = 0x9
	opPong         opcode = 0xA
)

func (o opcode) control() bool { return o >= opClose }

// Bits of a frame's first two bytes.
const (
	bitFinal      = 0x80
	bitCompressed = 0x40 // RSV1 (RFC 7692, section 6)
	bitsReserved  = 0x70
	bitMasked     = 0x80
)

const (
	maxControl    = 125 // bytes of a control frame's payload
	maxServerHead = 10  // bytes of the head of a frame without a mask
	maxClientHead = 14
)

// appendHead appends the head of a client's frame.
func appendHead(dst []byte, op opcode, compressed bool, size int, key uint32) []byte {
	first := byte(op) | bitFinal
	if compressed {
		first |= bitCompressed
	}
	switch {
	case size <= maxControl:
		dst = append(dst, first, bitMasked|byte(size))
	case size <= 0xFFFF:
		dst = binary.BigEndian.AppendUint16(append(dst, first, bitMasked|126), uint16(size))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, first, bitMasked|127), uint64(size)) //nolint:gosec // not negative
	}
	return binary.LittleEndian.AppendUint32(dst, key)
}

// mask masks a payload in place (section 5.3). The key's bytes are in the order of little-endian.
func mask(b []byte, key uint32) {
	wide := uint64(key)<<32 | uint64(key)
	for ; len(b) >= 32; b = b[32:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(b[8:])^wide)
		binary.LittleEndian.PutUint64(b[16:], binary.LittleEndian.Uint64(b[16:])^wide)
		binary.LittleEndian.PutUint64(b[24:], binary.LittleEndian.Uint64(b[24:])^wide)
	}
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
	}
	for i := range b {
		b[i] ^= byte(wide >> (8 * i))
	}
}
