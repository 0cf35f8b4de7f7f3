// Package faults holds the control plane to its promises while processes are killed and
// stopped, networks are cut and disks are full. It has tests only.
//
// Clients read and change resources through three replicas and write down what they asked
// and were told (history_test.go). Watchers write down what they were told (sights_test.go).
// Both are judged when all is over, and the judges are tested with histories that are
// wrong. In addition, nodes_test.go has the processes and their networks, harm_test.go the
// faults, load_test.go and caller_test.go the clients, and faults_test.go the whole.
package faults
