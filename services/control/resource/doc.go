// Package resource is what the control plane keeps: policies, configurations and service
// instances; what makes them valid, how they change, and when an instance that is silent
// is taken for gone. It does no I/O and reads no clock.
//
//   - A Ref names a resource; its key is where the store has it.
//   - Check methods report every fault at once, each with the place in the document.
//   - Config.For is the gray release: which content a client is to have.
//   - Liveness decides who is gone, and forgives faults that are the control plane's own.
package resource
