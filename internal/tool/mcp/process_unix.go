//go:build unix && !linux

package mcp

import "syscall"

// childAttributes returns attributes that put a server into its own process group. Nothing kills it when this process ends, but its standard
// input ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// signalGroup signals a server and the processes that it has started.
func signalGroup(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) } // an empty group needs no signal
