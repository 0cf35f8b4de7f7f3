package feed

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapping returns the data of a file, which the system reads on demand.
func mapping(f *os.File, size int) ([]byte, error) {
	object, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer func() { _ = windows.CloseHandle(object) }() // the view keeps it
	address, err := windows.MapViewOfFile(object, windows.FILE_MAP_READ, 0, 0, 0)
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// Memory of the system's, as which vet does not know an address that is converted.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size), nil
}

// forget does nothing: Windows takes the memory back when others need it.
func forget([]byte) error { return nil }

func unmap(data []byte) error {
	return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data)))))
}
