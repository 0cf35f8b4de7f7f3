// Package resource defines the control plane's data: policies, configurations and service instances. It validates and
// changes them, and decides when a silent instance is gone. It does no I/O and reads no clock.
//
//   - A Ref names a resource; its key is where the store has it.
//   - Check methods report every fault at once, each with the place in the document.
//   - Config.For is the gray release: which content a client is to have.
//   - Liveness decides who is gone, and forgives faults that are the control plane's own.
package resource
