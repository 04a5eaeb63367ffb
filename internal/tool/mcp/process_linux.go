package mcp

import "syscall"

// childAttributes returns attributes that put a server into its own process group, and make the kernel kill it when this process ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup signals a server and the processes that it has started.
func signalGroup(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) } // an empty group needs no signal
