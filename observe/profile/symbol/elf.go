package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Bounds of the data read of one file. A table that is larger is not read, and its
// functions have no names.
const (
	maxSection = 256 << 20
	maxNote    = 4 << 10
)

// A File knows the functions of a program or a shared library. It holds nothing
// open, and may be used by several goroutines.
type File struct {
	BuildID string // hexadecimal, of the linker's note; "" if there is none

	segments []segment
	symbols  spans
	goTable  *goTable
}

// A segment holds the addresses of a program header of type PT_LOAD.
type segment struct{ offset, address, size uint64 }

// Open reads the functions of an ELF file. A file without any, because it was
// stripped, is no error.
func Open(r io.ReaderAt) (file *File, err error) {
	// debug/elf is not hardened against damaged files, and others have built these.
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("elf: damaged: %v", p)
		}
	}()
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("elf: %w", err)
	}
	f := &File{BuildID: buildID(e)}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			f.segments = append(f.segments, segment{p.Off, p.Vaddr, p.Filesz})
		}
	}
	s := symbols(e)
	f.goTable = s.goTable(e)
	f.symbols = sortSpans(s.functions)
	return f, nil
}

// Lookup returns the functions at an offset in the file, the innermost inlined
// first; nil if none is known.
func (f *File) Lookup(offset uint64) []string {
	for _, s := range f.segments {
		if offset >= s.offset && offset-s.offset < s.size {
			return f.At(offset - s.offset + s.address)
		}
	}
	return nil
}

// At is Lookup by the address that the file was linked for.
func (f *File) At(address uint64) []string {
	if f.goTable != nil {
		if names := f.goTable.find(address); names != nil {
			return names
		}
	}
	if name := f.symbols.find(address); name != "" {
		return []string{Name(name)}
	}
	return nil
}

// elfSymbols holds the facts from the symbol tables.
type elfSymbols struct {
	functions spans
	text      uint64 // runtime.text
	inlines   uint64 // go:func.*
}

func symbols(e *elf.File) (s elfSymbols) {
	if len(e.Sections) == 0 {
		return s
	}
	for _, read := range []func() ([]elf.Symbol, error){e.Symbols, e.DynamicSymbols} {
		if tooLarge(e, elf.SHT_SYMTAB, elf.SHT_DYNSYM, elf.SHT_STRTAB) {
			continue
		}
		all, err := read()
		if err != nil {
			continue // there is no such table
		}
		for _, y := range all {
			switch y.Name {
			case "runtime.text":
				s.text = y.Value
			case "go:func.*":
				s.inlines = y.Value
			}
			kind := elf.ST_TYPE(y.Info)
			if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || y.Section == elf.SHN_UNDEF || y.Value == 0 || y.Name == "" {
				continue
			}
			s.functions = append(s.functions, span{y.Value, y.Value + y.Size, y.Name, rank(y)})
		}
	}
	return s
}

// rank prefers, of several names of a function, the one that others call it by: with a
// size, global, and with few underscores before it.
func rank(y elf.Symbol) int {
	r := len(y.Name) - len(strings.TrimLeft(y.Name, "_"))
	switch elf.ST_BIND(y.Info) {
	case elf.STB_GLOBAL:
	case elf.STB_WEAK:
		r += 1
	default:
		r += 100
	}
	if y.Size == 0 {
		r += 1000
	}
	return r
}

func tooLarge(e *elf.File, kinds ...elf.SectionType) bool {
	for _, s := range e.Sections {
		for _, k := range kinds {
			if s.Type == k && s.Size > maxSection {
				return true
			}
		}
	}
	return false
}

// section returns a section's bytes, nil if there is none or it is too large.
func section(e *elf.File, names ...string) (*elf.Section, []byte) {
	for _, name := range names {
		if s := e.Section(name); s != nil && s.Type != elf.SHT_NOBITS && s.Size <= maxSection {
			if b, err := s.Data(); err == nil {
				return s, b
			}
		}
	}
	return nil, nil
}

// goTable returns the Go functions, or nil.
func (s *elfSymbols) goTable(e *elf.File) *goTable {
	lines, data := section(e, ".gopclntab", ".data.rel.ro.gopclntab")
	if data == nil {
		return nil
	}
	text, inlines := s.text, s.inlines
	if section, b := section(e, ".go.module"); section != nil && (text == 0 || inlines == 0) && e.Class == elf.ELFCLASS64 && len(b) >= 328 {
		// The file is stripped and of Go 1.26: moduledata has the table
		// (runtime/symtab.go), unless the loader has yet to fill it in.
		if t := e.Section(".text"); t != nil {
			if v := e.ByteOrder.Uint64(b[176:]); v >= t.Addr && v < t.Addr+t.Size {
				text = v
			}
		}
		inlines = e.ByteOrder.Uint64(b[320:])
	}
	t, err := newGoTable(data, e.ByteOrder, text)
	if err != nil && text == 0 {
		if section := e.Section(".text"); section != nil { // what the Go linker makes when it works alone
			t, err = newGoTable(data, e.ByteOrder, section.Addr)
		}
	}
	if err != nil {
		return nil
	}
	if inlines > lines.Addr && inlines < lines.Addr+lines.Size {
		t.inlines = data[inlines-lines.Addr:]
	} else if inlines != 0 { // before Go 1.26 in .rodata or .data.rel.ro
		for _, other := range e.Sections {
			if inlines >= other.Addr && inlines < other.Addr+other.Size && other.Type == elf.SHT_PROGBITS && other.Size <= maxSection {
				if b, err := other.Data(); err == nil {
					t.inlines = b[inlines-other.Addr:]
				}
				break
			}
		}
	}
	return t
}

// buildID returns the linker's note.
func buildID(e *elf.File) string {
	s := e.Section(".note.gnu.build-id")
	if s == nil || s.Size > maxNote {
		return ""
	}
	b, err := s.Data()
	if err != nil || len(b) < 16 || !bytes.Equal(b[12:16], []byte("GNU\x00")) {
		return ""
	}
	if n := uint64(e.ByteOrder.Uint32(b[4:])); 16+n <= uint64(len(b)) {
		return hex.EncodeToString(b[16 : 16+n])
	}
	return ""
}
