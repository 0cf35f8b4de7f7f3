// Package fleet holds dyno's fleet against a control plane. It has tests only: their program links etcd, which
// other tests of the command line need not.
package fleet
