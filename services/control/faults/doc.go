// Package faults tests the control plane's promises while processes are killed and stopped, networks are cut and
// disks are full. It has tests only.
//
// Clients read and change resources through three replicas, and record requests and responses (history_test.go,
// locks_test.go, policies_test.go). Watchers record events (sights_test.go). Instances are checked (checks_test.go). All
// records are judged at the end, and the judges are tested with wrong histories. nodes_test.go has the processes and their networks, and harm_test.go the faults. load_test.go and
// caller_test.go have the clients, and faults_test.go joins all.
package faults
