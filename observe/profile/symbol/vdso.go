package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// OpenVDSO reads the shared library that the kernel maps into every process
// (vdso(7)), from our own memory: all 64-bit processes have the same.
func OpenVDSO() (*File, error) {
	address, err := vdsoAddress()
	if err != nil {
		return nil, fmt.Errorf("vdso: %w", err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, fmt.Errorf("vdso: %w", err)
	}
	defer func() { _ = memory.Close() }() // only read
	const most = 64 << 10
	image := make([]byte, most)
	n, err := memory.ReadAt(image, int64(address))
	if n == 0 {
		return nil, fmt.Errorf("vdso: %w", err)
	}
	return Open(bytes.NewReader(image[:n]))
}

// vdsoAddress finds AT_SYSINFO_EHDR in the auxiliary vector (getauxval(3)).
func vdsoAddress() (uint64, error) {
	const sysinfoEhdr = 33
	f, err := os.Open("/proc/self/auxv")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return 0, err
	}
	for ; len(b) >= 16; b = b[16:] {
		if binary.NativeEndian.Uint64(b) == sysinfoEhdr {
			return binary.NativeEndian.Uint64(b[8:]), nil
		}
	}
	return 0, errors.New("the kernel gave none")
}
