//go:build unix

package feed

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping returns the data of a file, which the kernel reads on demand.
func mapping(f *os.File, size int) ([]byte, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	return data, os.NewSyscallError("mmap", err)
}

// forget stops looked at pages from counting as the process's memory.
func forget(data []byte) error {
	return os.NewSyscallError("madvise", unix.Madvise(data, unix.MADV_DONTNEED))
}

func unmap(data []byte) error { return os.NewSyscallError("munmap", unix.Munmap(data)) }
