package symbol

import (
	"fmt"
	"os"
	"sync"
)

// maxCached bounds how many files a Cache remembers. After that it is emptied.
const maxCached = 512

// A Cache reads each build of a file once. The zero value is ready, and may be used
// by several goroutines.
type Cache struct {
	mu     sync.Mutex // guards files and kernel
	files  map[identity]*File
	kernel *Kernel
}

// An identity tells builds of a file apart without reading them.
type identity struct {
	device, inode   uint64
	size            int64
	seconds, nanoes int64 // when it was changed
}

// File returns the functions of an open file.
func (c *Cache) File(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	id, ok := identityOf(info)
	if !ok || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file", f.Name())
	}
	c.mu.Lock()
	defer c.mu.Unlock() // held while reading: another request for the same file waits, and does not read it again
	if known, ok := c.files[id]; ok {
		return known, nil
	}
	file, err := Open(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if c.files == nil || len(c.files) >= maxCached {
		c.files = map[identity]*File{}
	}
	c.files[id] = file
	return file, nil
}

// Kernel returns the kernel's functions as they were when first asked for.
// Modules loaded later are not known.
func (c *Cache) Kernel() (*Kernel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernel == nil {
		k, err := OpenKernel()
		if err != nil {
			return k, err
		}
		c.kernel = k
	}
	return c.kernel, nil
}
