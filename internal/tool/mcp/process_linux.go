package mcp

import "syscall"

const (
	terminated = syscall.SIGTERM
	killed     = syscall.SIGKILL
)

// childAttributes puts a server in a process group of its own and has the kernel kill it when we die.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: killed}
}

// signalGroup signals a server and what it has started.
func signalGroup(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) } // an empty group needs no signal
