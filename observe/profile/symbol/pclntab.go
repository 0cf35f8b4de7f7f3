package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// The version of Go's function table, "pclntab", that Go 1.20 and later write (runtime/symtab.go,
// internal/abi/symtab.go, cmd/link/internal/ld/pcln.go). Older programs are named by their ELF symbols.
// debug/gosym reads the table too, but not what was inlined.
const (
	pclnMagic       = 0xfffffff1
	pclnHeadWords   = 8 // after the first 8 bytes
	pclnFuncBytes   = 44
	inlTreeIndex    = 2 // PCDATA_InlTreeIndex
	inlTree         = 3 // FUNCDATA_InlTree
	inlinedCallSize = 16
	maxInlineDepth  = 64 // deeper is a damaged table
	maxGoFunctions  = 4 << 20
	maxGoName       = 4 << 10
)

// A goTable looks functions up by address.
type goTable struct {
	order   binary.ByteOrder
	quantum uint64 // smallest instruction
	text    uint64 // base address of offsets
	names   []byte // funcnametab
	pcs     []byte // pctab
	funcs   []byte // functab, and the records it points at
	count   int
	inlines []byte // go:func.*; empty where it was not found
}

// newGoTable reads the head. A text of 0 means the one that the table names, which
// it does up to Go 1.25.
func newGoTable(data []byte, order binary.ByteOrder, text uint64) (*goTable, error) {
	if len(data) < 8 {
		return nil, errors.New("pclntab: too short")
	}
	size := int(data[7])
	if order.Uint32(data) != pclnMagic || size != 4 && size != 8 || len(data) < 8+pclnHeadWords*size {
		return nil, fmt.Errorf("pclntab: begins with %x; want a table as Go 1.20 and later write it", data[:8])
	}
	word := func(i int) uint64 {
		if size == 4 {
			return uint64(order.Uint32(data[8+4*i:]))
		}
		return order.Uint64(data[8+8*i:])
	}
	t := &goTable{order: order, quantum: uint64(data[6]), text: text}
	t.names, t.pcs, t.funcs = from(data, word(3)), from(data, word(6)), from(data, word(7))
	if t.text == 0 {
		t.text = word(2)
	}
	if t.text == 0 {
		return nil, errors.New("pclntab: where the program's text begins is not known")
	}
	n := word(0)
	if n > maxGoFunctions || uint64(len(t.funcs)) < n*8+4 {
		return nil, fmt.Errorf("pclntab: %d functions in %d bytes", n, len(t.funcs))
	}
	t.count = int(n)
	return t, nil
}

// from returns the rest of b, nothing where there is none.
func from(b []byte, offset uint64) []byte {
	if offset >= uint64(len(b)) {
		return nil
	}
	return b[offset:]
}

// find returns the names of the functions at an address, the innermost inlined
// first; nil if there is none.
func (t *goTable) find(address uint64) []string {
	pc := address - t.text
	if address < t.text || t.count == 0 || pc >= t.entry(t.count) {
		return nil
	}
	i := sort.Search(t.count, func(i int) bool { return t.entry(i) > pc }) - 1
	if i < 0 {
		return nil
	}
	f := from(t.funcs, uint64(t.order.Uint32(t.funcs[8*i+4:])))
	if len(f) < pclnFuncBytes {
		return nil
	}
	outer := t.name(t.order.Uint32(f[4:]))
	if outer == "" {
		return nil
	}
	return append(t.inlined(f, t.entry(i), pc), outer)
}

// entry returns where function i begins, counted from the text's start. The one
// after the last ends it.
func (t *goTable) entry(i int) uint64 { return uint64(t.order.Uint32(t.funcs[8*i:])) }

func (t *goTable) name(offset uint32) string {
	b := from(t.names, uint64(offset))
	b = b[:min(len(b), maxGoName)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return ""
}

// inlined returns the calls that were inlined at pc into the function of record f
// that begins at entry.
func (t *goTable) inlined(f []byte, entry, pc uint64) (names []string) {
	npcdata, nfuncdata := uint64(t.order.Uint32(f[28:])), uint64(f[43])
	if npcdata <= inlTreeIndex || nfuncdata <= inlTree || npcdata > 64 {
		return nil
	}
	pcdata := from(f, pclnFuncBytes)
	funcdata := from(pcdata, 4*npcdata)
	if uint64(len(pcdata)) < 4*npcdata || uint64(len(funcdata)) < 4*nfuncdata {
		return nil
	}
	calls := from(t.inlines, uint64(t.order.Uint32(funcdata[4*inlTree:])))
	index := t.order.Uint32(pcdata[4*inlTreeIndex:])
	for range maxInlineDepth {
		at := t.value(index, entry, pc)
		if at < 0 || uint64(len(calls)) < uint64(at+1)*inlinedCallSize {
			break
		}
		call := calls[uint64(at)*inlinedCallSize:]
		name := t.name(t.order.Uint32(call[4:]))
		if name == "" {
			break
		}
		names = append(names, name)
		pc = entry + uint64(t.order.Uint32(call[8:])) // the call itself, in its caller
	}
	return names
}

// value returns what the table at an offset of pctab says at pc, -1 where it says nothing. The table is
// pairs: a zigzag-coded difference of values, and a difference of addresses up to which the value
// holds.
func (t *goTable) value(offset uint32, entry, pc uint64) int64 {
	b := from(t.pcs, uint64(offset))
	if offset == 0 {
		return -1
	}
	value, at := int64(-1), entry
	for first := true; ; first = false {
		dv, n := binary.Uvarint(b)
		if n <= 0 || dv == 0 && !first {
			return -1
		}
		b = b[n:]
		dpc, n := binary.Uvarint(b)
		if n <= 0 || dpc == 0 {
			return -1
		}
		b = b[n:]
		value += int64(dv>>1) ^ -int64(dv&1)
		if at += dpc * t.quantum; pc < at {
			return value
		}
	}
}
