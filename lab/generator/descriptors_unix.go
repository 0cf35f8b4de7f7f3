//go:build unix

package generator

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns how many descriptors this process may have.
func DescriptorLimit() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("descriptors: %w", err)
	}
	return limit.Cur, nil
}
