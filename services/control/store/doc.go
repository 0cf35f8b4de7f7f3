// Package store is the control plane's durable storage: an etcd, embedded in the process, or an external cluster.
//
//	s, err := store.Open(ctx, store.Config{Dir: "data"})
//	outcome, err := s.Apply(ctx, store.Request{If: …, Then: …})
//	err = s.Follow(ctx, store.State, func(b store.Batch) { … })
//
// What it promises:
//
//   - A Request is carried out whole or not at all, and its Outcome says which. When
//     Apply returns nil the change is on the disks of a majority of the members.
//   - Requests that wait at the same time go to etcd in one transaction (group commit),
//     each with its own conditions. A group whose fate is not known is sent again under
//     the same name, so that it takes effect once.
//   - Follow tells every key's changes in order. Where etcd has compacted what was
//     missed, it lists again and tells the difference: nothing is lost or invented, but
//     the values of a key in between are missing, and the Batch says so.
//
// To read the source: group.go has requests and how they share a transaction. gather.go decides when, and commit.go
// finds the outcome. follow.go has changes, and head.go reads that must not be stale. upkeep.go and snapshot.go are
// for operators.
package store
