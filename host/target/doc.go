// Package target starts the program under load, places it on CPUs, and waits until it is ready. It
// stops it together with everything that it has started.
//
//	p, err := target.Start(ctx, target.Spec{
//		Args:  []string{"nginx", "-g", "daemon off;"},
//		CPUs:  []int{0},
//		Ready: target.Probe{TCP: "127.0.0.1:8080"},
//	})
//	defer p.Stop(context.Background())
//
// # Nothing is orphaned
//
// A target does not run below dyno itself but below a supervisor: dyno's own executable, started again
// in a role of its own (package child). The supervisor holds one end of a socket pair. The kernel
// closes dyno's end when dyno is gone, for whatever reason, SIGKILL included. The supervisor then kills
// everything below it and exits. It is the reaper of its descendants (PR_SET_CHILD_SUBREAPER). So a
// process that daemonizes or calls setsid stays below the supervisor and is found.
//
// The supervisor may be killed too. Then the kernel kills the started process itself
// (PR_SET_PDEATHSIG). dyno, if it is alive, kills whatever else is left in the supervisor's session and
// control group. A process survives this only if it had called setsid, outlives its parent and has no
// limits. Processes that another program starts for the target (a container's daemon, a systemd unit)
// are never below the supervisor. They are not covered.
//
// # Where it runs
//
// The thread that forks the target gets the CPUs, the memory node and the priority; the target inherits
// them. For limits the supervisor makes a control group: a child of dyno's own group with version 1, or
// where version 2 allows it, and otherwise a sibling. The target is in the group before its program
// begins, and so is everything that it starts. The supervisor is not in the group. It removes the group
// when nothing of the target is left; if the supervisor was killed, dyno removes it. If both are
// killed, an empty group named dyno-… remains. If any of this is not possible, the error is
// ErrPlacement, with the reason and a hint: no limit is left out silently.
package target
