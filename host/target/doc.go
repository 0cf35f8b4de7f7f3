// Package target starts the program under load, places it on CPUs, waits until
// it is ready, and stops it, with everything it has started in turn.
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
// A target does not run below dyno itself but below a supervisor: dyno's own
// executable, started again in a role of its own (package child). The supervisor holds one end of a socket pair. The kernel closes dyno's
// end when dyno is gone, for whatever reason, SIGKILL included; the supervisor then
// kills everything below it and exits. It is the reaper of its descendants
// (PR_SET_CHILD_SUBREAPER), so that a process which daemonizes or calls setsid
// stays below it and is found.
//
// The supervisor may be killed too. Then the kernel kills the started process
// itself (PR_SET_PDEATHSIG), and dyno, while it lives, whatever else is left in
// the supervisor's session and control group. Only a process which had called setsid
// survives that, and only if it outlives its parent and has no limits. A process that another program starts on
// the target's behalf (a container by its daemon, a systemd unit) was never
// below the supervisor and is not covered.
//
// # Where it runs
//
// CPUs, memory node and priority are given to the thread that forks the target, and
// inherited. For limits the supervisor makes a control group, below dyno's own with
// version 1 or where version 2 lets it, else beside it. The target is in it before
// its program begins, and so is all that it starts; the supervisor is not. The supervisor
// removes the group when nothing of the target is left, and dyno does when the supervisor
// was killed; if both are, an empty group named dyno-… remains. What cannot be had is
// ErrPlacement, with the reason and the remedy: no limit is left out silently.
package target
