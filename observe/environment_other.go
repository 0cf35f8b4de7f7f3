//go:build !linux

package observe

// readSystem leaves out what only Linux is asked for.
func (e *Environment) readSystem() { e.Kernel = kernelRelease() }
