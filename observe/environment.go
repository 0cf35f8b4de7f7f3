package observe

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// An Environment describes the machine of a run, with everything that a reader needs to
// compare its figures with others. Facts that cannot be found out are left out.
type Environment struct {
	Kernel         string            `json:"kernel"` // release, such as 6.18.4
	Arch           string            `json:"arch"`   // in Go's spelling
	CPUModel       string            `json:"cpu_model,omitempty"`
	CPUs           int               `json:"cpus"`         // online
	AllowedCPUs    []int             `json:"allowed_cpus"` // on which dyno may run
	MemoryBytes    uint64            `json:"memory_bytes"`
	GoVersion      string            `json:"go_version"`
	ClockSource    string            `json:"clock_source,omitempty"`
	Virtualisation string            `json:"virtualisation,omitempty"` // a hint: the hypervisor, or "yes"
	Governor       string            `json:"cpu_governor,omitempty"`   // of frequency scaling, of the first CPU
	Limits         Limits            `json:"limits"`
	Sysctls        map[string]string `json:"sysctls,omitempty"` // those that change the results
}

// Limits are the bounds on resources.
type Limits struct {
	Descriptors     uint64 `json:"descriptors"`         // of this process, now
	DescriptorsHard uint64 `json:"descriptors_hard"`    // up to which it may raise that
	EphemeralLow    int    `json:"ephemeral_port_low"`  // ports of connecting sockets
	EphemeralHigh   int    `json:"ephemeral_port_high"` // inclusive
	Somaxconn       int    `json:"somaxconn"`           // longest accept queue
}

// sysctls that change latency or throughput of a networked program.
func sysctls() []string {
	return []string{
		"kernel.perf_event_paranoid",
		"kernel.sched_autogroup_enabled",
		"kernel.unprivileged_bpf_disabled",
		"net.core.busy_poll",
		"net.core.default_qdisc",
		"net.core.netdev_max_backlog",
		"net.core.rmem_max",
		"net.core.wmem_max",
		"net.ipv4.tcp_congestion_control",
		"net.ipv4.tcp_fastopen",
		"net.ipv4.tcp_max_syn_backlog",
		"net.ipv4.tcp_rmem",
		"net.ipv4.tcp_slow_start_after_idle",
		"net.ipv4.tcp_tw_reuse",
		"net.ipv4.tcp_wmem",
		"vm.swappiness",
	}
}

// ReadEnvironment describes this machine.
func ReadEnvironment() Environment {
	e := Environment{
		Arch:           runtime.GOARCH,
		CPUs:           onlineCPUs(),
		GoVersion:      runtime.Version(),
		ClockSource:    readLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Virtualisation: virtualisation(),
		Governor:       readLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Limits:         readLimits(),
		Sysctls:        make(map[string]string),
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		e.CPUModel = cpuModel(b)
	}
	e.readSystem()
	for _, name := range sysctls() {
		if v := readLine("/proc/sys/" + strings.ReplaceAll(name, ".", "/")); v != "" {
			e.Sysctls[name] = strings.Join(strings.Fields(v), " ")
		}
	}
	return e
}

// onlineCPUs counts the CPUs that the kernel schedules on, whether or not this
// process may use them.
func onlineCPUs() int {
	names, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	n := 0
	for _, name := range names {
		// CPU 0 often has no such file, because it cannot be taken offline.
		if readLine(name+"/online") != "0" {
			n++
		}
	}
	if err != nil || n == 0 {
		return runtime.NumCPU()
	}
	return n
}

// cpuModel finds the processor's name in /proc/cpuinfo. ARM kernels give numbers
// instead: implementer and part.
func cpuModel(b []byte) string {
	values := make(map[string]string)
	for line := range bytes.Lines(b) {
		k, v, ok := bytes.Cut(line, []byte(":"))
		key := string(bytes.TrimSpace(k))
		if _, seen := values[key]; ok && !seen {
			values[key] = string(bytes.TrimSpace(v))
		}
	}
	if m := values["model name"]; m != "" {
		return m
	}
	if part := values["CPU part"]; part != "" {
		return "implementer " + values["CPU implementer"] + " part " + part
	}
	return ""
}

// virtualisation returns the firmware's name of the machine, if the CPU or the kernel calls it virtual.
func virtualisation() string {
	if t := readLine("/sys/hypervisor/type"); t != "" {
		return t
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !isGuest(b) {
		return ""
	}
	if p := readLine("/sys/class/dmi/id/sys_vendor"); p != "" {
		return p
	}
	return "yes"
}

// isGuest looks for the flag that x86 hypervisors set. Other processors have none.
func isGuest(cpuinfo []byte) bool {
	for line := range bytes.Lines(cpuinfo) {
		if k, v, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(k)) == "flags" {
			for f := range bytes.FieldsSeq(v) {
				if string(f) == "hypervisor" {
					return true
				}
			}
			return false
		}
	}
	return false
}

func readLimits() Limits {
	var l Limits
	if f := strings.Fields(readLine("/proc/sys/net/ipv4/ip_local_port_range")); len(f) == 2 {
		l.EphemeralLow, _ = strconv.Atoi(f[0])  // the kernel's own numbers;
		l.EphemeralHigh, _ = strconv.Atoi(f[1]) // zero if it ever prints others
	}
	l.Somaxconn, _ = strconv.Atoi(readLine("/proc/sys/net/core/somaxconn"))
	return l
}

// readLine returns a small file's text without blanks around it, or "".
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
