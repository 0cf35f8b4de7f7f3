package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// A JIT knows the functions that a program has compiled at run time.
type JIT struct{ functions spans }

// ParseJIT reads the text that such programs write as /tmp/perf-PID.map: lines of start
// and size, hexadecimal, and a name (tools/perf/Documentation/jit-interface.txt of the
// kernel). Code is moved and replaced. If several functions are at one place, the last
// line is right. Lines that cannot be read are skipped.
func ParseJIT(r io.Reader) (*JIT, error) {
	var s spans
	lines := bufio.NewScanner(io.LimitReader(r, maxTextBytes))
	for n := 0; lines.Scan() && n < maxTextLines; n++ {
		start, rest, ok := bytes.Cut(lines.Bytes(), []byte(" "))
		size, name, ok2 := bytes.Cut(rest, []byte(" "))
		if !ok || !ok2 || len(name) == 0 {
			continue
		}
		from, err1 := strconv.ParseUint(string(bytes.TrimPrefix(start, []byte("0x"))), 16, 64)
		long, err2 := strconv.ParseUint(string(bytes.TrimPrefix(size, []byte("0x"))), 16, 64)
		if err1 != nil || err2 != nil || long == 0 || from+long < from {
			continue
		}
		s = append(s, span{from, from + long, string(name), -n})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("jit map: %w", err)
	}
	return &JIT{sortSpans(s)}, nil
}

// Lookup returns the function at an address of the process, or "".
func (j *JIT) Lookup(address uint64) string { return Name(j.functions.find(address)) }

// managed returns the name of a method that .NET has compiled, as assembly!Type.Method. Tools for .NET
// write it so. Its perf map has, without a documented form,
//
//	result [assembly] Type::Method(parameters)[tier]
//
// A method is compiled several times, in tiers; they are one function. It returns false for other
// forms.
func managed(raw string) (name string, ok bool) {
	end := strings.LastIndexByte(raw, '[')
	if end < 1 || raw[end-1] != ')' || !strings.HasSuffix(raw, "]") {
		return "", false
	}
	for rest := raw[:end]; ; {
		_, after, found := strings.Cut(rest, "[")
		if !found {
			return "", false
		}
		assembly, method, closed := strings.Cut(after, "] ")
		if !closed || !isAssembly(assembly) {
			rest = after
			continue
		}
		kind, method, found := strings.Cut(method, "::")
		if !found {
			return "", false
		}
		method, _, _ = strings.Cut(method, "(")
		return assembly + "!" + kind + "." + method, true
	}
}

// isAssembly tells whether a name may be an assembly's.
func isAssembly(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0
}
