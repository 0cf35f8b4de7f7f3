package kernel

import (
	"fmt"

	"dyno/host/proc"
)

// Bounds of the search for processes below the root.
const (
	mostWalks = 100 // through /proc, until one finds nothing new
)

// below returns the processes of all that descend from root or from those already known.
// It is unsettled when a parent is not among all: then a parent has died meanwhile, and
// its children now have another one.
func below(all []proc.Process, root int, known map[int]bool) (found []int, settled bool) {
	children, listed := make(map[int][]int), make(map[int]bool)
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p.PID)
		listed[p.PID] = true
	}
	settled = true
	for _, p := range all {
		if p.Parent != 0 && !listed[p.Parent] && !known[p.Parent] {
			settled = false
		}
	}
	seen := map[int]bool{root: true}
	queue := []int{root}
	for pid := range known {
		queue = append(queue, pid)
	}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent] {
			if !seen[pid] {
				seen[pid] = true
				found = append(found, pid)
				queue = append(queue, pid)
			}
		}
	}
	// A process that was known and now has another parent is still below.
	for pid := range known {
		if listed[pid] && !seen[pid] {
			found = append(found, pid)
		}
	}
	return found, settled
}

// eachThread calls add once for every thread below root, itself not included. It
// looks again until it finds nothing new. So no thread is missed if from add on
// its caller learns of a thread's children in another way.
func eachThread(root int, add func(pid, tid int) error) error {
	if _, err := proc.Read(root); err != nil {
		return fmt.Errorf("process %d: %w", root, err)
	}
	known, added := make(map[int]bool), make(map[int]bool)
	for range mostWalks {
		all, err := proc.All()
		if err != nil {
			return err
		}
		found, settled := below(all, root, known)
		for _, pid := range found {
			known[pid] = true
			for {
				tids, err := proc.Threads(pid)
				if err != nil {
					break // it is gone
				}
				fresh := false
				for _, tid := range tids {
					if added[tid] {
						continue
					}
					added[tid], fresh, settled = true, true, false
					if err := add(pid, tid); err != nil {
						return err
					}
				}
				if !fresh {
					break
				}
			}
		}
		if settled {
			return nil
		}
	}
	return fmt.Errorf("processes below %d come and go faster than they can be listed (%d attempts)", root, mostWalks)
}

// alive tells whether a thread is still there and has not begun to exit.
func alive(pid, tid int) bool {
	p, err := proc.ReadThread(pid, tid)
	return err == nil && !p.Exiting()
}
