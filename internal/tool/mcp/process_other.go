//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// childAttributes returns nil: there are no process groups.
func childAttributes() *syscall.SysProcAttr { return nil }

// signalGroup kills a server; the processes that it has started see their input end.
func signalGroup(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil && s == syscall.SIGKILL {
		_ = p.Kill() // it may have ended
	}
}
