//go:build !linux

package main

import "syscall"

// withParent is only known on Linux.
var withParent *syscall.SysProcAttr
