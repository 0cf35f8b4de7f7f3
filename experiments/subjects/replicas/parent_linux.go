package main

import "syscall"

// withParent has the kernel end a replica with this process.
var withParent = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
