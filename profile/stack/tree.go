package stack

import (
	"os"
	"strconv"
	"strings"
)

// Below returns the processes below root, parents first, as far as /proc shows them.
func Below(root int) []int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ { // found grows; a process has one parent, so it ends
		found = append(found, children[found[i]]...)
	}
	return found
}

// parentOf reads the second field after the name, which is in parentheses and may
// hold some itself (proc_pid_stat(5)).
func parentOf(pid int) (int, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(f[1])
	return parent, err == nil
}
