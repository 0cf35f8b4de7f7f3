package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/exit"
)

// The addresses of both ends.
const (
	nearAddress = "10.99.0.1"
	farAddress  = "10.99.0.2"
)

// maxPacket is the device's default MTU: the kernel cuts larger segments.
const maxPacket = 1500

// setting is where the kernel shows the values of the caller's network namespace.
const setting = "/proc/sys/net/"

// Settings are those of both ends.
type Settings struct {
	Sysctl map[string]string
	Route  string // attributes of the route to the other end, as ip-route(8) has them
}

// run runs a command at the far end of a link, with settings of the kernel at both ends. The near end is the calling
// process's network namespace, which must not be the machine's. It returns when the command has ended.
func run(ctx context.Context, c Conditions, s Settings, command *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: nothing else may run in the far namespace
		done <- runLocked(ctx, c, s, command)
	}()
	return <-done
}

func runLocked(ctx context.Context, c Conditions, s Settings, command *exec.Cmd) error {
	near, far, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer unix.Close(near)
	defer unix.Close(far)
	// The kernel ends the command with this thread.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	if err := command.Start(); err != nil {
		return err
	}
	var stop atomic.Bool
	var carried error
	var wait sync.WaitGroup
	wait.Go(func() {
		if carried = carry(c, near, far, &stop); carried != nil {
			_ = command.Process.Kill() // without a link it is of no use
		}
	})
	err = command.Wait()
	stop.Store(true)
	wait.Wait()
	if carried == nil && ctx.Err() != nil {
		return nil
	}
	return errors.Join(carried, err)
}

// open makes both ends. The calling thread is in the far namespace then.
func open(ctx context.Context, s Settings) (near, far int, err error) {
	if own, machine := namespace("thread-self"), namespace("1"); own == machine {
		return -1, -1, exit.With(exit.Usage, errors.New("the near end needs a network namespace of its own"), "unshare --net link …")
	}
	if near, err = openEnd(ctx, nearAddress, farAddress, s); err != nil {
		return -1, -1, fmt.Errorf("near end: %w", err)
	}
	if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
		far, err = openEnd(ctx, farAddress, nearAddress, s)
	}
	if err != nil {
		unix.Close(near)
		return -1, -1, fmt.Errorf("far end: %w", err)
	}
	return near, far, nil
}

func namespace(process string) string {
	name, err := os.Readlink("/proc/" + process + "/ns/net")
	if err != nil {
		return err.Error()
	}
	return name
}

// openEnd makes a device in the calling thread's namespace. Its descriptor has the packets that are sent to peer.
func openEnd(ctx context.Context, address, peer string, s Settings) (device int, err error) {
	for name, value := range s.Sysctl {
		if err := os.WriteFile(setting+strings.ReplaceAll(strings.TrimPrefix(name, "net."), ".", "/"), []byte(value), 0); err != nil {
			return -1, err
		}
	}
	device, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq("link0")
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(device, unix.TUNSETIFF, request))
	}
	for _, arguments := range []string{"link set lo up", "address add " + address + " dev link0", "link set link0 up", "route add " + peer + " dev link0 " + s.Route} {
		if err == nil {
			var said []byte
			if said, err = exec.CommandContext(ctx, "ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
				err = fmt.Errorf("ip %s: %w: %s", arguments, err, said)
			}
		}
	}
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	return device, nil
}

// carry carries packets between both ends until stop is set. One thread does it all: it sleeps until a packet comes or is due.
func carry(c Conditions, near, far int, stop *atomic.Bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Sleeps end within a microsecond, as far as the kernel can, instead of 50.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	ends := [2]int{near, far}
	lines := [2]*line{newLine(c, 0), newLine(c, 1)} // from each end to the other
	start := time.Now()
	for !stop.Load() {
		fds := []unix.PollFd{{Fd: int32(ends[0]), Events: unix.POLLIN}, {Fd: int32(ends[1]), Events: unix.POLLIN}} //nolint:gosec // descriptors
		sleep := 50 * time.Millisecond                                                                             // then stop is read again
		for _, l := range lines {
			if at, ok := l.next(); ok {
				sleep = max(0, min(sleep, at-time.Since(start)))
			}
		}
		timeout := unix.NsecToTimespec(int64(sleep))
		if _, err := unix.Ppoll(fds, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		for i, l := range lines {
			if fds[i].Revents != 0 {
				if err := take(ends[i], l, start); err != nil {
					return fmt.Errorf("read a packet: %w", err)
				}
			}
			for now := time.Since(start); ; {
				p := l.receive(now)
				if p == nil {
					break
				}
				// A device without room loses the packet, as any does.
				if _, err := unix.Write(ends[1-i], p); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
					return fmt.Errorf("write a packet: %w", err)
				}
			}
		}
	}
	return nil
}

// maxTaken bounds the packets that are read before others are written.
const maxTaken = 64

// take reads packets from one end into its line.
func take(from int, l *line, start time.Time) error {
	var data [maxPacket]byte
	for range maxTaken {
		n, err := unix.Read(from, data[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case err == nil:
			l.send(time.Since(start), append([]byte(nil), data[:n]...))
		}
	}
	return nil
}
