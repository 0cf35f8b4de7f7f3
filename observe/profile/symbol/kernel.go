package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Bounds of texts. The rest is not read.
const (
	maxTextLines = 2 << 20
	maxTextBytes = 256 << 20
)

// A Kernel knows the kernel's functions, its modules' and its BPF programs'.
type Kernel struct{ functions spans }

// OpenKernel reads /proc/kallsyms. For users who may not know addresses
// (kernel.kptr_restrict) that file has zeros, and the Kernel then has no functions.
func OpenKernel() (*Kernel, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return &Kernel{}, fmt.Errorf("kernel symbols: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return parseKernel(f)
}

// parseKernel reads lines of address, type, name and, in brackets, module
// (proc_kallsyms(5)).
func parseKernel(r io.Reader) (*Kernel, error) {
	var s spans
	lines := bufio.NewScanner(io.LimitReader(r, maxTextBytes))
	for n := 0; lines.Scan() && n < maxTextLines; n++ {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 3 || len(f[1]) != 1 || !strings.ContainsRune("tTwW", rune(f[1][0])) {
			continue
		}
		address, err := strconv.ParseUint(string(f[0]), 16, 64)
		if err != nil || address == 0 {
			continue
		}
		name := string(f[2])
		r := len(name) - len(strings.TrimLeft(name, "_"))
		if f[1][0] == 't' || f[1][0] == 'w' {
			r++
		}
		if name == "_text" || name == "_stext" { // marks, no functions
			continue
		}
		s = append(s, span{start: address, name: name, rank: r})
	}
	if err := lines.Err(); err != nil {
		return &Kernel{}, fmt.Errorf("kernel symbols: %w", err)
	}
	return &Kernel{sortSpans(s)}, nil
}

// Lookup returns the function at an address, or "".
func (k *Kernel) Lookup(address uint64) string {
	return clone.ReplaceAllString(k.functions.find(address), "")
}
